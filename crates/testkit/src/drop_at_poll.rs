//! Dropping a future at every point where it can be dropped.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

/// Polls `future` at most `polls` times and then drops it. `None` if it was not ready by then.
pub async fn after_polls<F: Future>(future: F, polls: u32) -> Option<F::Output> {
    AfterPolls { future: Box::pin(future), left: polls }.await
}

/// Polls `future` once and returns its output if it is ready.
pub fn now<F: Future>(future: F) -> Option<F::Output> {
    match std::pin::pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

struct AfterPolls<F> {
    future: Pin<Box<F>>,
    left: u32,
}

impl<F: Future> Future for AfterPolls<F> {
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(left) = self.left.checked_sub(1) else { return Poll::Ready(None) };
        self.left = left;
        match self.future.as_mut().poll(cx) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if left == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    }
}
