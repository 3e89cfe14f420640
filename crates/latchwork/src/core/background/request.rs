//! One request, for as long as any request may take.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use super::abortable::AbortableRequest;
use crate::Result;
use crate::clock::Moment;
use crate::core::queue::Abort;
use crate::core::{Core, defaults, no_answer};
use crate::engine::Boxed;

/// Waits for the answer to a request, up to [`defaults::REQUEST_LIMIT`].
pub(crate) struct LimitedRequest<T> {
    work: RequestWork<T>,
    core: Arc<Core>,
    limit: Moment,
    deadline: Deadline,
}

enum RequestWork<T> {
    Own(Boxed<Result<T>>),
    /// The sweeper may take it from its task.
    Shared(Arc<AbortableRequest<Result<T>>>),
    Done,
}

/// The source of the wake-up at the limit. There is no source until the request is first found unanswered:
/// some requests are answered at once.
enum Deadline {
    NotSet,
    Watched(usize),
    Timer(Boxed<()>),
}

impl<T: 'static> LimitedRequest<T> {
    /// A request that is sent now.
    pub(in crate::core) fn new(core: &Arc<Core>, work: Boxed<Result<T>>, now: Moment) -> Self {
        let limit = now.after(defaults::REQUEST_LIMIT);
        Self { work: RequestWork::Own(work), core: core.clone(), limit, deadline: Deadline::NotSet }
    }

    /// Lets the sweeper take the request from its task. If it was taken, the next poll returns the error for
    /// a missing reply.
    pub(in crate::core) fn share(&mut self) -> Option<Arc<dyn Abort>> {
        self.work = match std::mem::replace(&mut self.work, RequestWork::Done) {
            RequestWork::Own(work) => RequestWork::Shared(AbortableRequest::new(work)),
            other => other,
        };
        match &self.work {
            RequestWork::Shared(work) => Some(work.clone()),
            _ => None,
        }
    }

    /// Whether its limit has passed; if not, the polling task is woken then.
    fn is_over(&mut self, context: &mut Context<'_>) -> bool {
        match &mut self.deadline {
            Deadline::Timer(timer) => timer.as_mut().poll(context).is_ready(),
            Deadline::Watched(at) if self.core.deadlines().update(*at, context.waker()) => {
                self.core.clock.now() >= self.limit
            }
            Deadline::Watched(_) => self.set_timer(context),
            Deadline::NotSet => match self.watch(context.waker()) {
                Some(at) => {
                    self.deadline = Deadline::Watched(at);
                    false
                }
                None => self.set_timer(context),
            },
        }
    }

    fn watch(&self, waker: &Waker) -> Option<usize> {
        // Time that a runtime can pause moves only its own timers.
        let can_watch = !self.core.clock.lives_in_the_runtime();
        can_watch.then(|| self.core.deadlines().insert(self.limit, waker)).flatten()
    }

    fn set_timer(&mut self, context: &mut Context<'_>) -> bool {
        self.clear_deadline();
        let mut timer: Boxed<()> = Box::pin(self.core.clock.sleep_until(self.limit));
        let is_over = timer.as_mut().poll(context).is_ready();
        self.deadline = Deadline::Timer(timer);
        is_over
    }

    fn clear_deadline(&mut self) {
        clear(&mut self.deadline, &self.core);
    }
}

fn clear(deadline: &mut Deadline, core: &Core) {
    if let Deadline::Watched(at) = std::mem::replace(deadline, Deadline::NotSet) {
        core.deadlines().remove(at);
    }
}

impl<T: 'static> Future for LimitedRequest<T> {
    type Output = Result<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<T>> {
        let polled = match &mut self.work {
            RequestWork::Own(work) => work.as_mut().poll(context),
            RequestWork::Shared(work) => {
                work.poll(context).map(|answer| answer.unwrap_or_else(|| Err(no_answer())))
            }
            RequestWork::Done => panic!("polled after it was ready"),
        };
        let answer = match polled {
            Poll::Ready(answer) => answer,
            Poll::Pending if self.is_over(context) => Err(no_answer()),
            Poll::Pending => return Poll::Pending,
        };
        // Before the waiting task goes on: the drop tells the engine that the answer is no longer needed.
        self.work = RequestWork::Done;
        self.clear_deadline();
        Poll::Ready(answer)
    }
}

impl<T> Drop for LimitedRequest<T> {
    fn drop(&mut self) {
        // In a fork the mutex may be locked by a thread that does not exist.
        if !matches!(self.work, RequestWork::Done) && !self.core.is_a_copy() {
            clear(&mut self.deadline, &self.core);
        }
    }
}
