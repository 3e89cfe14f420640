//! A held claim, as its guard and the keeper see it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use tokio::sync::Notify;

use super::lease::Lease;
use crate::Loss;
use crate::clock::{Clock, Moment};
use crate::engine::{Claim, Renewal};
use crate::locked::locked;

/// One held claim.
pub(crate) struct Hold {
    pub(crate) claim: Arc<Claim>,
    clock: Clock,
    lease: Mutex<Lease>,
    changed: Notify,
    /// Where it stands in the keeper's schedule; `None` while it is being renewed, and after its release.
    pub(super) due: Mutex<Option<Moment>>,
    released: AtomicBool,
}

impl Hold {
    pub(crate) fn new(claim: Arc<Claim>, clock: Clock, lease: Lease) -> Arc<Self> {
        Arc::new(Self {
            claim,
            clock,
            lease: Mutex::new(lease),
            changed: Notify::new(),
            due: Mutex::new(None),
            released: AtomicBool::new(false),
        })
    }

    /// Looks at the lease as it stands now.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&mut Lease, Moment) -> T) -> T {
        look(&mut locked(&self.lease), self.clock.now())
    }

    /// Why it is lost, if it is.
    pub(crate) fn loss(&self) -> Option<Loss> {
        self.look(|lease, now| lease.loss(now))
    }

    /// Takes in the answer to a renewal, and tells whoever waits for the loss.
    pub(crate) fn renewed(&self, sent: Moment, answer: Option<Renewal>) {
        self.look(|lease, now| lease.renewed(sent, now, answer));
        self.changed.notify_waiters();
    }

    /// The holder gave it back: from here on nothing renews it, and nothing counts as a loss.
    pub(crate) fn set_released(&self) {
        self.released.store(true, Ordering::Release);
    }

    pub(crate) fn is_released(&self) -> bool {
        self.released.load(Ordering::Acquire)
    }

    /// Resolves when the claim is lost, before the lease can run out.
    pub(crate) async fn lost(&self) -> Loss {
        loop {
            let changed = self.changed.notified();
            let stop_at = match self.look(|lease, now| lease.loss(now).ok_or(lease.stop_at())) {
                Ok(loss) => return loss,
                Err(stop_at) => stop_at,
            };
            tokio::select! {
                () = changed => {}
                () = self.clock.sleep_until(stop_at) => {}
            }
        }
    }
}
