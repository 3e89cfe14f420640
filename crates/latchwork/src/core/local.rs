//! The queue inside one client: one FIFO per lock name, so that only clients compete on the wire.
//!
//! The first task drives the remote claim. Whoever is behind is handed the held lock itself, or the duty to fetch it.
//! Readers share one claim for as long as it may be passed on; permits have a claim each.

#[cfg(all(test, feature = "memory"))]
mod tests;
mod untended;

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::task::{Context, Poll, Waker};

use tokio::sync::Notify;

use self::untended::check_duties;
pub(super) use self::untended::{Untended, register};
use super::active::{Active, Part};
use super::drive::Holder;
use super::duty::Duty;
use super::grip::Grip;
use super::pending_release::PendingRelease;
use super::ticket::{Inherited, Strays};
use super::turn::{Closed, Found, Turn, TurnSlot};
use super::watched::Watched;
use super::{Core, Hold, Patience, Tenure, Terms, Ticket, defaults, no_answer, no_answer_in_time, sweeper};
use crate::clock::{Clock, Moment};
use crate::engine::{Claim, Mode};
use crate::names::BuildIdentityHasher;
use crate::poison::lock_ignoring_poison;
use crate::{Error, ErrorKind, LockName, Result};

const SHARDS: usize = 16;

/// Every lock name that a task of this client drives, holds or waits for.
#[derive(Default)]
pub(crate) struct Local {
    shards: [Mutex<Shard>; SHARDS],
}

#[derive(Default)]
pub(super) struct Shard {
    queues: HashMap<LockName, Queue, BuildIdentityHasher>,
    /// The names that the sweeper checks: those which a task has needed since its last check.
    contended: HashSet<LockName, BuildIdentityHasher>,
}

/// What is out, and the tasks behind it in arrival order.
#[derive(Default)]
struct Queue {
    active: Active,
    arrivals: u64,
    waiting: BTreeMap<u64, Waiting>,
    /// Tasks that did not take their turn in time. Each stays here until it is polled again.
    stalled: BTreeMap<u64, Waiting>,
    /// Tasks that were offered their turn. Some may have taken it since.
    offers: Vec<(u64, Waiting)>,
    /// Requests that other tasks of this client wait for. Some may be done.
    duties: Vec<Arc<Duty>>,
    /// How often the sweeper is to check the duties, although no task waits.
    checks: u8,
    /// Releases that keep the name closed although no task has the lock.
    releases: Vec<Arc<PendingRelease>>,
    shared: Option<Shared>,
    /// To be rung when the last reader of this client has given back.
    drained: Option<Arc<Notify>>,
}

/// What guards of one owner, or readers, hold together.
struct Shared {
    claim: Arc<Claim>,
    tenure: Weak<Tenure>,
    /// Which readers may join those that hold.
    reads: Option<Reads>,
}

struct Reads {
    hold: Arc<Hold>,
    terms: Terms,
    /// Others are always assumed to wait elsewhere.
    until: Moment,
}

struct Waiting {
    terms: Arc<Terms>,
    slot: Arc<TurnSlot>,
}

impl Local {
    pub(super) fn shards(&self) -> &[Mutex<Shard>] {
        &self.shards
    }

    fn shard(&self, name: &LockName) -> MutexGuard<'_, Shard> {
        // Not the lowest bits, which place the name inside its shard.
        lock_ignoring_poison(&self.shards[(name.hash_code() >> 32) as usize % SHARDS])
    }
}

/// How standing in line ended.
pub(crate) enum Stood {
    /// It is this task's turn.
    Turn(Turn),
    /// It was not within its patience.
    InVain(Holder),
}

/// Stands in line until it is this task's turn, or its patience ends.
///
/// # Errors
/// Nothing but a release that failed, or stays unanswered, keeps the name closed.
pub(super) async fn stand_in_line(watched: &mut Watched<'_>, terms: &Arc<Terms>) -> Result<Stood> {
    let Watched { core, name, patience, .. } = *watched;
    let mut limit = None;
    let mut place = loop {
        match step_up(core, name, terms, patience) {
            Standing::First(ticket) => return Ok(Stood::Turn(Turn::Drive(ticket))),
            Standing::With(shared) if terms.owner.is_none() => {
                return Ok(Stood::Turn(Turn::Pass(Grip::Shared(shared))));
            }
            Standing::With(shared) => return nest(shared).map(Stood::Turn),
            Standing::Behind(place) => break place,
            Standing::InVain(holder) => {
                check_duties(core, name);
                return Ok(Stood::InVain(holder));
            }
            Standing::Closed(release) => {
                check_duties(core, name);
                // As long as any request may take, and once for all releases that are met.
                let limit = *limit.get_or_insert_with(|| core.clock.now().after(defaults::REQUEST_LIMIT));
                if !Box::pin(release.repeat_now(core, limit)).await {
                    return Err(release.error(core, name, no_answer));
                }
            }
        }
    };
    sweeper::start(core);
    watched.queued_locally(terms);
    let turn = poll_fn(|context| place.poll(context));
    let turn = match patience {
        // Boxed, so that those who wait without a limit stay small: a timer is larger than the rest.
        Patience::Until(end) => Box::pin(core.until(end, turn)).await,
        _ => Some(turn.await),
    };
    turn.map_or_else(|| in_vain(core, name, terms.mode), |turn| Ok(Stood::Turn(turn)))
}

/// Why it was not this task's turn within its patience.
fn in_vain(core: &Core, name: &LockName, mode: Mode) -> Result<Stood> {
    let shard = core.local.shard(name);
    let Some(queue) = shard.queues.get(name) else { return Ok(Stood::InVain(Holder::WaitingTask)) };
    let release = queue.releases.first().filter(|_| queue.without_releases().admits(mode)).cloned();
    let holder = queue.holder();
    drop(shard);
    match release {
        Some(release) => Err(release.error(core, name, no_answer_in_time)),
        None => Ok(Stood::InVain(holder)),
    }
}

/// Where a task finds itself when it comes.
enum Standing<'a> {
    First(Ticket),
    Behind(Place<'a>),
    With(Arc<Tenure>),
    /// It does not wait, and others have the lock or come before it.
    InVain(Holder),
    /// It does not wait, and nothing but this release keeps it from asking.
    Closed(Arc<PendingRelease>),
}

fn step_up<'a>(
    core: &'a Arc<Core>,
    name: &'a LockName,
    terms: &Arc<Terms>,
    patience: Patience,
) -> Standing<'a> {
    let mut shard = core.local.shard(name);
    let Shard { queues, contended } = &mut *shard;
    let queue = match queues.entry(name.clone()) {
        Entry::Occupied(queue) => queue.into_mut(),
        Entry::Vacant(free) => {
            return Standing::First(free.insert(Queue::default()).ticket(core, name, terms));
        }
    };
    if let Some(tenure) = queue.nested_by(terms) {
        return Standing::With(tenure);
    }
    if queue.waiting.is_empty()
        && let Some(tenure) = queue.joined_by(terms, core.clock)
    {
        return Standing::With(tenure);
    }
    let is_admitted = match patience {
        Patience::None => queue.is_worth_a_try(terms.mode),
        _ => queue.waiting.is_empty() && queue.active.admits(terms.mode),
    };
    if is_admitted {
        return Standing::First(queue.ticket(core, name, terms));
    }
    if patience == Patience::None {
        return queue.kept_from_trying(terms.mode);
    }
    queue.begin_checks(core.clock);
    // The server may be back long before the janitor's next request.
    queue.releases.iter().for_each(|release| release.hurry());
    let slot = Arc::<TurnSlot>::default();
    queue.arrivals += 1;
    queue.waiting.insert(queue.arrivals, Waiting { terms: terms.clone(), slot: slot.clone() });
    // Without a sweeper the name would never be removed again.
    if !core.clock.lives_in_the_runtime() && !contended.contains(name) {
        contended.insert(name.clone());
    }
    Standing::Behind(Place { core, name, arrival: queue.arrivals, slot, is_served: false })
}

impl Queue {
    /// The duty to ask, for a task that the active ones admit.
    fn ticket(&mut self, core: &Arc<Core>, name: &LockName, terms: &Terms) -> Ticket {
        let part = Part::asking(terms.mode);
        let reads = self.shared.as_ref().and_then(|shared| shared.reads.as_ref());
        let behind_readers = part == Part::Asking
            && self.active.is_read()
            && terms.shares_reads()
            && reads.is_some_and(|reads| reads.hold.is_certain_at(core.clock.now()));
        let readers = behind_readers.then(|| self.drained.get_or_insert_default().clone());
        self.active.add(part);
        Ticket::new(core.clone(), name.clone(), part, Inherited::default()).after(readers)
    }

    /// Whether a task that does not wait should ask: others of this client that read do not stand in a reader's way, whether
    /// they hold or not, and hold up every writer.
    fn is_worth_a_try(&self, mode: Mode) -> bool {
        let is_in_order = match mode {
            Mode::Read => self.waiting.values().all(|waiting| waiting.terms.mode == mode),
            _ => self.waiting.is_empty(),
        };
        is_in_order && self.active.admits_try(mode)
    }

    /// For a task that does not wait, and is not to ask now. If it would have to wait for a release only, so do
    /// the tasks before it.
    fn kept_from_trying<'a>(&self, mode: Mode) -> Standing<'a> {
        match self.releases.first().filter(|_| self.without_releases().admits_try(mode)) {
            Some(release) => Standing::Closed(release.clone()),
            None => Standing::InVain(self.holder()),
        }
    }

    /// What is out, but for claims that no task has any more.
    fn without_releases(&self) -> Active {
        let mut active = self.active;
        self.releases.iter().for_each(|release| active.remove(release.part));
        active
    }

    /// Whether a task of this client holds the lock, or only wants it.
    fn holder(&self) -> Holder {
        let mut held = self.without_releases();
        let asking = self.duties.iter().filter(|duty| duty.is_claim() && duty.is_active());
        asking.for_each(|duty| held.remove(duty.part));
        if held.is_empty() { Holder::WaitingTask } else { Holder::Task }
    }

    /// The tenure that a guard of the same owner can join.
    fn nested_by(&self, terms: &Terms) -> Option<Arc<Tenure>> {
        self.shared.as_ref().filter(|shared| terms.could_nest(&shared.claim))?.tenure.upgrade()
    }

    /// What a reader may hold together with those that came before it.
    fn joined_by(&self, terms: &Terms, clock: Clock) -> Option<Arc<Tenure>> {
        let shared = self.shared.as_ref().filter(|_| self.active.is_only_read())?;
        let reads = shared.reads.as_ref().filter(|reads| terms.agrees_with(&reads.terms))?;
        let now = clock.now();
        // Upgraded last: to let go of it here could be to give it back, with the queue locked.
        if now < reads.until && reads.hold.is_certain_at(now) { shared.tenure.upgrade() } else { None }
    }

    /// Offers the turn to a task that was removed from the waiting ones. Returns the waker to wake.
    fn offer(&mut self, arrival: u64, waiting: Waiting, turn: Turn) -> Option<Waker> {
        let waker = waiting.slot.offer(turn);
        // Only when the vector would grow: most turns are taken at once.
        if self.offers.len() == self.offers.capacity() {
            self.offers.retain(|(_, offered)| offered.slot.is_offered());
        }
        self.offers.push((arrival, waiting));
        waker
    }

    /// Gives the next task in line its turn, if it has come. Returns the waker to wake.
    fn next_up(&mut self, core: &Arc<Core>, name: &LockName) -> Option<Option<Waker>> {
        let terms = self.waiting.first_key_value()?.1.terms.clone();
        let turn = match self.joined_by(&terms, core.clock) {
            Some(tenure) => Turn::Pass(Grip::Shared(tenure)),
            None if self.active.admits(terms.mode) => Turn::Drive(self.ticket(core, name, &terms)),
            None => return None,
        };
        let (arrival, first) = self.waiting.pop_first()?;
        Some(self.offer(arrival, first, turn))
    }

    /// Whether this entry can be removed.
    fn is_empty(&self) -> bool {
        self.active.is_empty() && self.waiting.is_empty() && self.stalled.is_empty()
    }

    /// Removes and returns the next task in line, if `wants` accepts it.
    fn first_if(&mut self, wants: impl FnOnce(&Terms) -> bool) -> Option<(u64, Waiting)> {
        let first = self.waiting.first_entry()?;
        wants(&first.get().terms).then(|| first.remove_entry())
    }

    fn forget(&mut self, release: &Arc<PendingRelease>) {
        self.releases.retain(|other| !Arc::ptr_eq(other, release));
    }

    /// Something is over. Returns whom to ring if it was the last reader.
    fn end(&mut self, (part, release): Ended<'_>) -> Option<Arc<Notify>> {
        self.active.remove(part);
        release.into_iter().for_each(|release| self.forget(release));
        self.duties.retain(|duty| duty.is_active());
        if self.active.is_read() { None } else { self.drained.take() }
    }
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
    core: &'a Arc<Core>,
    name: &'a LockName,
    arrival: u64,
    slot: Arc<TurnSlot>,
    /// Whether its turn was taken up: then nothing is left of it in the line.
    is_served: bool,
}

impl Place<'_> {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Turn> {
        loop {
            match std::task::ready!(self.slot.poll(context)) {
                Found::Turn(turn) => {
                    self.is_served = true;
                    return Poll::Ready(turn);
                }
                Found::Stalled => self.stand_again(context.waker()),
            }
        }
    }

    /// Takes its old place again after its turn was taken back. Or it shares the lock with its owner's guard,
    /// which may wait for this task.
    fn stand_again(&self, waker: &Waker) {
        let mut shard = self.core.local.shard(self.name);
        if let Some(queue) = shard.queues.get_mut(self.name)
            && let Some(waiting) = queue.stalled.remove(&self.arrival)
        {
            self.slot.wait_again(waker);
            match queue.nested_by(&waiting.terms) {
                Some(tenure) => {
                    queue.offer(self.arrival, waiting, Turn::Pass(Grip::Shared(tenure)));
                }
                None => drop(queue.waiting.insert(self.arrival, waiting)),
            }
            shard.contended.insert(self.name.clone());
        }
        drop(shard);
        sweeper::start(self.core);
        move_up(self.core, self.name, None);
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if self.is_served {
            return;
        }
        let mut shard = self.core.local.shard(self.name);
        let gone = shard.queues.get_mut(self.name).and_then(|queue| {
            queue.waiting.remove(&self.arrival).or_else(|| queue.stalled.remove(&self.arrival))
        });
        drop(shard);
        if gone.is_some() {
            // It may have been a writer that kept readers back.
            move_up(self.core, self.name, None);
        }
        match self.slot.close() {
            Closed::WithTurn(turn) => drop(turn), // Dropped, so the turn goes to the next task.
            Closed::Stalled => {
                let mut shard = self.core.local.shard(self.name);
                let queue = shard.queues.get_mut(self.name);
                let stalled = queue.and_then(|queue| queue.stalled.remove(&self.arrival));
                drop(shard);
                if stalled.is_some() {
                    move_up(self.core, self.name, None);
                }
            }
            Closed::Empty => {}
        }
    }
}

/// What something counted as, and the release that tasks waited for.
type Ended<'a> = (Part, Option<&'a Arc<PendingRelease>>);

/// Tells the queue about a release that keeps the name closed although no task has the lock. `duty`: that of its task.
pub(super) fn announce(
    core: &Core,
    name: &LockName,
    release: PendingRelease,
    duty: Option<&Duty>,
) -> Arc<PendingRelease> {
    let release = Arc::new(release);
    if let Some(queue) = core.local.shard(name).queues.get_mut(name) {
        queue.releases.push(release.clone());
    }
    if let Some(duty) = duty {
        duty.set_pending_release(&release);
        if !duty.is_active() {
            // Taken over meanwhile: the release that took its place is announced by itself.
            if let Some(queue) = core.local.shard(name).queues.get_mut(name) {
                queue.forget(&release);
            }
            release.over();
        }
    }
    release
}

/// The release of a claim was answered or given up, or there was nothing to release.
pub(super) fn released(core: &Arc<Core>, name: &LockName, part: Part, release: Option<&Arc<PendingRelease>>) {
    move_up(core, name, Some((part, release)));
    // Only now: a task that tries looks at the queue again.
    release.into_iter().for_each(|release| release.over());
}

/// Ends what a ticket or a held claim counted as. A claim that is left goes to the next in line if it wants the same;
/// otherwise it comes back, and counts until its release is answered.
pub(crate) fn hand_duty(
    core: &Arc<Core>,
    name: &LockName,
    part: Part,
    mut left: Inherited,
    release: Option<&Arc<PendingRelease>>,
) -> Option<(Arc<Claim>, Strays)> {
    if let Some(claim) = left.claim.take() {
        let mut shard = core.local.shard(name);
        let queue = shard.queues.get_mut(name);
        let Some((queue, (arrival, heir))) = queue
            .and_then(|queue| queue.first_if(|terms| terms.could_drive(&claim)).map(|first| (queue, first)))
        else {
            return Some((claim, left.strays));
        };
        left.claim = Some(claim);
        let ticket = Ticket::new(core.clone(), name.clone(), part, left);
        let woken = queue.offer(arrival, heir, Turn::Drive(ticket));
        release.into_iter().for_each(|release| queue.forget(release));
        drop(shard);
        woken.into_iter().for_each(Waker::wake);
        release.into_iter().for_each(|release| release.over());
        return None;
    }
    released(core, name, part, release);
    None
}

/// Gives everybody in line their turn whose turn it is, now that `ended` is over, and forgets a name that nobody wants.
fn move_up(core: &Arc<Core>, name: &LockName, mut ended: Option<Ended<'_>>) {
    loop {
        let (next, drained) = {
            let mut shard = core.local.shard(name);
            let Entry::Occupied(mut entry) = shard.queues.entry(name.clone()) else { return };
            let queue = entry.get_mut();
            let drained = ended.take().and_then(|ended| queue.end(ended));
            let next = queue.next_up(core, name);
            if next.is_none() && queue.is_empty() {
                entry.remove();
            }
            (next, drained)
        };
        if let Some(readers) = drained {
            readers.notify_one();
        }
        let Some(woken) = next else { return };
        woken.into_iter().for_each(Waker::wake);
    }
}

/// Passes a held lock to the next in line if it wants the same. Returns the tenure if nobody took it.
pub(crate) fn pass(tenure: Tenure, now: Moment) -> Option<Tenure> {
    if !tenure.may_pass(now) {
        return Some(tenure);
    }
    let core = tenure.core().clone();
    let mut shard = core.local.shard(&tenure.claim().name);
    let queue = shard.queues.get_mut(&tenure.claim().name);
    let Some((queue, (arrival, next))) =
        queue.and_then(|queue| queue.first_if(|terms| terms.could_hold(&tenure)).map(|first| (queue, first)))
    else {
        return Some(tenure);
    };
    let woken = queue.offer(arrival, next, Turn::Pass(Grip::Alone(tenure.passed(now))));
    drop(shard);
    woken.into_iter().for_each(Waker::wake);
    None
}

/// Lets all local waiters of the holder's owner hold with it: the holder may be waiting for them.
pub(crate) fn share(tenure: Tenure) -> Grip {
    let (core, claim) = (tenure.core().clone(), tenure.claim().clone());
    let shared = Arc::new(tenure);
    let mut nested = Vec::new();
    if let Some(queue) = core.local.shard(&claim.name).queues.get_mut(&claim.name) {
        queue.shared = Some(Shared { claim: claim.clone(), tenure: Arc::downgrade(&shared), reads: None });
        let own: Vec<_> =
            queue.waiting.extract_if(.., |_, waiting| waiting.terms.could_nest(&claim)).collect();
        let offer =
            |(arrival, waiting)| queue.offer(arrival, waiting, Turn::Pass(Grip::Shared(shared.clone())));
        nested.extend(own.into_iter().filter_map(offer));
    }
    nested.into_iter().for_each(Waker::wake);
    Grip::Shared(shared)
}

/// Lets the readers behind this one hold with it, up to the first that wants something else.
pub(crate) fn share_read(tenure: Tenure, terms: &Terms, now: Moment) -> Grip {
    let (core, claim, hold) = (tenure.core().clone(), tenure.claim().clone(), tenure.hold().clone());
    let shared = Arc::new(tenure);
    let reads = Reads { hold, terms: terms.clone(), until: now.after(terms.pass_for) };
    let reads = terms.shares_reads().then_some(reads);
    if let Some(queue) = core.local.shard(&claim.name).queues.get_mut(&claim.name) {
        queue.active.remove(Part::Asking);
        queue.active.add(Part::Reading);
        queue.shared = Some(Shared { claim: claim.clone(), tenure: Arc::downgrade(&shared), reads });
    }
    move_up(&core, &claim.name, None);
    Grip::Shared(shared)
}
