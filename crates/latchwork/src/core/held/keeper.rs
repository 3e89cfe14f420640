//! The keeper renews held claims for as long as their guards live.
//!
//! It runs on the client's own thread, through a connection of its own, so that user code that blocks every
//! worker cannot starve it; for an engine on tokio's clock it runs in the runtime, so that paused time moves
//! it too. It sleeps until something is due, and a lock released before its first renewal never wakes it.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::Notify;

use super::LeaseState;
use crate::clock::{self, Clock, Moment};
use crate::core::background::Background;
use crate::core::defaults;
use crate::engine::{ClaimId, ErasedEngine, SharedEngine};
use crate::poison::lock_ignoring_poison;
use crate::{Error, ErrorKind, Loss};

/// The largest number of entries without an order: to sort many at once would take long.
const FRESH: usize = 256;

/// The slot of a lease in the schedule.
#[derive(Clone, Copy)]
pub(super) enum ScheduleSlot {
    Fresh(usize),
    Due(Moment),
}

/// The renewal schedule of one client.
pub(crate) struct Keeper {
    shared: Arc<KeeperShared>,
}

/// The state that the keeper and its loop share.
struct KeeperShared {
    /// Weak, so that the engine's session ends with the client and not with the keeper's next wake-up.
    engine: Weak<dyn ErasedEngine>,
    /// Whether the engine reports losses between renewals.
    reports_losses: bool,
    clock: Clock,
    schedule: Mutex<Schedule>,
    wake_up: Notify,
    pid: u32,
    /// The boot that the first lock was held on.
    boot: OnceLock<Option<String>>,
}

#[derive(Default)]
struct Schedule {
    due: BTreeMap<(Moment, ClaimId), Arc<LeaseState>>,
    /// The entries that were added since the loop last ran, in any order: most are gone before it runs again.
    fresh: Vec<Option<Arc<LeaseState>>>,
    /// The empty indexes of `fresh`.
    free: Vec<usize>,
    /// When the loop wakes by itself. `None` while no loop runs.
    wakes_at: Option<Moment>,
    closed: bool,
}

impl Keeper {
    pub(crate) fn new(engine: &SharedEngine, clock: Clock) -> Self {
        let (reports_losses, schedule) = (engine.guarantees().tells_losses, Mutex::default());
        let (engine, pid) = (Arc::downgrade(engine), forkmark::process_id());
        let (wake_up, boot) = (Notify::new(), OnceLock::new());
        Self {
            shared: Arc::new(KeeperShared { engine, reports_losses, clock, schedule, wake_up, pid, boot }),
        }
    }

    /// Renews `lease` from now on.
    pub(crate) fn add(&self, lease: &Arc<LeaseState>, background: &Background, now: Moment) {
        let mut schedule = self.shared.schedule();
        let due = schedule.add(lease, now);
        match schedule.wakes_at {
            Some(wakes_at) if wakes_at <= due => {}
            // A lock that can wait until the loop wakes up anyway needs no wake-up: most are released before.
            Some(wakes_at) if wakes_at <= lease.renew_at(now, u8::MAX) => {}
            Some(_) => self.shared.wake_up.notify_one(),
            None => {
                // Under the same mutex guard, so that two first locks do not start two loops.
                schedule.wakes_at = Some(due);
                drop(schedule);
                self.start(background);
            }
        }
    }

    /// Removes a lease that its guard releases.
    pub(crate) fn remove(&self, lease: &LeaseState) {
        let mut schedule = self.shared.schedule();
        lease.set_released();
        schedule.remove(lease);
    }

    /// Starts the loop. If the system has no thread left, the caller's runtime has to do; without that, the
    /// lease is not renewed, and its holder is told in time.
    fn start(&self, background: &Background) {
        let thread = match self.shared.clock.lives_in_the_runtime() {
            true => None,
            false => background.thread(),
        };
        // Its drop, run or not, marks the loop as ended.
        let keeper_loop = KeeperLoop(self.shared.clone());
        if let Some(runtime) = thread.or_else(|| Handle::try_current().ok()) {
            drop(runtime.spawn(keeper_loop.run()));
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        // In a fork no loop runs, and the schedule may be locked by a thread that does not exist.
        if self.shared.pid == forkmark::process_id() {
            self.shared.schedule().closed = true;
            self.shared.wake_up.notify_one();
        }
    }
}

impl Schedule {
    /// Adds a lease. Returns when it is due.
    fn add(&mut self, lease: &Arc<LeaseState>, now: Moment) -> Moment {
        let at = match self.free.pop() {
            Some(at) => at,
            None if self.fresh.len() < FRESH => {
                self.fresh.push(None);
                self.fresh.len() - 1
            }
            None => return self.insert(lease, now),
        };
        self.fresh[at] = Some(lease.clone());
        *lock_ignoring_poison(&lease.slot) = Some(ScheduleSlot::Fresh(at));
        due(lease, now)
    }

    fn insert(&mut self, lease: &Arc<LeaseState>, now: Moment) -> Moment {
        let due = due(lease, now);
        *lock_ignoring_poison(&lease.slot) = Some(ScheduleSlot::Due(due));
        self.due.insert((due, lease.claim.id), lease.clone());
        due
    }

    fn remove(&mut self, lease: &LeaseState) {
        match lock_ignoring_poison(&lease.slot).take() {
            None => {}
            Some(ScheduleSlot::Fresh(at)) => {
                self.fresh[at] = None;
                self.free.push(at);
            }
            Some(ScheduleSlot::Due(due)) => drop(self.due.remove(&(due, lease.claim.id))),
        }
    }

    fn sort_fresh(&mut self, now: Moment) {
        self.free.clear();
        for lease in std::mem::take(&mut self.fresh).iter().flatten() {
            self.insert(lease, now);
        }
    }

    /// Makes these claims due at once. A claim that is being renewed is not in the schedule. But on the
    /// keeper's one thread its answer is applied, and the claim is back in the schedule, before any hint is
    /// read that came after that answer.
    fn hurry(&mut self, ids: &[ClaimId], now: Moment) {
        self.sort_fresh(now);
        let named =
            |((due, id), _): (&(Moment, ClaimId), &Arc<LeaseState>)| ids.contains(id).then_some((*due, *id));
        for key in self.due.iter().filter_map(named).collect::<Vec<_>>() {
            let lease = self.due.remove(&key).expect("it was just there");
            *lock_ignoring_poison(&lease.slot) = Some(ScheduleSlot::Due(now));
            self.due.insert((now, key.1), lease);
        }
    }

    /// The claims that are due, and when to check again. Claims that soon will be due go with them: one
    /// request for many claims costs little more than for one.
    fn take_due(&mut self, now: Moment) -> (Vec<Arc<LeaseState>>, Moment) {
        self.sort_fresh(now);
        let mut leases = Vec::new();
        let first = self.due.first_key_value().filter(|((due, _), _)| *due <= now);
        let soon = first.map_or(now, |(_, lease)| now.after(lease.claim.ttl / defaults::RENEW_TOGETHER));
        while let Some(first) = self.due.first_entry() {
            if first.key().0 > soon {
                break;
            }
            let lease = first.remove();
            *lock_ignoring_poison(&lease.slot) = None;
            leases.push(lease);
        }
        // A planned wake-up stays planned. Otherwise every short lease on an idle client would wake the
        // keeper.
        let planned = self.wakes_at.filter(|planned| *planned > now).unwrap_or(Moment::NEVER);
        let next = self.due.first_key_value().map_or(planned, |((due, _), _)| planned.min(*due));
        self.wakes_at = Some(next);
        (leases, next)
    }
}

/// The claim's id is random, so one of its bytes spreads renewals as well as a fresh draw.
fn due(lease: &LeaseState, now: Moment) -> Moment {
    let [jitter, ..] = *lease.claim.id.as_bytes();
    lease.renew_at(now, jitter)
}

impl KeeperShared {
    fn schedule(&self) -> MutexGuard<'_, Schedule> {
        lock_ignoring_poison(&self.schedule)
    }

    /// Whether this process is a fork, or an image that was restored on another boot. A renewal would then
    /// keep a claim alive that the original may have released.
    fn is_a_copy(&self) -> bool {
        let (first, now) = (self.first_boot(), clock::boot_id().ok());
        self.pid != forkmark::process_id() || first.zip(now.as_ref()).is_some_and(|(first, now)| first != now)
    }

    fn first_boot(&self) -> Option<&String> {
        self.boot.get_or_init(|| clock::boot_id().ok()).as_ref()
    }

    /// Waits until the engine reports held claims that may be lost.
    async fn lost_hints(&self) -> Vec<ClaimId> {
        match self.engine.upgrade().filter(|_| self.reports_losses) {
            Some(engine) => engine.lost_hints().await,
            None => std::future::pending().await,
        }
    }

    /// Opens the connection for renewals. If that takes long, the leases that are `due` are marked as at
    /// risk.
    async fn fork(&self, due: &[Arc<LeaseState>]) -> Option<SharedEngine> {
        let (sent, mut forking) = (self.clock.now(), pin!(self.engine.upgrade()?.fork()));
        if let Ok(fork) = tokio::time::timeout(renewal_timeout(due, sent), &mut forking).await {
            return fork.ok();
        }
        due.iter().for_each(|lease| lease.renewed(sent, self.clock.now(), None));
        tokio::time::timeout(defaults::REQUEST_LIMIT, forking).await.ok()?.ok()
    }

    /// Renews up to [`defaults::RENEW_BATCH`] claims in one request. Returns the claims that must be renewed
    /// alone, so that they do not cost the others their leases.
    async fn renew(&self, engine: &SharedEngine, leases: &[Arc<LeaseState>]) -> Vec<Arc<LeaseState>> {
        // Some may have been lost while the connection was opened.
        let sent = self.clock.now();
        let leases = not_lost(leases, sent);
        if leases.is_empty() {
            return leases;
        }
        if self.is_a_copy() {
            leases.iter().for_each(|lease| lease.lose(Loss::Copied));
            return Vec::new();
        }
        let claims: Vec<_> = leases.iter().map(|lease| lease.claim.clone()).collect();
        let answers =
            tokio::time::timeout(renewal_timeout(&leases, sent), engine.clone().renew(claims)).await;
        let mut answers = answers.unwrap_or_default().into_iter();
        // Read once: each check of a lease reads the clock by itself.
        let (now, is_alone) = (self.clock.now(), leases.len() == 1);
        let (mut answered, mut blocked) = (Vec::with_capacity(leases.len()), Vec::new());
        for lease in leases {
            match answers.next() {
                Some(Err(error)) if !is_alone && is_of_one_claim(&error) => blocked.push(lease),
                answer => {
                    lease.renewed(sent, now, answer.and_then(Result::ok));
                    answered.push(lease);
                }
            }
        }
        self.schedule_again(&answered);
        blocked
    }

    fn schedule_again(&self, leases: &[Arc<LeaseState>]) {
        // Checked before the schedule is locked: a loss is reported here, and its listener may drop a guard.
        let now = self.clock.now();
        let leases = not_lost(leases, now);
        let mut schedule = self.schedule();
        for lease in leases.iter().filter(|lease| !lease.is_released()) {
            schedule.insert(lease, now);
        }
        drop(schedule);
        self.wake_up.notify_one();
    }
}

/// The running loop. Its drop marks the loop as ended, so that a client which outlives its runtime starts
/// another.
struct KeeperLoop(Arc<KeeperShared>);

impl Drop for KeeperLoop {
    fn drop(&mut self) {
        self.0.schedule().wakes_at = None;
    }
}

impl KeeperLoop {
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
                        due.iter().for_each(|lease| lease.renewed(now, now, None));
                        shared.schedule_again(&due);
                    }
                }
                engine = fork;
                continue;
            }
            tokio::select! {
                biased;
                () = shared.clock.sleep_until(next) => {}
                () = shared.wake_up.notified() => {}
                ids = &mut hints => {
                    hints.set(shared.lost_hints());
                    shared.schedule().hurry(&ids, shared.clock.now());
                }
            }
        }
    }
}

/// The leases that may be renewed. Renewing a lost one would keep the lock from others for another lease.
fn not_lost(leases: &[Arc<LeaseState>], now: Moment) -> Vec<Arc<LeaseState>> {
    leases.iter().filter(|lease| lease.lease_loss(now).is_none()).cloned().collect()
}

/// Whether one claim of the batch is the reason: it has to wait for another transaction, or its stored data
/// is damaged. The server answers in that case, and can handle one request per claim. A server that does not
/// answer gets one request for the whole batch, however often that is retried.
fn is_of_one_claim(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Busy | ErrorKind::Corrupt)
}

/// How long one request for all of these leases may take.
fn renewal_timeout(leases: &[Arc<LeaseState>], now: Moment) -> Duration {
    leases.iter().map(|lease| lease.renewal_timeout(now)).min().unwrap_or_default()
}

/// Renews each batch in a task of its own: one stuck request must not delay the others.
fn renew_all(shared: &Arc<KeeperShared>, engine: &SharedEngine, due: Vec<Arc<LeaseState>>) {
    for batch in due.chunks(defaults::RENEW_BATCH) {
        let (shared, engine, batch) = (shared.clone(), engine.clone(), batch.to_vec());
        tokio::spawn(async move {
            for lease in shared.renew(&engine, &batch).await {
                let (shared, engine) = (shared.clone(), engine.clone());
                tokio::spawn(async move { shared.renew(&engine, &[lease]).await });
            }
        });
    }
}
