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
use crate::Loss;
use crate::clock::{self, Clock, Moment};
use crate::engine::{ClaimId, ErasedEngine, SharedEngine};
use crate::locked::locked;

/// The renewal schedule of one client.
pub(crate) struct Keeper {
    shared: Arc<Shared>,
}

struct Shared {
    /// Weak, so that the engine's session ends with the client and not with the keeper's next look around.
    engine: Weak<dyn ErasedEngine>,
    clock: Clock,
    schedule: Mutex<Schedule>,
    bell: Notify,
    pid: u32,
    /// The boot that the first lock was held on.
    boot: OnceLock<Option<String>>,
}

struct Schedule {
    due: BTreeMap<(Moment, ClaimId), Arc<Hold>>,
    /// When the loop wakes by itself. `None` while no loop runs.
    wakes_at: Option<Moment>,
    closed: bool,
}

impl Keeper {
    pub(crate) fn new(engine: &SharedEngine, clock: Clock) -> Self {
        let schedule = Mutex::new(Schedule { due: BTreeMap::new(), wakes_at: None, closed: false });
        let (engine, pid) = (Arc::downgrade(engine), std::process::id());
        let (bell, boot) = (Notify::new(), OnceLock::new());
        Self { shared: Arc::new(Shared { engine, clock, schedule, bell, pid, boot }) }
    }

    /// Renews `hold` from now on.
    pub(crate) fn add(&self, hold: &Arc<Hold>, background: &Background) {
        let mut schedule = self.shared.schedule();
        let due = schedule.insert(hold);
        match schedule.wakes_at {
            // It need not be rung for a lock that can wait until it wakes up anyway: most are released before.
            Some(wakes_at) if wakes_at <= hold.look(|lease, now| lease.renew_at(now, u8::MAX)) => {}
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
        if let Some(due) = locked(&hold.due).take() {
            schedule.due.remove(&(due, hold.claim.id));
        }
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
        if self.shared.pid == std::process::id() {
            self.shared.schedule().closed = true;
            self.shared.bell.notify_one();
        }
    }
}

impl Schedule {
    fn insert(&mut self, hold: &Arc<Hold>) -> Moment {
        // The claim's id is random, so one of its bytes spreads renewals as well as a fresh draw.
        let [jitter, ..] = *hold.claim.id.as_bytes();
        let due = hold.look(|lease, now| lease.renew_at(now, jitter));
        *locked(&hold.due) = Some(due);
        self.due.insert((due, hold.claim.id), hold.clone());
        due
    }

    /// What is due, and when to look again. With what is due goes what soon will be: one request for many costs little
    /// more than for one.
    fn take_due(&mut self, now: Moment) -> (Vec<Arc<Hold>>, Moment) {
        let mut holds = Vec::new();
        let first = self.due.first_key_value().filter(|((due, _), _)| *due <= now);
        let soon = first.map_or(now, |(_, hold)| now.after(hold.claim.ttl / defaults::RENEW_TOGETHER));
        while let Some(first) = self.due.first_entry() {
            if first.key().0 > soon {
                break;
            }
            let hold = first.remove();
            *locked(&hold.due) = None;
            holds.push(hold);
        }
        // What was planned stays planned: or every short hold on an idle client would ring the keeper.
        let planned = self.wakes_at.filter(|planned| *planned > now).unwrap_or(Moment::NEVER);
        let next = self.due.first_key_value().map_or(planned, |((due, _), _)| planned.min(*due));
        self.wakes_at = Some(next);
        (holds, next)
    }
}

impl Shared {
    fn schedule(&self) -> MutexGuard<'_, Schedule> {
        locked(&self.schedule)
    }

    /// Whether this process is a fork, or an image that was restored on another boot. To renew then would be to keep
    /// alive what the original may have given back.
    fn is_a_copy(&self) -> bool {
        let (first, now) = (self.first_boot(), clock::boot_id().ok());
        self.pid != std::process::id() || first.zip(now.as_ref()).is_some_and(|(first, now)| first != now)
    }

    fn first_boot(&self) -> Option<&String> {
        self.boot.get_or_init(|| clock::boot_id().ok()).as_ref()
    }

    /// The connection to renew through. If it is long in coming, what is `due` waits for it at risk.
    async fn fork(&self, due: &[Arc<Hold>]) -> Option<SharedEngine> {
        let (sent, mut forking) = (self.clock.now(), pin!(self.engine.upgrade()?.fork()));
        if let Ok(fork) = tokio::time::timeout(patience(due), &mut forking).await {
            return fork.ok();
        }
        due.iter().for_each(|hold| hold.renewed(sent, None));
        tokio::time::timeout(defaults::REQUEST_LIMIT, forking).await.ok()?.ok()
    }

    /// Renews up to [`defaults::RENEW_BATCH`] claims in one request.
    async fn renew(&self, engine: &SharedEngine, holds: &[Arc<Hold>]) {
        // Some may have been lost while the connection was opened.
        let holds = &not_lost(holds)[..];
        if holds.is_empty() {
            return;
        }
        if self.is_a_copy() {
            return holds.iter().for_each(|hold| hold.lose(Loss::Copied));
        }
        let claims: Vec<_> = holds.iter().map(|hold| hold.claim.clone()).collect();
        let sent = self.clock.now();
        let answers = tokio::time::timeout(patience(holds), engine.clone().renew(claims)).await;
        let mut answers = answers.unwrap_or_default().into_iter();
        for hold in holds {
            hold.renewed(sent, answers.next().and_then(Result::ok));
        }
        self.schedule_again(holds);
    }

    fn schedule_again(&self, holds: &[Arc<Hold>]) {
        // Looked at before the schedule is locked: whoever listens is told of a loss here, and may let go of a guard.
        let holds = not_lost(holds);
        let mut schedule = self.schedule();
        for hold in holds.iter().filter(|hold| !hold.is_given_back()) {
            schedule.insert(hold);
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
        let mut engine = None;
        self.0.first_boot();
        loop {
            let shared = &self.0;
            let (due, next) = {
                let mut schedule = shared.schedule();
                if schedule.closed {
                    return;
                }
                schedule.take_due(shared.clock.now())
            };
            let due = not_lost(&due);
            if !due.is_empty() {
                // Opened by the first renewal, not by the first lock: most locks are never renewed.
                let fork = match &engine {
                    Some(fork) => Some(SharedEngine::clone(fork)),
                    None => shared.fork(&due).await,
                };
                match &fork {
                    Some(engine) => renew_all(shared, engine, due),
                    None => {
                        due.iter().for_each(|hold| hold.renewed(shared.clock.now(), None));
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
            }
        }
    }
}

/// Those that may be renewed: to renew a lost one would keep the lock from others for another lease.
fn not_lost(holds: &[Arc<Hold>]) -> Vec<Arc<Hold>> {
    holds.iter().filter(|hold| hold.lease_loss().is_none()).cloned().collect()
}

/// How long one request for all of these may take.
fn patience(holds: &[Arc<Hold>]) -> Duration {
    holds.iter().map(|hold| hold.look(|lease, now| lease.patience(now))).min().unwrap_or_default()
}

/// In tasks of their own: one stuck request must not delay the others.
fn renew_all(shared: &Arc<Shared>, engine: &SharedEngine, due: Vec<Arc<Hold>>) {
    for batch in due.chunks(defaults::RENEW_BATCH) {
        let (shared, engine, batch) = (shared.clone(), engine.clone(), batch.to_vec());
        tokio::spawn(async move { shared.renew(&engine, &batch).await });
    }
}
