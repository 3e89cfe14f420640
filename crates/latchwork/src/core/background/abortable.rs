//! A request that its task polls until the sweeper aborts it.

use std::sync::{Arc, Mutex, TryLockError};
use std::task::{Context, Poll};

use crate::core::queue::{Abort, Aborted};
use crate::engine::Boxed;
use crate::poison::lock_ignoring_poison;

/// A request that its task polls until the sweeper aborts it.
pub(in crate::core) struct AbortableRequest<T>(Mutex<Option<Boxed<T>>>);

impl<T: 'static> AbortableRequest<T> {
    pub(in crate::core) fn new(request: Boxed<T>) -> Arc<Self> {
        Arc::new(Self(Mutex::new(Some(request))))
    }

    /// `None`: the request was aborted.
    pub(in crate::core) fn poll(&self, context: &mut Context<'_>) -> Poll<Option<T>> {
        let mut request = lock_ignoring_poison(&self.0);
        let Some(polled) = &mut *request else { return Poll::Ready(None) };
        let answer = std::task::ready!(polled.as_mut().poll(context));
        let done = request.take();
        drop(request);
        drop(done);
        Poll::Ready(Some(answer))
    }
}

impl<T: 'static> Abort for AbortableRequest<T> {
    fn abort(&self, may: &dyn Fn() -> bool) -> Option<Aborted> {
        let mut request = match self.0.try_lock() {
            Ok(request) => request,
            Err(TryLockError::Poisoned(request)) => request.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        may().then(|| request.take().map(|request| Box::new(request) as Box<dyn Send>))
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    #[test]
    fn a_request_is_taken_once_and_never_polled_again() {
        let request = AbortableRequest::new(Box::pin(std::future::pending::<u8>()));
        let context = &mut Context::from_waker(Waker::noop());
        assert!(request.poll(context).is_pending());
        assert!(request.abort(&|| false).is_none(), "the task was faster");
        assert!(request.poll(context).is_pending());
        assert!(request.abort(&|| true).is_some_and(|aborted| aborted.is_some()));
        assert_eq!(request.poll(context), Poll::Ready(None));
    }

    #[test]
    fn a_request_that_is_being_polled_is_not_taken() {
        let request = AbortableRequest::new(Box::pin(std::future::ready(7)));
        let polling = lock_ignoring_poison(&request.0);
        assert!(request.abort(&|| panic!("it must not even ask")).is_none());
        drop(polling);
        assert_eq!(request.poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(Some(7)));
    }
}
