//! A held claim, as its guards and the keeper see it.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Notify;

use super::keeper::Place;
use super::lease::Lease;
use super::{Core, alarm, telemetry};
use crate::Loss;
use crate::clock::{Clock, Moment};
use crate::engine::{Claim, Renewal};
use crate::poison::lock_ignoring_poison;

/// No guard's turn: the claim was given back.
const GIVEN_BACK: u32 = u32::MAX;

/// One held claim.
pub(crate) struct Hold {
    pub(crate) claim: Arc<Claim>,
    pub(crate) engine: &'static str,
    /// Whether the engine would have given a token, had it been asked for one.
    pub(crate) tokens_on_request: bool,
    clock: Clock,
    /// The process that took it.
    pid: u32,
    lease: Mutex<Lease>,
    changed: Notify,
    /// Where it stands in the keeper's schedule; `None` while it is being renewed, and after its release.
    pub(super) place: Mutex<Option<Place>>,
    /// Whose turn it is: how often the claim was passed on.
    turn: AtomicU32,
}

impl Hold {
    pub(crate) fn new(claim: Arc<Claim>, core: &Core, lease: Lease) -> Arc<Self> {
        Arc::new(Self {
            claim,
            engine: core.promised.engine,
            tokens_on_request: core.promised.tokens.is_some(),
            clock: core.clock,
            pid: core.pid,
            lease: Mutex::new(lease),
            changed: Notify::new(),
            place: Mutex::new(None),
            turn: AtomicU32::new(0),
        })
    }

    /// Looks at the lease as it stands now.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&mut Lease, Moment) -> T) -> T {
        // Read while nobody changes the lease: a time before it began would look like a copy's.
        self.touch(|lease| look(lease, self.clock.now()))
    }

    /// Whatever finds that the lease is lost says so, once.
    fn touch<T>(&self, touch: impl FnOnce(&mut Lease) -> T) -> T {
        let mut lease = lock_ignoring_poison(&self.lease);
        let was_lost = lease.found_lost();
        let seen = touch(&mut lease);
        let news = lease.found_lost().filter(|_| was_lost.is_none() && !self.is_given_back());
        drop(lease);
        if let Some(why) = news {
            telemetry::lost(&self.claim, self.engine, why);
        }
        seen
    }

    /// When to renew it. `jitter` is any byte, drawn at random.
    pub(crate) fn renew_at(&self, now: Moment, jitter: u8) -> Moment {
        lock_ignoring_poison(&self.lease).renew_at(now, jitter)
    }

    /// Why the lease is lost, if it is. `now` was read after it began.
    pub(crate) fn lease_loss(&self, now: Moment) -> Option<Loss> {
        self.touch(|lease| lease.loss(now))
    }

    /// The same by now, read when nobody can renew it meanwhile: an earlier time would look like a copy's.
    pub(crate) fn lease_loss_now(&self) -> Option<Loss> {
        self.look(|lease, now| lease.loss(now))
    }

    /// Whether it is held at `now`, for code that must not tell anybody of a loss.
    pub(crate) fn is_certain_at(&self, now: Moment) -> bool {
        lock_ignoring_poison(&self.lease).judged(now).is_none()
    }

    /// How long one request for its renewal may take.
    pub(crate) fn patience(&self, now: Moment) -> Duration {
        lock_ignoring_poison(&self.lease).patience(now)
    }

    /// Why it is lost, if it is: to a fork of the process that took it, it always is.
    pub(crate) fn loss(&self) -> Option<Loss> {
        self.loss_now().0
    }

    /// The same, and when that was asked. A fork does not touch the mutex: a thread that is not there may have locked it.
    pub(crate) fn loss_now(&self) -> (Option<Loss>, Moment) {
        if self.pid != forkmark::process_id() {
            return (Some(Loss::Copied), self.clock.now());
        }
        self.look(|lease, now| (lease.loss(now), now))
    }

    /// Takes in the answer to a renewal, and tells whoever waits for the loss.
    pub(crate) fn renewed(&self, sent: Moment, now: Moment, answer: Option<Renewal>) {
        telemetry::renewed(&self.claim, self.engine, answer.as_ref());
        self.touch(|lease| lease.renewed(sent, now, answer));
        self.changed.notify_waiters();
    }

    /// It is lost for a reason that no engine tells.
    pub(crate) fn lose(&self, why: Loss) {
        self.touch(|lease| lease.lose(why));
        self.changed.notify_waiters();
    }

    /// The next guard holds from now on.
    pub(crate) fn begin_turn(&self, turn: u8, now: Moment) {
        self.turn.store(u32::from(turn), Ordering::Release);
        lock_ignoring_poison(&self.lease).begin_turn(now);
    }

    /// Whether the guard of this turn still holds it.
    pub(crate) fn is_turn(&self, turn: u8) -> bool {
        self.turn.load(Ordering::Acquire) == u32::from(turn)
    }

    /// The holder gave it back: from here on nothing renews it, and nothing counts as a loss.
    pub(crate) fn set_given_back(&self) {
        let _no_look_meanwhile = lock_ignoring_poison(&self.lease);
        self.turn.store(GIVEN_BACK, Ordering::Release);
    }

    pub(crate) fn is_given_back(&self) -> bool {
        self.turn.load(Ordering::Acquire) == GIVEN_BACK
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
