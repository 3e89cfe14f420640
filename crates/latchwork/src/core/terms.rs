//! The terms on which a task asks for a lock. They decide which claims of its client it can share.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::clock::Moment;
use crate::engine::{Claim, Lifetime, Mode, Note};
use crate::{OwnerId, Waiting};

/// The terms on which a task asks for a lock. The methods say which of them two tasks of one client must have
/// in common to share a claim.
#[derive(Clone, Debug)]
pub(crate) struct LockTerms {
    pub(crate) mode: Mode,
    pub(crate) owner: Option<OwnerId>,
    pub(crate) lease: LeaseTerms,
    /// How long a claim may stay with this client, going from task to task. Zero: it is never passed.
    pub(crate) pass_for: Duration,
    pub(crate) lifetime: Lifetime,
    /// Whether a token is needed, where the engine gives one only on request.
    pub(crate) fenced: bool,
    /// The lock stays held for at least this long, however soon its guard is released.
    pub(crate) at_least: Duration,
    pub(crate) note: Note,
    /// Public text about the holder, on engines that keep it.
    pub(crate) tells: Option<Arc<[u8]>>,
    /// The function that is told about waits.
    pub(crate) on_waiting: Option<OnWaiting>,
}

/// The terms of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LeaseTerms {
    pub(crate) ttl: Duration,
    pub(crate) stop_margin: Option<Duration>,
    /// How long one guard may hold, however well renewals go.
    pub(crate) max_hold: Option<Duration>,
}

/// How long to wait for the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitUntil {
    /// Do not wait: only try.
    Never,
    /// Wait until this moment.
    Moment(Moment),
    /// Wait without a limit.
    Forever,
}

/// A held claim, as far as it decides which task it may be passed to.
pub(crate) struct HeldTerms<'a> {
    pub(crate) claim: &'a Claim,
    pub(crate) lease: LeaseTerms,
    pub(crate) pass_for: Duration,
    pub(crate) has_token: bool,
}

/// The function that is told about waits.
#[derive(Clone)]
pub(crate) struct OnWaiting(Arc<dyn Fn(&Waiting) + Send + Sync>);

impl LockTerms {
    /// Whether this task could go on with `claim`, which another task has sent and given up.
    pub(super) fn could_drive(&self, claim: &Claim) -> bool {
        let is_same = (self.mode, self.lease.ttl, self.lifetime, &self.owner, &self.tells)
            == (claim.mode, claim.ttl, claim.lifetime, &claim.owner, &claim.tells);
        // The server may have granted it by now. A permit of another client with a greater token may have
        // been held before this task came, and its own would be the lower one.
        let is_permit = matches!(self.mode, Mode::Permit { .. });
        is_same && !is_permit && !claim.wait_lease.is_zero() && (claim.fenced || !self.fenced)
    }

    /// Whether a held claim could be passed to this task.
    pub(super) fn could_hold(&self, held: &HeldTerms<'_>) -> bool {
        let claim = held.claim;
        // A passed claim is held exclusively, and nested guards would wait for it; so an owner's claim is
        // requested anew. Readers share a claim instead. A permit that is passed on would come after a
        // greater token of another permit that is held.
        let has_owner = self.owner.is_some() || claim.owner.is_some();
        !has_owner
            && (held.has_token || !self.fenced)
            && matches!(self.mode, Mode::Exclusive | Mode::Write)
            && (self.mode, self.lease, self.lifetime, self.pass_for)
                == (claim.mode, held.lease, claim.lifetime, held.pass_for)
    }

    pub(super) fn agrees_with(&self, other: &Self) -> bool {
        (self.mode, self.lease, self.lifetime, self.pass_for)
            == (other.mode, other.lease, other.lifetime, other.pass_for)
    }

    /// Whether a reader holds one claim together with others. Limits on each hold would be those of the first
    /// reader.
    pub(super) fn shares_reads(&self) -> bool {
        let is_alike = self.lease.max_hold.is_none() && self.at_least.is_zero();
        self.mode == Mode::Read && !self.pass_for.is_zero() && is_alike
    }

    /// Whether this task may hold `claim` together with its owner's guard. The lease is the outermost
    /// guard's, whatever a nested one asks for.
    pub(super) fn could_nest(&self, claim: &Claim) -> bool {
        self.owner.is_some() && self.owner == claim.owner && self.mode == claim.mode
    }
}

impl OnWaiting {
    pub(crate) fn new(tell: impl Fn(&Waiting) + Send + Sync + 'static) -> Self {
        Self(Arc::new(tell))
    }

    pub(super) fn call(&self, waiting: &Waiting) {
        (self.0)(waiting);
    }
}

impl fmt::Debug for OnWaiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnWaiting")
    }
}
