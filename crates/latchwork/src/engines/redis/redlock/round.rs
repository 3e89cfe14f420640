//! One request to several masters at once.
#![allow(clippy::disallowed_methods, reason = "masters that are late are waited for, after the answer")]

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::runtime::Handle;

use super::node::Node;
use crate::Result;
use crate::clock::{Clock, Moment};

/// How long an answer is waited for that nobody counts any more: whoever needs longer gets a new connection.
const LATE: Duration = Duration::from_secs(2);

/// What the masters were asked, and who has not answered.
///
/// All of it happens in the task that asks. With a task for each master, every answer would wake two.
///
/// When it is dropped, who has not answered goes on for a while: a request that was cancelled may or may not be sent, and its
/// connection could not be used any more.
pub(super) struct Round<T: Send + 'static>(Asked<T>);

struct Asked<T> {
    masters: Vec<(usize, Asking<T>)>,
    /// Until when answers are waited for.
    ends: Ends,
}

type Asking<T> = Pin<Box<dyn Future<Output = Result<T>> + Send>>;
type Ends = Pin<Box<dyn Future<Output = ()> + Send>>;

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
        let mut asked = Vec::new();
        for (number, node) in masters {
            let mut asking: Asking<T> = Box::pin(ask(node));
            if let Poll::Ready(answer) = asking.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                asking = Box::pin(std::future::ready(answer));
            }
            asked.push((number, asking));
        }
        Self(Asked { masters: asked, ends: until(ends) })
    }

    /// The next answer; `None` when there are no more, or the time is over.
    pub(super) async fn next(&mut self) -> Option<(usize, Result<T>)> {
        self.0.next().await
    }

    /// Waits for longer.
    pub(super) fn extend(&mut self, ends: Moment) {
        self.0.ends = until(ends);
    }
}

impl<T> Asked<T> {
    async fn next(&mut self) -> Option<(usize, Result<T>)> {
        let heard = poll_fn(|context| match self.poll_answer(context) {
            Poll::Ready(answer) => Poll::Ready(Some(answer)),
            Poll::Pending => self.ends.as_mut().poll(context).map(|()| None),
        });
        if let Some(answer) = heard.await {
            return answer;
        }
        // A process that was kept from running finds its time over and the answers unread: they are read first.
        self.ends = Box::pin(std::future::ready(()));
        for _ in 0..3 {
            tokio::task::yield_now().await;
        }
        poll_fn(|context| match self.poll_answer(context) {
            Poll::Ready(answer) => Poll::Ready(answer),
            Poll::Pending => Poll::Ready(None),
        })
        .await
    }

    fn poll_answer(&mut self, context: &mut Context<'_>) -> Poll<Option<(usize, Result<T>)>> {
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
            let mut late = Asked { masters, ends: until(Clock::boottime().now().after(LATE)) };
            // Not a round: one that is dropped with its runtime must not go on.
            runtime.spawn(async move { while late.next().await.is_some() {} });
        }
    }
}

fn until(moment: Moment) -> Ends {
    Box::pin(Clock::boottime().sleep_until(moment))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::super::options::Manner;
    use super::*;

    #[test]
    fn what_is_late_when_its_runtime_ends_is_dropped_with_it() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let asked = Arc::new(());
        let (masters, _) = Manner::of(&"redlock://a,b,c".parse().unwrap()).unwrap();
        runtime.block_on(async {
            let masters = masters.into_iter().map(Node::new).enumerate();
            drop(Round::begin(masters, Moment::NEVER, |_| {
                let asked = asked.clone();
                async move {
                    std::future::pending::<()>().await;
                    drop(asked);
                    Ok(())
                }
            }));
        });
        assert_eq!(Arc::strong_count(&asked), 4, "they go on while the runtime does");
        drop(runtime);
        assert_eq!(Arc::strong_count(&asked), 1);
    }

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
