//! Cancel safety without a task hop.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::Core;

/// Runs work inline in the caller's future. If the caller is dropped half-way, the unfinished work moves to a
/// background task, which lets it finish and drops its output; what the output owns (a ticket, a finish) then undoes
/// what was done. A request that was half sent is thus never forgotten.
pub(crate) struct Shield<T: Send + 'static> {
    work: Option<Pin<Box<dyn Future<Output = T> + Send>>>,
    core: Arc<Core>,
}

impl<T: Send + 'static> Shield<T> {
    pub(crate) fn new(core: &Arc<Core>, work: impl Future<Output = T> + Send + 'static) -> Self {
        Self { work: Some(Box::pin(work)), core: core.clone() }
    }
}

impl<T: Send + 'static> Future for Shield<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let work = self.work.as_mut().expect("polled after it was ready");
        let output = std::task::ready!(work.as_mut().poll(cx));
        self.work = None;
        Poll::Ready(output)
    }
}

impl<T: Send + 'static> Drop for Shield<T> {
    fn drop(&mut self) {
        if let Some(work) = self.work.take() {
            self.core.background.spawn(async move { drop(work.await) });
        }
    }
}
