//! One request, for as long as any request may take.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use super::duty::{Seizable, Seize};
use super::{Core, defaults, no_answer};
use crate::Result;
use crate::clock::Moment;
use crate::engine::Boxed;

/// Waits for the answer to a request, up to [`defaults::REQUEST_LIMIT`].
pub(crate) struct Request<T> {
    work: Work<T>,
    core: Arc<Core>,
    limit: Moment,
    guarded: Guarded,
}

enum Work<T> {
    Own(Boxed<Result<T>>),
    /// The sweeper may take it from its task.
    Shared(Arc<Seizable<Result<T>>>),
    Done,
}

/// What ends the request when its limit has passed. Nothing before it is first found unanswered: some are answered at
/// once.
enum Guarded {
    NotYet,
    ByWatch(usize),
    ByTimer(Boxed<()>),
}

impl<T: 'static> Request<T> {
    /// A request that is sent now.
    pub(crate) fn new(core: &Arc<Core>, work: Boxed<Result<T>>, now: Moment) -> Self {
        let limit = now.after(defaults::REQUEST_LIMIT);
        Self { work: Work::Own(work), core: core.clone(), limit, guarded: Guarded::NotYet }
    }

    /// Lets the sweeper take the request from its task. If it was taken, the next poll returns the error for
    /// a missing reply.
    pub(super) fn share(&mut self) -> Option<Arc<dyn Seize>> {
        self.work = match std::mem::replace(&mut self.work, Work::Done) {
            Work::Own(work) => Work::Shared(Seizable::new(work)),
            other => other,
        };
        match &self.work {
            Work::Shared(work) => Some(work.clone()),
            _ => None,
        }
    }

    /// Whether its limit has passed; if not, whoever polls is woken then.
    fn is_over(&mut self, context: &mut Context<'_>) -> bool {
        match &mut self.guarded {
            Guarded::ByTimer(timer) => timer.as_mut().poll(context).is_ready(),
            Guarded::ByWatch(at) if self.core.limits().stay(*at, context.waker()) => {
                self.core.clock.now() >= self.limit
            }
            Guarded::ByWatch(_) => self.set_timer(context),
            Guarded::NotYet => match self.enter(context.waker()) {
                Some(at) => {
                    self.guarded = Guarded::ByWatch(at);
                    false
                }
                None => self.set_timer(context),
            },
        }
    }

    fn enter(&self, waker: &Waker) -> Option<usize> {
        // Time that a runtime can pause moves only its own timers.
        let can_watch = !self.core.clock.lives_in_the_runtime();
        can_watch.then(|| self.core.limits().enter(self.limit, waker)).flatten()
    }

    fn set_timer(&mut self, context: &mut Context<'_>) -> bool {
        self.leave();
        let mut timer: Boxed<()> = Box::pin(self.core.clock.sleep_until(self.limit));
        let is_over = timer.as_mut().poll(context).is_ready();
        self.guarded = Guarded::ByTimer(timer);
        is_over
    }

    fn leave(&mut self) {
        leave(&mut self.guarded, &self.core);
    }
}

fn leave(guarded: &mut Guarded, core: &Core) {
    if let Guarded::ByWatch(at) = std::mem::replace(guarded, Guarded::NotYet) {
        core.limits().leave(at);
    }
}

impl<T: 'static> Future for Request<T> {
    type Output = Result<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<T>> {
        let polled = match &mut self.work {
            Work::Own(work) => work.as_mut().poll(context),
            Work::Shared(work) => work.poll(context).map(|answer| answer.unwrap_or_else(|| Err(no_answer()))),
            Work::Done => panic!("polled after it was ready"),
        };
        let answer = match polled {
            Poll::Ready(answer) => answer,
            Poll::Pending if self.is_over(context) => Err(no_answer()),
            Poll::Pending => return Poll::Pending,
        };
        // Before whoever waits goes on: an engine may have to see that nobody listens any more.
        self.work = Work::Done;
        self.leave();
        Poll::Ready(answer)
    }
}

impl<T> Drop for Request<T> {
    fn drop(&mut self) {
        // In a fork the mutex may be locked by a thread that is not there.
        if !matches!(self.work, Work::Done) && !self.core.is_a_copy() {
            leave(&mut self.guarded, &self.core);
        }
    }
}
