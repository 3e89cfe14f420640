//! The queue inside one client: one FIFO per lock name, so that only clients compete on the wire.
//!
//! The first task drives the remote claim. Whoever is behind is handed the held lock itself, or the duty to fetch it.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::oneshot;

use super::{Core, Patience, Tenure, Terms, Ticket};
use crate::LockName;
use crate::engine::Claim;
use crate::locked::locked;

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
    baton: oneshot::Sender<Turn>,
}

/// What a task gets when its turn comes.
pub(crate) enum Turn {
    /// The duty to fetch the lock.
    Drive(Ticket),
    /// The lock.
    Pass(Tenure),
}

impl Local {
    fn shard(&self, name: &LockName) -> MutexGuard<'_, HashMap<LockName, Queue>> {
        locked(&self.shards[self.hasher.hash_one(name) as usize % SHARDS])
    }
}

/// Stands in line until it is this task's turn. `None` if that is not within its patience.
pub(crate) async fn stand_in_line(
    core: &Arc<Core>,
    name: &LockName,
    terms: &Terms,
    patience: Patience,
) -> Option<Turn> {
    let (_place, baton) = {
        let mut shard = core.local.shard(name);
        let Some(queue) = shard.get_mut(name) else {
            shard.insert(name.clone(), Queue::default());
            return Some(Turn::Drive(Ticket::new(core.clone(), name.clone(), None)));
        };
        if patience == Patience::None {
            return None;
        }
        let (sender, baton) = oneshot::channel();
        queue.arrivals += 1;
        queue.waiting.insert(queue.arrivals, Waiting { terms: terms.clone(), baton: sender });
        (Place { core, name, arrival: queue.arrivals }, baton)
    };
    match patience {
        Patience::Until(end) => core.until(end, baton).await?.ok(),
        _ => baton.await.ok(),
    }
}

/// A task's place in the line; dropped, it leaves nothing there.
struct Place<'a> {
    core: &'a Core,
    name: &'a LockName,
    arrival: u64,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let gone = self
            .core
            .local
            .shard(self.name)
            .get_mut(self.name)
            .and_then(|queue| queue.waiting.remove(&self.arrival));
        drop(gone);
    }
}

/// Gives the duty to the next in line, with `claim` as its own if it wants the same. Returns the claim if nobody took
/// it; the name stays closed then, until its release is answered.
pub(crate) fn hand_duty(
    core: &Arc<Core>,
    name: &LockName,
    mut claim: Option<Arc<Claim>>,
) -> Option<Arc<Claim>> {
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
                Some(first) if claim.as_ref().is_some_and(|claim| !first.get().terms.could_drive(claim)) => {
                    return claim;
                }
                Some(first) => first.remove().baton,
            }
        };
        let ticket = Ticket::new(core.clone(), name.clone(), claim.take());
        match baton.send(Turn::Drive(ticket)) {
            Err(Turn::Drive(unwanted)) => claim = unwanted.disarm(),
            _ => return None,
        }
    }
}

/// Passes a held lock to the next in line if it wants the same. Returns the tenure if nobody took it.
pub(crate) fn pass(mut tenure: Tenure) -> Option<Tenure> {
    while tenure.may_pass() {
        let core = tenure.core().clone();
        let next = {
            let mut shard = core.local.shard(&tenure.claim().name);
            let first = shard.get_mut(&tenure.claim().name).and_then(|queue| queue.waiting.first_entry());
            first.filter(|first| first.get().terms.could_hold(&tenure)).map(|first| first.remove())
        };
        let Some(next) = next else { break };
        match next.baton.send(Turn::Pass(tenure.passed())) {
            Err(Turn::Pass(unwanted)) => tenure = unwanted,
            _ => return None,
        }
    }
    Some(tenure)
}

impl Terms {
    fn could_drive(&self, claim: &Claim) -> bool {
        (self.mode, self.ttl, self.wait_lease, self.lifetime)
            == (claim.mode, claim.ttl, claim.wait_lease, claim.lifetime)
    }

    fn could_hold(&self, tenure: &Tenure) -> bool {
        let claim = tenure.claim();
        (self.mode, self.ttl, self.lifetime, self.stop_margin, self.pass_for)
            == (claim.mode, claim.ttl, claim.lifetime, tenure.stop_margin(), tenure.pass_for())
    }
}
