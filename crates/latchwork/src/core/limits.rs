//! How long requests may take, watched by the client's own thread.
//!
//! Most requests are answered long before, and a timer of the runtime for each would cost more than all else around it.
//! Here a request only leaves its waker, and the watch looks about as often as a request may take long.

use std::sync::{Arc, Mutex};
use std::task::Waker;

use tokio::sync::Notify;

use crate::clock::{Clock, Moment};
use crate::poison::lock_ignoring_poison;

/// The requests that are under way, and until when each may be.
#[derive(Default)]
pub(crate) struct Limits {
    watched: Mutex<Watched>,
    bell: Notify,
}

#[derive(Default)]
struct Watched {
    places: Vec<Place>,
    /// Places that nobody has.
    free: Vec<usize>,
    /// When the watch looks again. `None` while there is none.
    looks_at: Option<Moment>,
}

struct Place {
    limit: Moment,
    /// Gone once it was woken, or left.
    waker: Option<Waker>,
}

impl Limits {
    /// Has `waker` woken at `limit`. `None` if nobody watches: before the client has its thread, or if it cannot have one.
    pub(crate) fn enter(&self, limit: Moment, waker: &Waker) -> Option<usize> {
        let mut watched = lock_ignoring_poison(&self.watched);
        let looks_at = watched.looks_at?;
        let place = Place { limit, waker: Some(waker.clone()) };
        let at = match watched.free.pop() {
            Some(at) => {
                watched.places[at] = place;
                at
            }
            None => {
                watched.places.push(place);
                watched.places.len() - 1
            }
        };
        drop(watched);
        if limit < looks_at {
            self.bell.notify_one();
        }
        Some(at)
    }

    /// The same for a request that may have moved to another task. False if nobody watches any more.
    pub(crate) fn stay(&self, at: usize, waker: &Waker) -> bool {
        let mut watched = lock_ignoring_poison(&self.watched);
        let is_watched = watched.looks_at.is_some();
        let former = match &mut watched.places[at].waker {
            Some(same) if same.will_wake(waker) => None,
            former => former.replace(waker.clone()),
        };
        drop(watched);
        // With the mutex free again: a task may end with its last waker, and a request with its task.
        drop(former);
        is_watched
    }

    /// The request is over.
    pub(crate) fn leave(&self, at: usize) {
        let mut watched = lock_ignoring_poison(&self.watched);
        let former = watched.places[at].waker.take();
        watched.free.push(at);
        drop(watched);
        drop(former);
    }

    /// Wakes whoever is past its limit, for as long as the client lives.
    pub(crate) async fn watch(self: Arc<Self>, clock: Clock) {
        let watch = Watch(&self);
        loop {
            let (due, next) = lock_ignoring_poison(&watch.0.watched).take_due(clock.now());
            due.into_iter().for_each(Waker::wake);
            tokio::select! {
                biased;
                () = clock.sleep_until(next) => {}
                () = watch.0.bell.notified() => {}
            }
        }
    }
}

impl Watched {
    fn take_due(&mut self, now: Moment) -> (Vec<Waker>, Moment) {
        let is_due = |place: &&mut Place| place.limit <= now;
        let due = self.places.iter_mut().filter(is_due).filter_map(|place| place.waker.take()).collect();
        let later = self.places.iter().filter(|place| place.waker.is_some()).map(|place| place.limit);
        let next = later.min().unwrap_or(Moment::NEVER);
        self.looks_at = Some(next);
        (due, next)
    }
}

/// The watch. Once it is gone, requests need timers of their own, and those under way get one.
struct Watch<'a>(&'a Limits);

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        let mut watched = lock_ignoring_poison(&self.0.watched);
        watched.looks_at = None;
        let left: Vec<_> = watched.places.iter_mut().filter_map(|place| place.waker.take()).collect();
        drop(watched);
        left.into_iter().for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;
    use std::time::Duration;

    use super::*;

    /// Counts how often it was woken.
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
    async fn each_is_woken_at_its_limit_and_nobody_who_left() {
        let (limits, clock) = (Arc::<Limits>::default(), Clock::tokio());
        let counts: [Arc<Count>; 3] = std::array::from_fn(|_| Arc::default());
        let wakers = counts.each_ref().map(|count| Waker::from(count.clone()));
        let woken = || counts.each_ref().map(|count| count.0.load(Ordering::Relaxed));
        let limit = |millis| clock.now().after(Duration::from_millis(millis));
        assert_eq!(limits.enter(limit(5), &wakers[0]), None, "nobody watches yet");

        let watch = tokio::spawn(limits.clone().watch(clock));
        nap(1).await;
        let late = limits.enter(limit(200), &wakers[0]).expect("watched");
        limits.enter(limit(100), &wakers[1]).expect("watched");
        let gone = limits.enter(limit(50), &wakers[2]).expect("watched");
        limits.leave(gone);
        nap(99).await;
        assert_eq!(woken(), [0, 0, 0]);
        nap(2).await;
        assert_eq!(woken(), [0, 1, 0]);
        assert!(limits.stay(late, &wakers[2]), "still watched");
        nap(100).await;
        assert_eq!(woken(), [0, 1, 1], "in its new task");

        let left = limits.enter(limit(50), &wakers[0]).expect("watched");
        watch.abort();
        nap(1).await;
        assert_eq!(woken(), [1, 1, 1], "to look after itself");
        assert!(!limits.stay(left, &wakers[0]) && limits.enter(limit(9), &wakers[0]).is_none());
    }
}
