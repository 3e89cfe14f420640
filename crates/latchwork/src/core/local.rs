//! The queue inside one client: one FIFO per lock name, so that only clients compete on the wire.
//!
//! The first task drives the remote claim; the others stand behind it and inherit the duty.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use super::shield::Shield;
use super::{Core, Patience, Terms, janitor};
use crate::LockName;
use crate::engine::Claim;

const SHARDS: usize = 16;

/// Every lock name that a task of this client drives, holds or waits for.
#[derive(Default)]
pub(crate) struct Local {
    hasher: RandomState,
    shards: [Mutex<HashMap<LockName, Queue>>; SHARDS],
}

/// The tasks behind the one that drives or holds, in arrival order.
#[derive(Default)]
struct Queue {
    arrivals: u64,
    waiting: BTreeMap<u64, Waiting>,
}

struct Waiting {
    terms: Terms,
    baton: oneshot::Sender<Ticket>,
}

impl Local {
    fn shard(&self, name: &LockName) -> MutexGuard<'_, HashMap<LockName, Queue>> {
        let shard = &self.shards[self.hasher.hash_one(name) as usize % SHARDS];
        shard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The right to drive the remote claim of one name. Dropping it hands the duty, and the place in the remote queue, to
/// the next local waiter; without one, the claim is released and the name forgotten.
pub(crate) struct Ticket {
    core: Option<Arc<Core>>,
    name: LockName,
    claim: Option<Arc<Claim>>,
}

impl Ticket {
    /// Stands in line until this task may drive. `None` if it may not within its patience.
    pub(crate) async fn take(
        core: &Arc<Core>,
        name: &LockName,
        terms: &Terms,
        patience: Patience,
    ) -> Option<Self> {
        let (place, baton) = {
            let mut shard = core.local.shard(name);
            let Some(queue) = shard.get_mut(name) else {
                shard.insert(name.clone(), Queue::default());
                return Some(Self { core: Some(core.clone()), name: name.clone(), claim: None });
            };
            if patience == Patience::None {
                return None;
            }
            let (sender, baton) = oneshot::channel();
            queue.arrivals += 1;
            queue.waiting.insert(queue.arrivals, Waiting { terms: terms.clone(), baton: sender });
            (Place { core, name, arrival: queue.arrivals }, baton)
        };
        let ticket = match patience {
            Patience::Until(end) => tokio::select! {
                ticket = baton => ticket.ok(),
                () = core.clock.sleep_until(end) => None,
            },
            _ => baton.await.ok(),
        };
        drop(place);
        ticket
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
            let core = finish.core().clone();
            // Withdraws from the queue, or frees a grant that crossed with our leaving.
            let _ = core.answer(finish.release(&core, claim)).await;
        }
    }

    /// The claim became a tenure: its end decides what happens to the name.
    pub(crate) fn into_tenure(mut self) -> (Arc<Core>, Arc<Claim>) {
        let core = self.core.take().expect("a ticket has its core until it is used up");
        let claim = self.claim.take().expect("a ticket that was granted has claimed");
        (core, claim)
    }

    /// Gives duty and claim to the next local waiter; what nobody takes comes back.
    fn hand_on(&mut self) -> Option<(Finish, Arc<Claim>)> {
        let core = self.core.take()?;
        let claim = pass_duty(&core, &self.name, self.claim.take())?;
        Some((Finish { core, name: self.name.clone() }, claim))
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if let Some((finish, claim)) = self.hand_on() {
            finish.release_in_background(claim);
        }
    }
}

/// A task's place in the local queue; dropped, it leaves nothing there.
struct Place<'a> {
    core: &'a Core,
    name: &'a LockName,
    arrival: u64,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if let Some(queue) = self.core.local.shard(self.name).get_mut(self.name) {
            queue.waiting.remove(&self.arrival);
        }
    }
}

/// Opens the name for the next local claim when dropped: only after the release was answered or given up (C10).
pub(crate) struct Finish {
    core: Arc<Core>,
    name: LockName,
}

impl Finish {
    pub(crate) fn new(core: Arc<Core>, name: LockName) -> Self {
        Self { core, name }
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.core
    }

    /// Releases inline; an unanswered release is repeated in the background.
    pub(crate) fn release(
        self,
        core: &Arc<Core>,
        claim: Arc<Claim>,
    ) -> Shield<crate::Result<crate::engine::Released>> {
        Shield::new(core, async move {
            let answer = self.core.engine.clone().release(claim.clone()).await;
            if answer.is_err() {
                self.release_in_background(claim);
            }
            answer
        })
    }

    pub(crate) fn release_in_background(self, claim: Arc<Claim>) {
        self.core.clone().background.spawn(janitor::give_back(self, claim));
    }
}

impl Drop for Finish {
    fn drop(&mut self) {
        pass_duty(&self.core, &self.name, None);
    }
}

/// Makes the next local waiter drive, with `claim` as its own if it wants the same. Returns the claim if nobody took it;
/// the name stays closed then, until its release is answered.
fn pass_duty(core: &Arc<Core>, name: &LockName, mut claim: Option<Arc<Claim>>) -> Option<Arc<Claim>> {
    loop {
        let baton = {
            let mut shard = core.local.shard(name);
            let queue = shard.get_mut(name)?;
            match queue.waiting.first_entry() {
                None => {
                    if claim.is_none() {
                        shard.remove(name);
                    }
                    return claim;
                }
                Some(first) if claim.as_ref().is_some_and(|claim| !first.get().terms.could_use(claim)) => {
                    return claim;
                }
                Some(first) => first.remove().baton,
            }
        };
        let ticket = Ticket { core: Some(core.clone()), name: name.clone(), claim: claim.take() };
        match baton.send(ticket) {
            Ok(()) => return None,
            Err(mut unwanted) => {
                unwanted.core = None;
                claim = unwanted.claim.take();
            }
        }
    }
}

impl Terms {
    fn could_use(&self, claim: &Claim) -> bool {
        (self.mode, self.ttl, self.lifetime) == (claim.mode, claim.ttl, claim.lifetime)
            && self.wait_lease == claim.wait_lease
    }
}
