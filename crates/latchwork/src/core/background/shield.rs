//! Cancel safety without a task hop.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::core::Core;

/// Runs work inline in the caller's future. If the caller is dropped half-way, the unfinished work moves to a
/// background task, which lets it finish and drops its output. The drop of the value in the output (a ticket,
/// a pending release) then undoes the work. A request that was half sent is thus never forgotten.
pub(in crate::core) struct Shield<W: ShieldedWork> {
    work: Option<W>,
    core: Arc<Core>,
}

/// A request that can be moved to another task before it is answered. If it is dropped unanswered, its drop
/// starts the unfinished work again in the background.
pub(in crate::core) trait ShieldedWork:
    Future<Output: Send> + Unpin + Send + 'static
{
    /// How long it may stay unanswered once its caller is gone.
    const ADOPTED_LIMIT: Duration;

    /// Called when its caller is gone, before it is moved.
    fn abandoned(&mut self);
}

impl<W: ShieldedWork> Shield<W> {
    pub(crate) fn new(core: &Arc<Core>, work: W) -> Self {
        Self { work: Some(work), core: core.clone() }
    }
}

impl<W: ShieldedWork> Future for Shield<W> {
    type Output = W::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<W::Output> {
        let work = self.work.as_mut().expect("polled after it was ready");
        let output = std::task::ready!(Pin::new(work).poll(cx));
        self.work = None;
        Poll::Ready(output)
    }
}

impl<W: ShieldedWork> Drop for Shield<W> {
    fn drop(&mut self) {
        if let Some(mut work) = self.work.take() {
            // In a fork the client's queue may be locked by a thread that does not exist.
            if !self.core.is_a_copy() {
                work.abandoned();
            }
            self.core.background.adopt(work);
        }
    }
}
