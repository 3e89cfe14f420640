//! Prevents a claim that is not sent yet from being sent after its own release.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::Poll;

use crate::poison::lock_ignoring_poison;

/// Open while a claim counts its replies. A connection to a master may still be opening then. Once the gate
/// is closed the claim is not sent there any more, because its release may already have been sent on that new
/// connection.
#[derive(Default)]
pub(super) struct SendGate {
    is_closed: Mutex<bool>,
}

/// Closes the gate at the latest when it is dropped.
pub(super) struct ClosesGate(pub(super) Arc<SendGate>);

impl Drop for ClosesGate {
    fn drop(&mut self) {
        *lock_ignoring_poison(&self.0.is_closed) = true;
    }
}

impl SendGate {
    /// Carries out a request that is sent when it is first polled; `None` if the gate is closed.
    pub(super) async fn pass<F: Future>(&self, request: F) -> Option<F::Output> {
        let mut request = pin!(request);
        match self.begin(request.as_mut()).await? {
            Poll::Ready(answer) => Some(answer),
            Poll::Pending => Some(request.await),
        }
    }

    async fn begin<F: Future>(&self, mut request: Pin<&mut F>) -> Option<Poll<F::Output>> {
        poll_fn(|context| {
            // Locked while the request is sent: closing the gate waits for that.
            let is_closed = lock_ignoring_poison(&self.is_closed);
            Poll::Ready((!*is_closed).then(|| request.as_mut().poll(context)))
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn nothing_is_sent_through_a_closed_gate_and_a_sent_request_is_answered() {
        let closes = ClosesGate(Arc::default());
        let gate = closes.0.clone();
        let (answer, answered) = tokio::sync::oneshot::channel();
        let mut sent = pin!(gate.pass(answered));
        assert!(poll_fn(|context| Poll::Ready(sent.as_mut().poll(context).is_pending())).await);
        drop(closes);
        answer.send(1).unwrap();
        assert_eq!(sent.await, Some(Ok(1)));
        assert_eq!(gate.pass(async { panic!("sent") }).await, None::<()>);
    }
}
