//! The right to drive a name's remote claim.

use std::sync::Arc;

use super::finish::Finish;
use super::local::hand_duty;
use super::{Core, Terms};
use crate::LockName;
use crate::engine::Claim;

/// The right to drive the remote claim of one name. Dropping it hands the duty, and the place in the remote queue, to
/// the next local waiter; without one, the claim is released and the name forgotten.
pub(crate) struct Ticket {
    core: Option<Arc<Core>>,
    name: LockName,
    claim: Option<Arc<Claim>>,
}

impl Ticket {
    pub(crate) fn new(core: Arc<Core>, name: LockName, claim: Option<Arc<Claim>>) -> Self {
        Self { core: Some(core), name, claim }
    }

    /// The claim this ticket drives; made from `terms` unless it was inherited from a task that gave up.
    pub(crate) fn claim(&mut self, terms: &Terms) -> Arc<Claim> {
        let name = &self.name;
        let claim = self.claim.get_or_insert_with(|| {
            let mut claim = Claim::new(name.clone(), terms.ttl);
            claim.mode = terms.mode;
            claim.wait_lease = terms.wait_lease;
            claim.lifetime = terms.lifetime;
            claim.note = terms.note.clone();
            Arc::new(claim)
        });
        claim.clone()
    }

    /// Leaves without the lock, when the server keeps nothing of the claim.
    pub(crate) fn forget_claim(mut self) {
        self.claim = None;
    }

    /// Leaves without the lock, and returns when nothing is left behind or a background task sees to it.
    pub(crate) async fn withdraw(mut self) {
        if let Some((finish, claim)) = self.hand_on() {
            // Withdraws from the queue, or frees a grant that crossed with our leaving.
            let _ = finish.release(claim).await;
        }
    }

    /// The claim became a tenure: its end decides what happens to the name.
    pub(crate) fn into_tenure(mut self) -> (Arc<Core>, Arc<Claim>) {
        let core = self.core.take().expect("a ticket has its core until it is used up");
        let claim = self.claim.take().expect("a ticket that was granted has claimed");
        (core, claim)
    }

    /// Takes the claim back from a ticket that nobody wanted.
    pub(crate) fn disarm(mut self) -> Option<Arc<Claim>> {
        self.core = None;
        self.claim.take()
    }

    /// Gives duty and claim to the next local waiter; what nobody takes comes back.
    fn hand_on(&mut self) -> Option<(Finish, Arc<Claim>)> {
        let core = self.core.take()?;
        let claim = hand_duty(&core, &self.name, self.claim.take())?;
        Some((Finish::new(core, self.name.clone()), claim))
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if let Some((finish, claim)) = self.hand_on() {
            finish.release_in_background(claim);
        }
    }
}
