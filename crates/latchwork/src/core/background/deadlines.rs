//! The deadlines of requests, watched on the client's own thread.
//!
//! Most requests are answered long before their limit, and a timer of the runtime for each would cost more
//! than all other work around it. Here a request only leaves its waker, and the watch checks the wakers about
//! once per request limit.

use std::sync::{Arc, Mutex};
use std::task::Waker;

use tokio::sync::Notify;

use crate::clock::{Clock, Moment};
use crate::poison::lock_ignoring_poison;

/// The requests that are under way, and the deadline of each.
#[derive(Default)]
pub(crate) struct RequestDeadlines {
    table: Mutex<DeadlineTable>,
    wake_up: Notify,
}

#[derive(Default)]
struct DeadlineTable {
    entries: Vec<DeadlineEntry>,
    /// Entries that no request uses.
    free: Vec<usize>,
    /// When the watch checks again. `None` while no watch runs.
    wakes_at: Option<Moment>,
}

struct DeadlineEntry {
    limit: Moment,
    /// `None` once it was woken, or the request is over.
    waker: Option<Waker>,
}

impl RequestDeadlines {
    /// Has `waker` woken at `limit`. `None` if no watch runs: before the client has its thread, or if it
    /// cannot have one.
    pub(crate) fn insert(&self, limit: Moment, waker: &Waker) -> Option<usize> {
        let mut table = lock_ignoring_poison(&self.table);
        let wakes_at = table.wakes_at?;
        let entry = DeadlineEntry { limit, waker: Some(waker.clone()) };
        let at = match table.free.pop() {
            Some(at) => {
                table.entries[at] = entry;
                at
            }
            None => {
                table.entries.push(entry);
                table.entries.len() - 1
            }
        };
        drop(table);
        if limit < wakes_at {
            self.wake_up.notify_one();
        }
        Some(at)
    }

    /// Updates the waker of a request that may have moved to another task. False if no watch runs any more.
    pub(crate) fn update(&self, at: usize, waker: &Waker) -> bool {
        let mut table = lock_ignoring_poison(&self.table);
        let is_watched = table.wakes_at.is_some();
        let former = match &mut table.entries[at].waker {
            Some(same) if same.will_wake(waker) => None,
            former => former.replace(waker.clone()),
        };
        drop(table);
        // After the mutex is unlocked: a task may end with its last waker, and a request with its task.
        drop(former);
        is_watched
    }

    /// The request is over.
    pub(crate) fn remove(&self, at: usize) {
        let mut table = lock_ignoring_poison(&self.table);
        let former = table.entries[at].waker.take();
        table.free.push(at);
        drop(table);
        drop(former);
    }

    /// Wakes each request at its deadline, for as long as the client lives.
    pub(crate) async fn watch(self: Arc<Self>, clock: Clock) {
        let watch = DeadlineWatch(&self);
        loop {
            let (due, next) = lock_ignoring_poison(&watch.0.table).take_due(clock.now());
            due.into_iter().for_each(Waker::wake);
            tokio::select! {
                biased;
                () = clock.sleep_until(next) => {}
                () = watch.0.wake_up.notified() => {}
            }
        }
    }
}

impl DeadlineTable {
    fn take_due(&mut self, now: Moment) -> (Vec<Waker>, Moment) {
        let is_due = |entry: &&mut DeadlineEntry| entry.limit <= now;
        let due = self.entries.iter_mut().filter(is_due).filter_map(|entry| entry.waker.take()).collect();
        let later = self.entries.iter().filter(|entry| entry.waker.is_some()).map(|entry| entry.limit);
        let next = later.min().unwrap_or(Moment::NEVER);
        self.wakes_at = Some(next);
        (due, next)
    }
}

/// The running watch. Once it is gone, requests need timers of their own, and the requests under way get one.
struct DeadlineWatch<'a>(&'a RequestDeadlines);

impl Drop for DeadlineWatch<'_> {
    fn drop(&mut self) {
        let mut table = lock_ignoring_poison(&self.0.table);
        table.wakes_at = None;
        let left: Vec<_> = table.entries.iter_mut().filter_map(|entry| entry.waker.take()).collect();
        drop(table);
        left.into_iter().for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;
    use std::time::Duration;

    use super::*;

    /// Counts its wake-ups.
    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    async fn nap(millis: u64) {
        tokio::time::sleep(Duration::from_millis(millis)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn each_request_is_woken_at_its_deadline_and_none_that_is_over() {
        let (deadlines, clock) = (Arc::<RequestDeadlines>::default(), Clock::tokio());
        let counts: [Arc<Count>; 3] = std::array::from_fn(|_| Arc::default());
        let wakers = counts.each_ref().map(|count| Waker::from(count.clone()));
        let woken = || counts.each_ref().map(|count| count.0.load(Ordering::Relaxed));
        let limit = |millis| clock.now().after(Duration::from_millis(millis));
        assert_eq!(deadlines.insert(limit(5), &wakers[0]), None, "no watch runs yet");

        let watch = tokio::spawn(deadlines.clone().watch(clock));
        nap(1).await;
        let late = deadlines.insert(limit(200), &wakers[0]).expect("watched");
        deadlines.insert(limit(100), &wakers[1]).expect("watched");
        let gone = deadlines.insert(limit(50), &wakers[2]).expect("watched");
        deadlines.remove(gone);
        nap(99).await;
        assert_eq!(woken(), [0, 0, 0]);
        nap(2).await;
        assert_eq!(woken(), [0, 1, 0]);
        assert!(deadlines.update(late, &wakers[2]), "still watched");
        nap(100).await;
        assert_eq!(woken(), [0, 1, 1], "in its new task");

        let left = deadlines.insert(limit(50), &wakers[0]).expect("watched");
        watch.abort();
        nap(1).await;
        assert_eq!(woken(), [1, 1, 1], "so that it sets its own timer");
        assert!(!deadlines.update(left, &wakers[0]) && deadlines.insert(limit(9), &wakers[0]).is_none());
    }
}
