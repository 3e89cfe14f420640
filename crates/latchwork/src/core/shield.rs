//! Cancel safety without a task hop.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use super::Core;

/// Runs work inline in the caller's future. If the caller is dropped half-way, the unfinished work moves to a
/// background task, which lets it finish and drops its output; what the output owns (a ticket, a finish) then undoes
/// what was done. A request that was half sent is thus never forgotten.
pub(crate) struct Shield<W: Work> {
    work: Option<W>,
    core: Arc<Core>,
}

/// A request that can be moved to another task before it is answered. If it is dropped unanswered, it starts
/// again in the background whatever must not be left undone.
pub(crate) trait Work: Future<Output: Send> + Unpin + Send + 'static {
    /// How long it may stay unanswered once its caller is gone.
    const ADOPTED_LIMIT: Duration;

    /// Called when its caller is gone, before it is moved.
    fn abandoned(&mut self);
}

impl<W: Work> Shield<W> {
    pub(crate) fn new(core: &Arc<Core>, work: W) -> Self {
        Self { work: Some(work), core: core.clone() }
    }
}

impl<W: Work> Future for Shield<W> {
    type Output = W::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<W::Output> {
        let work = self.work.as_mut().expect("polled after it was ready");
        let output = std::task::ready!(Pin::new(work).poll(cx));
        self.work = None;
        Poll::Ready(output)
    }
}

impl<W: Work> Drop for Shield<W> {
    fn drop(&mut self) {
        if let Some(mut work) = self.work.take() {
            // In a fork the client's queue may be locked by a thread that is not there.
            if !self.core.is_a_copy() {
                work.abandoned();
            }
            self.core.background.adopt(work);
        }
    }
}
