//! The attempts of claims: a claim without a majority is undone, and sent again with another value.

use std::collections::HashMap;
use std::sync::Mutex;

use super::record;
use crate::engine::ClaimId;
use crate::poison::lock_ignoring_poison;

/// The claims that were sent and not released.
#[derive(Default)]
pub(super) struct Attempts {
    claims: Mutex<HashMap<ClaimId, ClaimAttempts>>,
}

/// The attempts of one claim.
#[derive(Clone, Copy, Default)]
pub(super) struct ClaimAttempts {
    /// How often it was undone. Each attempt has a value of its own, so an undo that arrives late undoes no
    /// later attempt.
    pub(super) undone: u32,
    /// How often in a row the lock was held.
    busy: u32,
    /// The token of its grant, or 0.
    pub(super) token: u64,
    /// Whether a master may have its key: it was sent, and not every master that may have acted answered the
    /// undo.
    pub(super) may_have_keys: bool,
}

impl Attempts {
    /// An attempt is about to be sent: from here on masters may have the claim's key.
    pub(super) fn begin(&self, id: ClaimId) -> ClaimAttempts {
        let mut claims = lock_ignoring_poison(&self.claims);
        let attempts = claims.entry(id).or_default();
        attempts.may_have_keys = true;
        *attempts
    }

    pub(super) fn granted(&self, id: ClaimId, token: u64) {
        self.change(id, |attempts| (attempts.token, attempts.busy) = (token, 0));
    }

    /// The lock is held. Returns how often in a row it was before.
    pub(super) fn busy(&self, id: ClaimId) -> u32 {
        let mut before = 0;
        self.change(id, |attempts| {
            before = attempts.busy;
            attempts.busy += 1;
        });
        before
    }

    /// An undo is about to be sent.
    pub(super) fn begin_undo(&self, id: ClaimId) {
        self.change(id, |attempts| attempts.undone += 1);
    }

    pub(super) fn end_undo(&self, id: ClaimId, is_undone: bool) {
        self.change(id, |attempts| attempts.may_have_keys &= !is_undone);
    }

    /// Forgets a claim that failed. Its only attempt was undone on every master that it may have reached, so
    /// no release may follow. After several attempts the undo of an earlier one may still be in flight, and
    /// the attempt numbers must not start again.
    pub(super) fn forget_undone(&self, id: ClaimId) {
        let mut claims = lock_ignoring_poison(&self.claims);
        if claims.get(&id).is_some_and(|attempts| attempts.undone <= 1 && !attempts.may_have_keys) {
            claims.remove(&id);
        }
    }

    pub(super) fn remove(&self, id: ClaimId) -> Option<ClaimAttempts> {
        lock_ignoring_poison(&self.claims).remove(&id)
    }

    pub(super) fn get(&self, id: ClaimId) -> Option<ClaimAttempts> {
        lock_ignoring_poison(&self.claims).get(&id).copied()
    }

    fn change(&self, id: ClaimId, change: impl FnOnce(&mut ClaimAttempts)) {
        if let Some(attempts) = lock_ignoring_poison(&self.claims).get_mut(&id) {
            change(attempts);
        }
    }
}

impl ClaimAttempts {
    /// The value of the claim's key: its id, and the number of the attempt unless it is the first.
    pub(super) fn value(self, id: ClaimId) -> Vec<u8> {
        let mut value = record::encode_id(id).to_vec();
        if self.undone > 0 {
            value.extend(format!("-{}", self.undone).bytes());
        }
        value
    }
}
