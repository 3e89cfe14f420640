//! The keeper renews held claims for as long as their guards live.
//!
//! It runs on the client's own thread, through a connection of its own, so that user code that blocks every worker
//! cannot starve it; for an engine on tokio's clock it runs in the runtime, so that paused time moves it too. It
//! sleeps until something is due, and a lock released before its first renewal never wakes it.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::Notify;

use super::background::Background;
use super::defaults;
use super::hold::Hold;
use crate::clock::{self, Clock, Moment};
use crate::engine::{ClaimId, ErasedEngine, SharedEngine};
use crate::poison::lock_ignoring_poison;
use crate::{Error, ErrorKind, Loss};

/// So many are kept without an order at most: to sort many at once would take long.
const FRESH: usize = 256;

/// Where a hold stands in the schedule.
#[derive(Clone, Copy)]
pub(super) enum Place {
    Fresh(usize),
    Due(Moment),
}

/// The renewal schedule of one client.
pub(crate) struct Keeper {
    shared: Arc<Shared>,
}

struct Shared {
    /// Weak, so that the engine's session ends with the client and not with the keeper's next look around.
    engine: Weak<dyn ErasedEngine>,
    /// Whether it says something of claims that nobody renews just then.
    tells: bool,
    clock: Clock,
    schedule: Mutex<Schedule>,
    bell: Notify,
    pid: u32,
    /// The boot that the first lock was held on.
    boot: OnceLock<Option<String>>,
}

#[derive(Default)]
struct Schedule {
    due: BTreeMap<(Moment, ClaimId), Arc<Hold>>,
    /// Those that were added since the loop last looked, in any order: most are gone before it looks again.
    fresh: Vec<Option<Arc<Hold>>>,
    /// Which places of these are empty.
    free: Vec<usize>,
    /// When the loop wakes by itself. `None` while no loop runs.
    wakes_at: Option<Moment>,
    closed: bool,
}

impl Keeper {
    pub(crate) fn new(engine: &SharedEngine, clock: Clock) -> Self {
        let (tells, schedule) = (engine.guarantees().tells_losses, Mutex::default());
        let (engine, pid) = (Arc::downgrade(engine), forkmark::process_id());
        let (bell, boot) = (Notify::new(), OnceLock::new());
        Self { shared: Arc::new(Shared { engine, tells, clock, schedule, bell, pid, boot }) }
    }

    /// Renews `hold` from now on.
    pub(crate) fn add(&self, hold: &Arc<Hold>, background: &Background, now: Moment) {
        let mut schedule = self.shared.schedule();
        let due = schedule.add(hold, now);
        match schedule.wakes_at {
            Some(wakes_at) if wakes_at <= due => {}
            // It need not be rung for a lock that can wait until it wakes up anyway: most are released before.
            Some(wakes_at) if wakes_at <= hold.renew_at(now, u8::MAX) => {}
            Some(_) => self.shared.bell.notify_one(),
            None => {
                // In the same breath, so that two first locks do not start two loops.
                schedule.wakes_at = Some(due);
                drop(schedule);
                self.start(background);
            }
        }
    }

    /// Forgets a hold that its guard gives back.
    pub(crate) fn remove(&self, hold: &Hold) {
        let mut schedule = self.shared.schedule();
        hold.set_given_back();
        schedule.remove(hold);
    }

    /// Starts the loop. If the system has no thread left, the caller's runtime has to do; without that, the lease is
    /// not renewed, and its holder is told in time.
    fn start(&self, background: &Background) {
        let place = match self.shared.clock.lives_in_the_runtime() {
            true => None,
            false => background.thread(),
        };
        // Its drop, run or not, says that no loop runs.
        let running = Running(self.shared.clone());
        if let Some(runtime) = place.or_else(|| Handle::try_current().ok()) {
            drop(runtime.spawn(running.run()));
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        // In a fork no loop runs, and the schedule may be locked by a thread that is not there.
        if self.shared.pid == forkmark::process_id() {
            self.shared.schedule().closed = true;
            self.shared.bell.notify_one();
        }
    }
}

impl Schedule {
    /// A new hold. Returns when it is due.
    fn add(&mut self, hold: &Arc<Hold>, now: Moment) -> Moment {
        let at = match self.free.pop() {
            Some(at) => at,
            None if self.fresh.len() < FRESH => {
                self.fresh.push(None);
                self.fresh.len() - 1
            }
            None => return self.insert(hold, now),
        };
        self.fresh[at] = Some(hold.clone());
        *lock_ignoring_poison(&hold.place) = Some(Place::Fresh(at));
        due(hold, now)
    }

    fn insert(&mut self, hold: &Arc<Hold>, now: Moment) -> Moment {
        let due = due(hold, now);
        *lock_ignoring_poison(&hold.place) = Some(Place::Due(due));
        self.due.insert((due, hold.claim.id), hold.clone());
        due
    }

    fn remove(&mut self, hold: &Hold) {
        match lock_ignoring_poison(&hold.place).take() {
            None => {}
            Some(Place::Fresh(at)) => {
                self.fresh[at] = None;
                self.free.push(at);
            }
            Some(Place::Due(due)) => drop(self.due.remove(&(due, hold.claim.id))),
        }
    }

    fn sort_fresh(&mut self, now: Moment) {
        self.free.clear();
        for hold in std::mem::take(&mut self.fresh).iter().flatten() {
            self.insert(hold, now);
        }
    }

    /// Makes these due at once. What is being renewed just then is not here; but on the keeper's one thread its answer is
    /// taken in and it is back before anybody hears news that came after that answer.
    fn hurry(&mut self, ids: &[ClaimId], now: Moment) {
        self.sort_fresh(now);
        let named =
            |((due, id), _): (&(Moment, ClaimId), &Arc<Hold>)| ids.contains(id).then_some((*due, *id));
        for key in self.due.iter().filter_map(named).collect::<Vec<_>>() {
            let hold = self.due.remove(&key).expect("it was just there");
            *lock_ignoring_poison(&hold.place) = Some(Place::Due(now));
            self.due.insert((now, key.1), hold);
        }
    }

    /// What is due, and when to look again. With what is due goes what soon will be: one request for many costs little
    /// more than for one.
    fn take_due(&mut self, now: Moment) -> (Vec<Arc<Hold>>, Moment) {
        self.sort_fresh(now);
        let mut holds = Vec::new();
        let first = self.due.first_key_value().filter(|((due, _), _)| *due <= now);
        let soon = first.map_or(now, |(_, hold)| now.after(hold.claim.ttl / defaults::RENEW_TOGETHER));
        while let Some(first) = self.due.first_entry() {
            if first.key().0 > soon {
                break;
            }
            let hold = first.remove();
            *lock_ignoring_poison(&hold.place) = None;
            holds.push(hold);
        }
        // What was planned stays planned: or every short hold on an idle client would ring the keeper.
        let planned = self.wakes_at.filter(|planned| *planned > now).unwrap_or(Moment::NEVER);
        let next = self.due.first_key_value().map_or(planned, |((due, _), _)| planned.min(*due));
        self.wakes_at = Some(next);
        (holds, next)
    }
}

/// The claim's id is random, so one of its bytes spreads renewals as well as a fresh draw.
fn due(hold: &Hold, now: Moment) -> Moment {
    let [jitter, ..] = *hold.claim.id.as_bytes();
    hold.renew_at(now, jitter)
}

impl Shared {
    fn schedule(&self) -> MutexGuard<'_, Schedule> {
        lock_ignoring_poison(&self.schedule)
    }

    /// Whether this process is a fork, or an image that was restored on another boot. To renew then would be to keep
    /// alive what the original may have given back.
    fn is_a_copy(&self) -> bool {
        let (first, now) = (self.first_boot(), clock::boot_id().ok());
        self.pid != forkmark::process_id() || first.zip(now.as_ref()).is_some_and(|(first, now)| first != now)
    }

    fn first_boot(&self) -> Option<&String> {
        self.boot.get_or_init(|| clock::boot_id().ok()).as_ref()
    }

    /// Waits until the engine has heard something of held claims.
    async fn lost_hints(&self) -> Vec<ClaimId> {
        match self.engine.upgrade().filter(|_| self.tells) {
            Some(engine) => engine.lost_hints().await,
            None => std::future::pending().await,
        }
    }

    /// The connection to renew through. If it is long in coming, what is `due` waits for it at risk.
    async fn fork(&self, due: &[Arc<Hold>]) -> Option<SharedEngine> {
        let (sent, mut forking) = (self.clock.now(), pin!(self.engine.upgrade()?.fork()));
        if let Ok(fork) = tokio::time::timeout(patience(due, sent), &mut forking).await {
            return fork.ok();
        }
        due.iter().for_each(|hold| hold.renewed(sent, self.clock.now(), None));
        tokio::time::timeout(defaults::REQUEST_LIMIT, forking).await.ok()?.ok()
    }

    /// Renews up to [`defaults::RENEW_BATCH`] claims in one request. Returns the claims that must be renewed
    /// alone, so that none of them costs the others their leases.
    async fn renew(&self, engine: &SharedEngine, holds: &[Arc<Hold>]) -> Vec<Arc<Hold>> {
        // Some may have been lost while the connection was opened.
        let sent = self.clock.now();
        let holds = not_lost(holds, sent);
        if holds.is_empty() {
            return holds;
        }
        if self.is_a_copy() {
            holds.iter().for_each(|hold| hold.lose(Loss::Copied));
            return Vec::new();
        }
        let claims: Vec<_> = holds.iter().map(|hold| hold.claim.clone()).collect();
        let answers = tokio::time::timeout(patience(&holds, sent), engine.clone().renew(claims)).await;
        let mut answers = answers.unwrap_or_default().into_iter();
        // Read once: whoever asks whether a lease still runs reads the clock for itself.
        let (now, is_alone) = (self.clock.now(), holds.len() == 1);
        let (mut answered, mut blocked) = (Vec::with_capacity(holds.len()), Vec::new());
        for hold in holds {
            match answers.next() {
                Some(Err(error)) if !is_alone && is_of_one_claim(&error) => blocked.push(hold),
                answer => {
                    hold.renewed(sent, now, answer.and_then(Result::ok));
                    answered.push(hold);
                }
            }
        }
        self.schedule_again(&answered);
        blocked
    }

    fn schedule_again(&self, holds: &[Arc<Hold>]) {
        // Looked at before the schedule is locked: whoever listens is told of a loss here, and may let go of a guard.
        let now = self.clock.now();
        let holds = not_lost(holds, now);
        let mut schedule = self.schedule();
        for hold in holds.iter().filter(|hold| !hold.is_given_back()) {
            schedule.insert(hold, now);
        }
        drop(schedule);
        self.bell.notify_one();
    }
}

/// The loop. Its drop says that no loop runs, so that a client which outlives its runtime starts another.
struct Running(Arc<Shared>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.schedule().wakes_at = None;
    }
}

impl Running {
    async fn run(self) {
        let (mut engine, shared) = (None, &self.0);
        shared.first_boot();
        let mut hints = pin!(shared.lost_hints());
        loop {
            let (due, next, now) = {
                let mut schedule = shared.schedule();
                if schedule.closed {
                    return;
                }
                let now = shared.clock.now();
                let (due, next) = schedule.take_due(now);
                (due, next, now)
            };
            let due = not_lost(&due, now);
            if !due.is_empty() {
                // Opened by the first renewal, not by the first lock: most locks are never renewed.
                let fork = match &engine {
                    Some(fork) => Some(SharedEngine::clone(fork)),
                    None => shared.fork(&due).await,
                };
                match &fork {
                    Some(engine) => renew_all(shared, engine, due),
                    None => {
                        let now = shared.clock.now();
                        due.iter().for_each(|hold| hold.renewed(now, now, None));
                        shared.schedule_again(&due);
                    }
                }
                engine = fork;
                continue;
            }
            tokio::select! {
                biased;
                () = shared.clock.sleep_until(next) => {}
                () = shared.bell.notified() => {}
                ids = &mut hints => {
                    hints.set(shared.lost_hints());
                    shared.schedule().hurry(&ids, shared.clock.now());
                }
            }
        }
    }
}

/// Those that may be renewed: to renew a lost one would keep the lock from others for another lease.
fn not_lost(holds: &[Arc<Hold>], now: Moment) -> Vec<Arc<Hold>> {
    holds.iter().filter(|hold| hold.lease_loss(now).is_none()).cloned().collect()
}

/// Whether one claim of the batch is the reason: it has to wait for another transaction, or its stored data
/// is damaged. The server answers in that case, and can handle one request per claim. A server that does not
/// answer gets one request for the whole batch, however often that is retried.
fn is_of_one_claim(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Busy | ErrorKind::Corrupt)
}

/// How long one request for all of these may take.
fn patience(holds: &[Arc<Hold>], now: Moment) -> Duration {
    holds.iter().map(|hold| hold.patience(now)).min().unwrap_or_default()
}

/// In tasks of their own: one stuck request must not delay the others.
fn renew_all(shared: &Arc<Shared>, engine: &SharedEngine, due: Vec<Arc<Hold>>) {
    for batch in due.chunks(defaults::RENEW_BATCH) {
        let (shared, engine, batch) = (shared.clone(), engine.clone(), batch.to_vec());
        tokio::spawn(async move {
            for hold in shared.renew(&engine, &batch).await {
                let (shared, engine) = (shared.clone(), engine.clone());
                tokio::spawn(async move { shared.renew(&engine, &[hold]).await });
            }
        });
    }
}
