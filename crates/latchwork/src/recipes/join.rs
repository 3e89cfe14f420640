//! Several futures, polled in one task.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

type Each<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

fn boxed<'a, T>(futures: impl IntoIterator<Item = impl Future<Output = T> + Send + 'a>) -> Vec<Each<'a, T>> {
    futures.into_iter().map(|future| Box::pin(future) as Each<'a, T>).collect()
}

/// The index and the output of the first future that is done. The others are dropped. Pending for ever
/// without futures.
pub(super) async fn select_all<'a, T>(
    futures: impl IntoIterator<Item = impl Future<Output = T> + Send + 'a>,
) -> (usize, T) {
    let mut futures = boxed(futures);
    poll_fn(|cx| {
        let mut polled = futures.iter_mut().enumerate().map(|(at, future)| (at, future.as_mut().poll(cx)));
        polled
            .find_map(|(at, polled)| match polled {
                Poll::Ready(done) => Some((at, done)),
                Poll::Pending => None,
            })
            .map_or(Poll::Pending, Poll::Ready)
    })
    .await
}

/// The outputs of all futures, in their order.
pub(super) async fn join_all<'a, T>(
    futures: impl IntoIterator<Item = impl Future<Output = T> + Send + 'a>,
) -> Vec<T> {
    let mut under_way: Vec<_> = boxed(futures).into_iter().map(Some).collect();
    let mut done: Vec<_> = under_way.iter().map(|_| None).collect();
    poll_fn(|cx| {
        for (future, done) in under_way.iter_mut().zip(&mut done) {
            let Some(polled) = future.as_mut().map(|future| future.as_mut().poll(cx)) else { continue };
            if let Poll::Ready(value) = polled {
                (*future, *done) = (None, Some(value));
            }
        }
        if under_way.iter().all(Option::is_none) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    done.into_iter().flatten().collect()
}
