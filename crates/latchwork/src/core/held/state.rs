//! The lease of a held claim, as its guards and the keeper share it.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Notify;

use super::keeper::ScheduleSlot;
use super::{LocalLease, alarm};
use crate::Loss;
use crate::clock::{Clock, Moment};
use crate::core::{Core, telemetry};
use crate::engine::{Claim, Renewal};
use crate::poison::lock_ignoring_poison;

/// No guard's turn: the claim was released.
const RELEASED: u32 = u32::MAX;

/// The lease of one held claim. Guards read it, and the keeper renews it.
pub(crate) struct LeaseState {
    pub(crate) claim: Arc<Claim>,
    pub(crate) engine: &'static str,
    /// Whether the engine would have given a token, had it been asked for one.
    pub(crate) tokens_on_request: bool,
    clock: Clock,
    /// The process that took it.
    pid: u32,
    lease: Mutex<LocalLease>,
    changed: Notify,
    /// Its slot in the keeper's schedule. `None` while it is being renewed, and after its release.
    pub(super) slot: Mutex<Option<ScheduleSlot>>,
    /// Whose turn it is: how often the claim was passed on.
    turn: AtomicU32,
}

impl LeaseState {
    pub(crate) fn new(claim: Arc<Claim>, core: &Core, lease: LocalLease) -> Arc<Self> {
        Arc::new(Self {
            claim,
            engine: core.promised.engine,
            tokens_on_request: core.promised.tokens.is_some(),
            clock: core.clock,
            pid: core.pid,
            lease: Mutex::new(lease),
            changed: Notify::new(),
            slot: Mutex::new(None),
            turn: AtomicU32::new(0),
        })
    }

    /// Reads the lease as it is now.
    pub(crate) fn read<T>(&self, read: impl FnOnce(&mut LocalLease, Moment) -> T) -> T {
        // The clock is read while the lease cannot change: a time before the lease began would look like a
        // copy's.
        self.access(|lease| read(lease, self.clock.now()))
    }

    /// Reads or changes the lease. Reports a loss once, whichever access finds it.
    fn access<T>(&self, access: impl FnOnce(&mut LocalLease) -> T) -> T {
        let mut lease = lock_ignoring_poison(&self.lease);
        let was_lost = lease.found_lost();
        let result = access(&mut lease);
        let found = lease.found_lost().filter(|_| was_lost.is_none() && !self.is_released());
        drop(lease);
        if let Some(why) = found {
            telemetry::lost(&self.claim, self.engine, why);
        }
        result
    }

    /// When to renew it. `jitter` is any byte, drawn at random.
    pub(crate) fn renew_at(&self, now: Moment, jitter: u8) -> Moment {
        lock_ignoring_poison(&self.lease).renew_at(now, jitter)
    }

    /// Why the lease is lost, if it is. `now` was read after it began.
    pub(crate) fn lease_loss(&self, now: Moment) -> Option<Loss> {
        self.access(|lease| lease.loss(now))
    }

    /// Why the lease is lost now, if it is. The clock is read while no renewal can happen: an earlier time
    /// would look like a copy's.
    pub(crate) fn lease_loss_now(&self) -> Option<Loss> {
        self.read(|lease, now| lease.loss(now))
    }

    /// Whether the claim is held at `now`, for code that must not report a loss.
    pub(crate) fn is_certain_at(&self, now: Moment) -> bool {
        lock_ignoring_poison(&self.lease).loss_at(now).is_none()
    }

    /// How long one request for its renewal may take.
    pub(crate) fn renewal_timeout(&self, now: Moment) -> Duration {
        lock_ignoring_poison(&self.lease).renewal_timeout(now)
    }

    /// Why it is lost, if it is. For a fork of the process that took it, it always is.
    pub(crate) fn loss(&self) -> Option<Loss> {
        self.loss_now().0
    }

    /// Why it is lost, and the time at which that was read. A fork does not lock the mutex: a thread that
    /// does not exist there may have locked it.
    pub(crate) fn loss_now(&self) -> (Option<Loss>, Moment) {
        if self.pid != forkmark::process_id() {
            return (Some(Loss::Copied), self.clock.now());
        }
        self.read(|lease, now| (lease.loss(now), now))
    }

    /// Applies the answer to a renewal, and wakes the tasks that wait for a loss.
    pub(crate) fn renewed(&self, sent: Moment, now: Moment, answer: Option<Renewal>) {
        telemetry::renewed(&self.claim, self.engine, answer.as_ref());
        self.access(|lease| lease.renewed(sent, now, answer));
        self.changed.notify_waiters();
    }

    /// The claim is lost for a reason that no engine reports.
    pub(crate) fn lose(&self, why: Loss) {
        self.access(|lease| lease.lose(why));
        self.changed.notify_waiters();
    }

    /// The next guard holds the claim from now on.
    pub(crate) fn begin_turn(&self, turn: u8, now: Moment) {
        self.turn.store(u32::from(turn), Ordering::Release);
        lock_ignoring_poison(&self.lease).begin_turn(now);
    }

    /// Whether the guard of this turn still holds it.
    pub(crate) fn is_turn(&self, turn: u8) -> bool {
        self.turn.load(Ordering::Acquire) == u32::from(turn)
    }

    /// The holder released it. From here on the claim is not renewed, and no loss is reported.
    pub(crate) fn set_released(&self) {
        let _no_access_meanwhile = lock_ignoring_poison(&self.lease);
        self.turn.store(RELEASED, Ordering::Release);
    }

    pub(crate) fn is_released(&self) -> bool {
        self.turn.load(Ordering::Acquire) == RELEASED
    }

    /// Resolves when the claim is lost during this turn, before the lease can run out.
    pub(crate) async fn lost(&self, turn: u8) -> Loss {
        loop {
            let changed = self.changed.notified();
            if !self.is_turn(turn) {
                return std::future::pending().await;
            }
            if let Some(loss) = self.loss() {
                return loss;
            }
            let stop_at = lock_ignoring_poison(&self.lease).stop_at();
            tokio::select! {
                biased;
                () = changed => {}
                () = alarm::sleep_until(self.clock, stop_at) => {}
            }
        }
    }
}
