//! The end of a claim, after which the name is open again.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::runtime::Handle;

use super::active::Part;
use super::drive::may_hold_until;
use super::duty::{Duty, Purpose};
use super::local;
use super::pending_release::PendingRelease;
use super::request::Request;
use super::shield::{Shield, Work};
use super::ticket::Strays;
use super::{Core, defaults, janitor};
use crate::clock::Moment;
use crate::engine::{Claim, Released};
use crate::{Effect, Error, ErrorKind, LockName, Result};

/// Opens the name for the next local claim when dropped: only after the release was answered or given up (C10).
pub(crate) struct Finish {
    core: Arc<Core>,
    name: LockName,
    part: Part,
    strays: Strays,
    /// The release's entry in the client's queue, once its task had to wait for the server.
    duty: Option<Arc<Duty>>,
    /// What tasks that try see of it, once they may have to.
    pending: Option<Arc<PendingRelease>>,
}

impl Finish {
    pub(crate) fn new(core: Arc<Core>, name: LockName, part: Part, strays: Strays) -> Self {
        Self { core, name, part, strays, duty: None, pending: None }
    }

    /// The same for a release that was taken over from its task.
    pub(super) fn with_pending(mut self, pending: Option<Arc<PendingRelease>>) -> Self {
        self.pending = pending;
        self
    }

    /// From here on, tasks that try wait for this release, and are told of its failure.
    pub(super) fn announce(&mut self, claim: &Claim) -> Arc<PendingRelease> {
        let Self { core, name, part, duty, .. } = self;
        let announce = || {
            let held_until = may_hold_until(claim, core.clock.now());
            local::announce(core, name, PendingRelease::new(*part, held_until), duty.as_deref())
        };
        self.pending.get_or_insert_with(announce).clone()
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.core
    }

    /// Releases inline, within the limit of a request; an unanswered release is repeated in the background.
    pub(crate) fn release(self, claim: Arc<Claim>, now: Moment) -> Shield<Releasing> {
        let core = self.core.clone();
        let request = core.answer(core.engine.clone().release(claim.clone()), now);
        Shield::new(&core, Releasing { request, rest: Some((self, claim)) })
    }

    /// The name is open, but a request of the claim may still arrive and take the lock for nobody.
    pub(crate) fn release_strays(self, claim: Arc<Claim>, until: Moment) {
        let Self { core, .. } = &self;
        let work = janitor::release_strays(Arc::downgrade(core), core.clock, claim, until);
        core.background.spawn_unawaited(work);
    }

    pub(crate) fn strays(&self) -> Strays {
        self.strays
    }

    /// Releases the claim of a dropped guard. Polls the release once here, so that an idle connection of this
    /// runtime sends the request at once: the runtime, or the process, may be about to end. The background
    /// task waits for the reply.
    pub(crate) fn release_on_drop(self, claim: Arc<Claim>, now: Moment) {
        // Without a runtime there is no connection to send the release on. While a panic unwinds, a second
        // panic would abort the process, so no engine code runs here then.
        if Handle::try_current().is_err() || std::thread::panicking() {
            return self.release_in_background(claim);
        }
        let mut release = tokio::task::unconstrained(self.release(claim, now));
        let poll = || Pin::new(&mut release).poll(&mut Context::from_waker(Waker::noop())).is_ready();
        // An engine panics on a runtime without timers or sockets. The release then starts again in the
        // background.
        let _ = std::panic::catch_unwind(AssertUnwindSafe(poll));
    }

    pub(crate) fn release_in_background(self, claim: Arc<Claim>) {
        self.spawn_release(claim, None);
    }

    /// `failure`: why the first release failed, if one was sent.
    fn spawn_release(mut self, claim: Arc<Claim>, failure: Option<&Error>) {
        // From here on the client's own thread does the release, unless it has already taken it over.
        if self.duty.take_if(|duty| duty.finish()).is_none() && self.duty.is_some() {
            return;
        }
        let pending = self.announce(&claim);
        failure.into_iter().for_each(|failure| pending.failed(failure));
        self.core.clone().background.spawn(janitor::give_back(self, pending, claim, failure.is_none()));
    }
}

/// A release under way, and what is left to do after it.
pub(crate) struct Releasing {
    request: Request<Released>,
    rest: Option<(Finish, Arc<Claim>)>,
}

impl Future for Releasing {
    type Output = Result<Released>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<Released>> {
        let Self { request, rest } = &mut *self;
        let (finish, claim) = rest.as_mut().expect("polled after it was ready");
        if finish.duty.as_ref().is_some_and(|duty| !duty.runs(cx.waker(), request.share())) {
            *rest = None;
            return Poll::Ready(Err(left_to_the_background()));
        }
        let Poll::Ready(answer) = Pin::new(&mut *request).poll(cx) else {
            if finish.duty.is_none() {
                let request = request.share();
                let duty =
                    Duty::register(&finish.core, claim, finish.part, Purpose::Release, cx.waker(), request);
                finish.pending.iter().for_each(|pending| duty.set_pending_release(pending));
                finish.duty = Some(duty);
            }
            return Poll::Pending;
        };
        let (finish, claim) = rest.take().expect("it was just there");
        match (&answer, finish.strays) {
            (Err(error), _) => finish.spawn_release(claim, Some(error)),
            (Ok(_), Some(until)) => finish.release_strays(claim, until),
            (Ok(_), None) => {}
        }
        Poll::Ready(answer)
    }
}

fn left_to_the_background() -> Error {
    let message =
        "its task was not run for seconds, and others waited: the release was left to the background";
    Error::new(ErrorKind::Unreachable, message).with_effect(Effect::Unknown)
}

impl Work for Releasing {
    const ADOPTED_LIMIT: Duration = defaults::ADOPTED_RELEASE_LIMIT;

    fn abandoned(&mut self) {
        if let Some((finish, claim)) = &mut self.rest {
            finish.announce(claim);
        }
    }
}

impl Drop for Releasing {
    fn drop(&mut self) {
        // Sending a release twice does no harm (C2). Not sending it does.
        if let Some((finish, claim)) = self.rest.take() {
            finish.release_in_background(claim);
        }
    }
}

impl Drop for Finish {
    fn drop(&mut self) {
        if self.duty.take().is_some_and(|duty| !duty.finish()) {
            return; // Taken over: the name opens when that release is answered.
        }
        local::released(&self.core, &self.name, self.part, self.pending.as_ref());
    }
}
