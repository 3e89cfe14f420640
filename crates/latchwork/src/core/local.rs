//! The queue inside one client: one FIFO per lock name, so that only clients compete on the wire.
//!
//! The first task drives the remote claim. Whoever is behind is handed the held lock itself, or the duty to fetch it.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use tokio::sync::oneshot;

use super::grip::Grip;
use super::ticket::{Inherited, Strays};
use super::{Core, Patience, Tenure, Terms, Ticket};
use crate::clock::Moment;
use crate::engine::Claim;
use crate::locked::locked;
use crate::names::AsItIs;
use crate::{Error, ErrorKind, LockName, Result};

const SHARDS: usize = 16;

/// Every lock name that a task of this client drives, holds or waits for.
#[derive(Default)]
pub(crate) struct Local {
    shards: [Mutex<Shard>; SHARDS],
}

type Shard = HashMap<LockName, Queue, AsItIs>;

/// The tasks behind the one that drives or holds, in arrival order.
#[derive(Default)]
struct Queue {
    arrivals: u64,
    waiting: BTreeMap<u64, Waiting>,
    shared: Option<Shared>,
}

/// What guards of one owner hold together.
struct Shared {
    claim: Arc<Claim>,
    tenure: Weak<Tenure>,
}

struct Waiting {
    terms: Arc<Terms>,
    baton: oneshot::Sender<Turn>,
}

/// What a task gets when its turn comes.
pub(crate) enum Turn {
    /// The duty to fetch the lock.
    Drive(Ticket),
    /// The lock.
    Pass(Grip),
}

impl Local {
    fn shard(&self, name: &LockName) -> MutexGuard<'_, Shard> {
        // Not the lowest bits, which place the name inside its shard.
        locked(&self.shards[(name.hash_code() >> 32) as usize % SHARDS])
    }
}

/// Stands in line until it is this task's turn. `None` if that is not within its patience.
pub(crate) async fn stand_in_line(
    core: &Arc<Core>,
    name: &LockName,
    terms: &Arc<Terms>,
    patience: Patience,
) -> Result<Option<Turn>> {
    let (_place, baton) = match step_up(core, name, terms, patience) {
        Some(Standing::First(ticket)) => return Ok(Some(Turn::Drive(ticket))),
        Some(Standing::With(shared)) => return nest(shared).map(Some),
        Some(Standing::Behind(place, baton)) => (place, baton),
        None => return Ok(None),
    };
    Ok(match patience {
        // Boxed, so that those who wait without a limit stay small: a timer is larger than the rest.
        Patience::Until(end) => Box::pin(core.until(end, baton)).await.and_then(|turn| turn.ok()),
        _ => baton.await.ok(),
    })
}

/// Where a task finds itself when it comes.
enum Standing<'a> {
    First(Ticket),
    Behind(Place<'a>, oneshot::Receiver<Turn>),
    With(Arc<Tenure>),
}

fn step_up<'a>(
    core: &'a Arc<Core>,
    name: &'a LockName,
    terms: &Arc<Terms>,
    patience: Patience,
) -> Option<Standing<'a>> {
    let mut shard = core.local.shard(name);
    let queue = match shard.entry(name.clone()) {
        Entry::Occupied(queue) => queue.into_mut(),
        Entry::Vacant(free) => {
            free.insert(Queue::default());
            return Some(Standing::First(Ticket::new(core.clone(), name.clone(), Inherited::default())));
        }
    };
    let shared = queue.shared.as_ref().filter(|shared| terms.could_nest(&shared.claim));
    if let Some(tenure) = shared.and_then(|shared| shared.tenure.upgrade()) {
        return Some(Standing::With(tenure));
    }
    if patience == Patience::None {
        return None;
    }
    let (sender, baton) = oneshot::channel();
    queue.arrivals += 1;
    queue.waiting.insert(queue.arrivals, Waiting { terms: terms.clone(), baton: sender });
    Some(Standing::Behind(Place { core, name, arrival: queue.arrivals }, baton))
}

/// Another guard on what the same owner already holds. To wait behind one that is lost could be to wait for oneself.
fn nest(shared: Arc<Tenure>) -> Result<Turn> {
    match shared.hold().loss() {
        None => Ok(Turn::Pass(Grip::Shared(shared))),
        Some(why) => {
            let message = format!("its owner's guard is lost ({why}); drop that guard first");
            Err(Error::new(ErrorKind::Lost, message).about(&shared.claim().name))
        }
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

/// Gives the duty to the next in line, with the claim that is left as its own if it wants the same. Returns the claim if
/// nobody took it; the name stays closed then, until its release is answered.
pub(crate) fn hand_duty(
    core: &Arc<Core>,
    name: &LockName,
    mut left: Inherited,
) -> Option<(Arc<Claim>, Strays)> {
    loop {
        let baton = {
            let mut shard = core.local.shard(name);
            let Entry::Occupied(mut queue) = shard.entry(name.clone()) else { return None };
            match (queue.get_mut().waiting.first_entry(), left.claim) {
                (None, None) => {
                    queue.remove();
                    return None;
                }
                (None, Some(claim)) => return Some((claim, left.strays)),
                (Some(first), Some(claim)) if !first.get().terms.could_drive(&claim) => {
                    return Some((claim, left.strays));
                }
                (Some(first), claim) => {
                    left.claim = claim;
                    first.remove().baton
                }
            }
        };
        match baton.send(Turn::Drive(Ticket::new(core.clone(), name.clone(), left))) {
            Err(Turn::Drive(unwanted)) => left = unwanted.disarm(),
            _ => return None,
        }
    }
}

/// Passes a held lock to the next in line if it wants the same. Returns the tenure if nobody took it.
pub(crate) fn pass(mut tenure: Tenure, now: Moment) -> Option<Tenure> {
    while tenure.may_pass(now) {
        let core = tenure.core().clone();
        let next = {
            let mut shard = core.local.shard(&tenure.claim().name);
            let first = shard.get_mut(&tenure.claim().name).and_then(|queue| queue.waiting.first_entry());
            first.filter(|first| first.get().terms.could_hold(&tenure)).map(|first| first.remove())
        };
        let Some(next) = next else { break };
        match next.baton.send(Turn::Pass(Grip::Alone(tenure.passed(now)))) {
            Err(Turn::Pass(Grip::Alone(unwanted))) => tenure = unwanted,
            _ => return None,
        }
    }
    Some(tenure)
}

/// Lets all local waiters of the holder's owner hold with it: the holder may be waiting for them.
pub(crate) fn share(tenure: Tenure) -> Grip {
    let (core, claim) = (tenure.core().clone(), tenure.claim().clone());
    let shared = Arc::new(tenure);
    let mut nested = Vec::new();
    if let Some(queue) = core.local.shard(&claim.name).get_mut(&claim.name) {
        queue.shared = Some(Shared { claim: claim.clone(), tenure: Arc::downgrade(&shared) });
        nested.extend(queue.waiting.extract_if(.., |_, waiting| waiting.terms.could_nest(&claim)));
    }
    for (_, waiting) in nested {
        let _ = waiting.baton.send(Turn::Pass(Grip::Shared(shared.clone())));
    }
    Grip::Shared(shared)
}

impl Terms {
    fn could_drive(&self, claim: &Claim) -> bool {
        let is_same = (self.mode, self.lease.ttl, self.lifetime, &self.owner)
            == (claim.mode, claim.ttl, claim.lifetime, &claim.owner);
        is_same && !claim.wait_lease.is_zero() && (claim.fenced || !self.fenced)
    }

    fn could_hold(&self, tenure: &Tenure) -> bool {
        let claim = tenure.claim();
        // What is passed is held alone, and nested guards would wait for it; so an owner's claim is fetched anew.
        let has_owner = self.owner.is_some() || claim.owner.is_some();
        !has_owner
            && (tenure.token().is_some() || !self.fenced)
            && (self.mode, self.lease, self.lifetime, self.pass_for)
                == (claim.mode, tenure.lease_terms(), claim.lifetime, tenure.pass_for())
    }

    /// The lease is the outermost guard's, whatever a nested one asks for.
    fn could_nest(&self, claim: &Claim) -> bool {
        self.owner.is_some() && self.owner == claim.owner && self.mode == claim.mode
    }
}

#[cfg(all(test, feature = "memory"))]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::Client;
    use crate::engines::Memory;

    #[tokio::test(start_paused = true)]
    async fn local_waiters_that_give_up_leave_nothing_in_the_queue() {
        let client = Client::new(Memory::new());
        let name = LockName::new("a").expect("a good name");
        let waiting = |core: &Core| core.local.shard(&name).get(&name).map(|queue| queue.waiting.len());
        let guard = client.lock("a").acquire().await.expect("free");
        let lock = client.lock("a").wait(Duration::from_millis(5));
        let timed_out: Vec<_> = (0..20)
            .map(|_| {
                let lock = lock.clone();
                tokio::spawn(async move { lock.acquire().await.is_err() })
            })
            .collect();
        let dropped: Vec<_> = (0..20)
            .map(|_| {
                let lock = client.lock("a");
                tokio::spawn(async move { drop(lock.acquire().await) })
            })
            .collect();
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert_eq!(waiting(client.core()), Some(40));
        dropped.into_iter().for_each(|task| task.abort());
        for task in timed_out {
            assert!(task.await.expect("no panic"));
        }
        assert_eq!(waiting(client.core()), Some(0));
        guard.release().await.expect("held");
        assert_eq!(waiting(client.core()), None, "the name is forgotten");
    }

    #[tokio::test(start_paused = true)]
    async fn a_restored_image_gives_nothing_back_and_can_claim_again() {
        let memory = Memory::new();
        let client = Client::new(memory.clone());
        let name = LockName::new("a").expect("a good name");
        let grip = client.lock("a").acquire().await.expect("free").into_grip();
        grip.hold().lose(crate::Loss::Copied);
        drop(grip);
        client.close().await.expect("nothing to wait for");
        assert!(client.core().local.shard(&name).is_empty(), "the name is open");
        let filter = crate::engine::Filter::Name(name.clone());
        assert_eq!(client.inspect(&filter).await.expect("answers")[0].holders.len(), 1, "the original's");
    }

    /// The second guard's task finds the first half-way through its release: it can no longer hold with it.
    #[tokio::test(start_paused = true)]
    async fn who_comes_while_its_owner_lets_go_does_not_wait_for_itself_later() {
        let client = Client::new(Memory::new());
        let lock = client.lock("a").owner("me").wait(Duration::from_secs(5));
        let Grip::Shared(first) = lock.acquire().await.expect("free").into_grip() else { panic!("alone") };
        let letting_go = Arc::into_inner(first).expect("the only guard");
        let (second, released) = tokio::join!(lock.acquire(), letting_go.release());
        released.0.expect("held");
        let second = second.expect("its turn");
        let third = lock.acquire().await.expect("nested in the second");
        assert_eq!(second.token().expect("tokens"), third.token().expect("tokens"));
    }
}
