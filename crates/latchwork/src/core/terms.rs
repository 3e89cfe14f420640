//! What a task wants of a lock, and whether it can share a claim with another.

use std::sync::Arc;
use std::time::Duration;

use super::{LeaseTerms, OnWaiting, Tenure};
use crate::OwnerId;
use crate::engine::{Claim, Lifetime, Mode, Note};

/// What a task wants of a lock. Two tasks of one client can share a claim only if these agree.
#[derive(Clone, Debug)]
pub(crate) struct Terms {
    pub(crate) mode: Mode,
    pub(crate) owner: Option<OwnerId>,
    pub(crate) lease: LeaseTerms,
    /// How long a claim may stay with this client, going from task to task. Zero: it is never passed.
    pub(crate) pass_for: Duration,
    pub(crate) lifetime: Lifetime,
    /// Whether a token is needed, where the engine gives one only when asked.
    pub(crate) fenced: bool,
    /// How long it stays held at the least, however soon its guard lets go.
    pub(crate) at_least: Duration,
    pub(crate) note: Note,
    /// What everybody may read of the holder, where the engine keeps that.
    pub(crate) tells: Option<Arc<[u8]>>,
    /// The function that is told about waits.
    pub(crate) on_waiting: Option<OnWaiting>,
}

impl Terms {
    pub(super) fn could_drive(&self, claim: &Claim) -> bool {
        let is_same = (self.mode, self.lease.ttl, self.lifetime, &self.owner, &self.tells)
            == (claim.mode, claim.ttl, claim.lifetime, &claim.owner, &claim.tells);
        // The server may have granted it by now. A permit of another client with a greater token may have been held before
        // this task came, and its own would be the lower one.
        let is_permit = matches!(self.mode, Mode::Permit { .. });
        is_same && !is_permit && !claim.wait_lease.is_zero() && (claim.fenced || !self.fenced)
    }

    pub(super) fn could_hold(&self, tenure: &Tenure) -> bool {
        let claim = tenure.claim();
        // What is passed is held alone, and nested guards would wait for it; so an owner's claim is fetched anew. Readers
        // share a claim instead; and a permit that is passed on would come after a greater token, of another that is held.
        let has_owner = self.owner.is_some() || claim.owner.is_some();
        !has_owner
            && (tenure.token().is_some() || !self.fenced)
            && matches!(self.mode, Mode::Exclusive | Mode::Write)
            && (self.mode, self.lease, self.lifetime, self.pass_for)
                == (claim.mode, tenure.lease_terms(), claim.lifetime, tenure.pass_for())
    }

    pub(super) fn agrees_with(&self, other: &Self) -> bool {
        (self.mode, self.lease, self.lifetime, self.pass_for)
            == (other.mode, other.lease, other.lifetime, other.pass_for)
    }

    /// Whether a reader holds one claim together with others. Limits on each hold would be the first one's.
    pub(super) fn shares_reads(&self) -> bool {
        let is_alike = self.lease.max_hold.is_none() && self.at_least.is_zero();
        self.mode == Mode::Read && !self.pass_for.is_zero() && is_alike
    }

    /// The lease is the outermost guard's, whatever a nested one asks for.
    pub(super) fn could_nest(&self, claim: &Claim) -> bool {
        self.owner.is_some() && self.owner == claim.owner && self.mode == claim.mode
    }
}
