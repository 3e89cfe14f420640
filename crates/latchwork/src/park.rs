//! Waits for a future on a thread that has no runtime to wait in.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

/// Polls `future` on the calling thread. In between the thread sleeps in `park`, until the future wakes it; `None` once
/// `park` says that there is no time left.
pub(crate) fn block_on<T>(future: impl Future<Output = T>, mut park: impl FnMut() -> bool) -> Option<T> {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    // Inside a task of tokio's, the budget of that task is not ours: once it is spent, tokio defers the wake-up until the
    // task returns, and it cannot return before this does.
    let future = tokio::task::unconstrained(future);
    let (mut future, mut context) = (pin!(future), Context::from_waker(&waker));
    loop {
        if let Poll::Ready(done) = future.as_mut().poll(&mut context) {
            return Some(done);
        }
        if !park() {
            return None;
        }
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}
