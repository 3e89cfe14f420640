//! One request to several masters at once.
#![allow(clippy::disallowed_methods, reason = "masters that are late are waited for, after the answer")]

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::runtime::Handle;

use super::master::Master;
use crate::Result;
use crate::clock::{Clock, Moment};

/// How long a reply that no longer counts is waited for. A master that takes longer gets a new connection.
const LATE_LIMIT: Duration = Duration::from_secs(2);

/// A request to several masters, and the replies that are outstanding.
///
/// All requests run in the task that sends them. With a task for each master, every reply would wake two
/// tasks.
///
/// When the round is dropped, outstanding requests go on for a while: a request that was cancelled may or may
/// not be sent, and its connection could not be used any more.
pub(super) struct Round<T: Send + 'static>(OutstandingReplies<T>);

struct OutstandingReplies<T> {
    masters: Vec<(usize, ReplyFuture<T>)>,
    deadline: DeadlineFuture,
}

type ReplyFuture<T> = Pin<Box<dyn Future<Output = Result<T>> + Send>>;
type DeadlineFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

impl<T: Send + 'static> Round<T> {
    /// Sends a request to numbered masters. Each is sent when this returns, if there is a connection: a claim
    /// that was sent later could arrive after its own release, and stay.
    pub(super) fn begin<F>(
        masters: impl Iterator<Item = (usize, Master)>,
        deadline: Moment,
        send: impl Fn(Master) -> F,
    ) -> Self
    where
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let mut outstanding = Vec::new();
        for (number, master) in masters {
            let mut reply: ReplyFuture<T> = Box::pin(send(master));
            if let Poll::Ready(answer) = reply.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                reply = Box::pin(std::future::ready(answer));
            }
            outstanding.push((number, reply));
        }
        Self(OutstandingReplies { masters: outstanding, deadline: until(deadline) })
    }

    /// The next reply, with the master's number; `None` after the last one or the deadline.
    pub(super) async fn next(&mut self) -> Option<(usize, Result<T>)> {
        self.0.next().await
    }

    pub(super) fn extend(&mut self, deadline: Moment) {
        self.0.deadline = until(deadline);
    }
}

impl<T> OutstandingReplies<T> {
    async fn next(&mut self) -> Option<(usize, Result<T>)> {
        let answered = poll_fn(|context| match self.poll_reply(context) {
            Poll::Ready(answer) => Poll::Ready(Some(answer)),
            Poll::Pending => self.deadline.as_mut().poll(context).map(|()| None),
        });
        if let Some(answer) = answered.await {
            return answer;
        }
        // A process that was stopped for a while finds the deadline passed and replies unread: they are read
        // first.
        self.deadline = Box::pin(std::future::ready(()));
        for _ in 0..3 {
            tokio::task::yield_now().await;
        }
        poll_fn(|context| match self.poll_reply(context) {
            Poll::Ready(answer) => Poll::Ready(answer),
            Poll::Pending => Poll::Ready(None),
        })
        .await
    }

    fn poll_reply(&mut self, context: &mut Context<'_>) -> Poll<Option<(usize, Result<T>)>> {
        for at in 0..self.masters.len() {
            if let Poll::Ready(answer) = self.masters[at].1.as_mut().poll(context) {
                let (number, _) = self.masters.swap_remove(at);
                return Poll::Ready(Some((number, answer)));
            }
        }
        if self.masters.is_empty() { Poll::Ready(None) } else { Poll::Pending }
    }
}

impl<T: Send + 'static> Drop for Round<T> {
    fn drop(&mut self) {
        let masters = std::mem::take(&mut self.0.masters);
        if !masters.is_empty()
            && let Ok(runtime) = Handle::try_current()
        {
            let mut late =
                OutstandingReplies { masters, deadline: until(Clock::boottime().now().after(LATE_LIMIT)) };
            // Not a round: dropped with its runtime, it must not spawn again.
            runtime.spawn(async move { while late.next().await.is_some() {} });
        }
    }
}

fn until(moment: Moment) -> DeadlineFuture {
    Box::pin(Clock::boottime().sleep_until(moment))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::super::options::Options;
    use super::*;

    #[test]
    fn late_requests_are_dropped_with_their_runtime() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let request = Arc::new(());
        let (masters, _) = Options::of(&"redlock://a,b,c".parse().unwrap()).unwrap();
        runtime.block_on(async {
            let masters = masters.into_iter().map(Master::new).enumerate();
            drop(Round::begin(masters, Moment::NEVER, |_| {
                let request = request.clone();
                async move {
                    std::future::pending::<()>().await;
                    drop(request);
                    Ok(())
                }
            }));
        });
        assert_eq!(Arc::strong_count(&request), 4, "they go on while the runtime does");
        drop(runtime);
        assert_eq!(Arc::strong_count(&request), 1);
    }

    #[tokio::test]
    async fn every_request_has_begun_before_the_next_round_can() {
        let (masters, _) = Options::of(&"redlock://a,b,c".parse().unwrap()).unwrap();
        let begun = Arc::new(AtomicUsize::new(0));
        let mut round = Round::begin(masters.into_iter().map(Master::new).enumerate(), Moment::NEVER, |_| {
            let begun = begun.clone();
            async move {
                begun.fetch_add(1, Ordering::Relaxed);
                tokio::task::yield_now().await;
                Ok(())
            }
        });
        assert_eq!(begun.load(Ordering::Relaxed), 3);
        let mut answers = 0;
        while let Some((_, Ok(()))) = round.next().await {
            answers += 1;
        }
        assert_eq!(answers, 3);
    }
}
