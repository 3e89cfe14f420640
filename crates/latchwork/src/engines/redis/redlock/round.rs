//! One request to several masters at once.

use std::future::{Future, ready};
use std::task::{Context, Poll, Waker};

use tokio::task::JoinSet;

use super::node::Node;
use crate::clock::{Clock, Moment};
use crate::{Error, ErrorKind, Result};

/// What the masters were asked, and who has not answered.
pub(super) struct Round<T: 'static> {
    asked: JoinSet<(usize, Result<T>)>,
    /// Until when answers are waited for.
    ends: Moment,
}

impl<T: Send + 'static> Round<T> {
    /// Asks these masters, by their numbers. Each request is on its way when this returns, if there is a connection: a claim
    /// that began to run later could come behind the release of its own lock, and stay.
    pub(super) fn begin<F>(
        masters: impl Iterator<Item = (usize, Node)>,
        ends: Moment,
        ask: impl Fn(Node) -> F,
    ) -> Self
    where
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let mut asked = JoinSet::new();
        for (number, node) in masters {
            let asking = ask(node.clone());
            let mut asking = Box::pin(async move { (number, node.in_time(asking).await) });
            match asking.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(answer) => asked.spawn(ready(answer)),
                Poll::Pending => asked.spawn(asking),
            };
        }
        Self { asked, ends }
    }

    /// The next answer; `None` when there are no more, or the time is over.
    pub(super) async fn next(&mut self) -> Option<(usize, Result<T>)> {
        let joined = tokio::select! {
            biased;
            joined = self.asked.join_next() => joined,
            () = Clock::boottime().sleep_until(self.ends) => {
                // A process that was kept from running finds its time over and the answers unread: they are read first.
                for _ in 0..3 {
                    tokio::task::yield_now().await;
                }
                self.asked.try_join_next()
            }
        };
        joined.map(|joined| joined.unwrap_or_else(|_| (0, Err(ended()))))
    }

    /// Waits for longer.
    pub(super) fn extend(&mut self, ends: Moment) {
        self.ends = ends;
    }
}

/// Who has not answered goes on by itself: a request that was cancelled may or may not be sent, and its connection could not be
/// used any more.
impl<T: 'static> Drop for Round<T> {
    fn drop(&mut self) {
        self.asked.detach_all();
    }
}

fn ended() -> Error {
    Error::new(ErrorKind::Unreachable, "the runtime of this request ended")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::super::options::Manner;
    use super::*;

    #[tokio::test]
    async fn every_request_has_begun_before_the_next_round_can() {
        let (masters, _) = Manner::of(&"redlock://a,b,c".parse().unwrap()).unwrap();
        let begun = Arc::new(AtomicUsize::new(0));
        let mut round = Round::begin(masters.into_iter().map(Node::new).enumerate(), Moment::NEVER, |_| {
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
