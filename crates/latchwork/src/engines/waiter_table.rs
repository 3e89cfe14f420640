//! Notifications from the server for the waiting claims of this client.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::future::poll_fn;
use std::sync::Mutex;
use std::task::{Poll, Waker};

use crate::engine::ClaimId;
use crate::names::BuildIdentityHasher;
use crate::poison::lock_ignoring_poison;

/// Notification for one claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engines) enum Notification {
    /// The server granted the lock, with this token.
    Granted(u64),
    /// Something changed, or may have: claim again.
    Recheck,
}

/// The waiting claims of one client, each with its last notification.
#[derive(Default)]
pub(in crate::engines) struct WaiterTable {
    /// Ids are random and need no hash function.
    claims: Mutex<HashMap<ClaimId, WaiterSlot, BuildIdentityHasher>>,
}

#[derive(Default)]
struct WaiterSlot {
    notification: Option<Notification>,
    waker: Option<Waker>,
    /// The number of claims in a row that found a holder which announces no release.
    silent_holders: u32,
    /// A key whose next change is a notification.
    watched: Option<Box<str>>,
}

impl WaiterTable {
    /// Keeps notifications for `id` from now on. Called before the claim is sent, because a notification may
    /// overtake its reply. Returns whether the claim is only a heartbeat: `id` was in the table before, and
    /// no holder is silent, so there is nothing else to find out.
    pub(in crate::engines) fn expect(&self, id: ClaimId) -> bool {
        match lock_ignoring_poison(&self.claims).entry(id) {
            Entry::Occupied(slot) => slot.get().silent_holders == 0,
            Entry::Vacant(slot) => {
                slot.insert(WaiterSlot::default());
                false
            }
        }
    }

    /// The number of waiting claims.
    pub(in crate::engines) fn waiting(&self) -> usize {
        lock_ignoring_poison(&self.claims).len()
    }

    /// Forgets a claim.
    pub(in crate::engines) fn forget(&self, id: ClaimId) {
        lock_ignoring_poison(&self.claims).remove(&id);
    }

    /// Counts the times in a row at which this claim found a holder that announces no release.
    pub(in crate::engines) fn count_silent_holder(&self, id: ClaimId, is_silent: bool) -> u32 {
        match lock_ignoring_poison(&self.claims).entry(id) {
            Entry::Vacant(_) => 0,
            Entry::Occupied(mut slot) => {
                let count = &mut slot.get_mut().silent_holders;
                *count = if is_silent { count.saturating_add(1) } else { 0 };
                *count
            }
        }
    }

    /// From now on, a change of `key` is a notification for `id`.
    pub(in crate::engines) fn watch(&self, id: ClaimId, key: &str) {
        if let Some(slot) = lock_ignoring_poison(&self.claims).get_mut(&id) {
            slot.watched = Some(key.into());
        }
    }

    /// A client that announces no release changed a key: the claims that watch it claim again.
    pub(in crate::engines) fn changed(&self, key: &[u8]) {
        let watches =
            |slot: &&mut WaiterSlot| slot.watched.as_ref().is_some_and(|watched| watched.as_bytes() == key);
        let wakers: Vec<_> = lock_ignoring_poison(&self.claims)
            .values_mut()
            .filter(watches)
            .filter_map(|slot| slot.deliver(Notification::Recheck))
            .collect();
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Delivers a notification to `id`, if it waits.
    pub(in crate::engines) fn deliver(&self, id: ClaimId, notification: Notification) {
        let waker =
            lock_ignoring_poison(&self.claims).get_mut(&id).and_then(|slot| slot.deliver(notification));
        waker.into_iter().for_each(Waker::wake);
    }

    /// Asks every waiter to claim again: the connection that delivers notifications is closed, and some may
    /// be lost.
    pub(in crate::engines) fn recheck_all(&self) {
        let wakers: Vec<_> = lock_ignoring_poison(&self.claims)
            .values_mut()
            .filter_map(|slot| slot.deliver(Notification::Recheck))
            .collect();
        wakers.into_iter().for_each(Waker::wake);
    }

    /// The next notification for `id`. Cancel safe: a notification stays until it is returned.
    pub(in crate::engines) async fn next(&self, id: ClaimId) -> Notification {
        poll_fn(|context| {
            let mut claims = lock_ignoring_poison(&self.claims);
            let Some(slot) = claims.get_mut(&id) else { return Poll::Ready(Notification::Recheck) };
            match slot.notification.take() {
                Some(notification) => Poll::Ready(notification),
                None => {
                    slot.waker = Some(context.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }
}

impl WaiterSlot {
    fn deliver(&mut self, notification: Notification) -> Option<Waker> {
        // A grant is overwritten neither by a recheck nor by an older grant that arrives on another path.
        match (self.notification, notification) {
            (Some(Notification::Granted(_)), Notification::Recheck) => {}
            (Some(Notification::Granted(old)), Notification::Granted(new)) if old >= new => {}
            _ => self.notification = Some(notification),
        }
        self.waker.take()
    }
}
