//! The end of a claim, after which the name is open again.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::runtime::Handle;

use super::janitor;
use super::request::LimitedRequest;
use super::shield::{Shield, ShieldedWork};
use crate::clock::Moment;
use crate::core::queue::{ClaimRole, DriveRight, InFlight, Inherited, PendingRelease, Purpose, Strays};
use crate::core::{Core, defaults};
use crate::engine::{Claim, Released};
use crate::{Effect, Error, ErrorKind, LockName, Result};

/// A claim that must be released. Its drop opens the name for the next local claim, so it lives until the
/// release is answered or given up (C10).
pub(in crate::core) struct ReleasePending {
    core: Arc<Core>,
    name: LockName,
    role: ClaimRole,
    strays: Strays,
    /// The release's entry in the client's queue, once its task had to wait for the server.
    in_flight: Option<Arc<InFlight>>,
    /// How tasks that try see the release, once they may have to wait for it.
    pending: Option<Arc<PendingRelease>>,
}

impl ReleasePending {
    pub(in crate::core) fn new(core: Arc<Core>, name: LockName, role: ClaimRole, strays: Strays) -> Self {
        Self { core, name, role, strays, in_flight: None, pending: None }
    }

    /// Sets the release that tasks already wait for.
    pub(in crate::core) fn with_pending(mut self, pending: Option<Arc<PendingRelease>>) -> Self {
        self.pending = pending;
        self
    }

    /// From here on, tasks that try wait for this release, and are told of its failure.
    pub(in crate::core) fn announce(&mut self, claim: &Claim) -> Arc<PendingRelease> {
        let Self { core, name, role, in_flight, .. } = self;
        let announce = || {
            let held_until = may_hold_until(claim, core.clock.now());
            core.queues.announce(name, PendingRelease::new(*role, held_until), in_flight.as_deref())
        };
        self.pending.get_or_insert_with(announce).clone()
    }

    pub(in crate::core) fn core(&self) -> &Arc<Core> {
        &self.core
    }

    /// Releases inline, within the limit of a request; an unanswered release is repeated in the background.
    pub(in crate::core) fn release(self, claim: Arc<Claim>, now: Moment) -> Shield<ReleaseRequest> {
        let core = self.core.clone();
        let request = core.answer(core.engine.clone().release(claim.clone()), now);
        Shield::new(&core, ReleaseRequest { request, rest: Some((self, claim)) })
    }

    /// The name is open, but a request of the claim may still arrive and take the lock for no task.
    pub(super) fn release_strays(self, claim: Arc<Claim>, until: Moment) {
        let Self { core, .. } = &self;
        let work = janitor::release_strays(Arc::downgrade(core), core.clock, claim, until);
        core.background.spawn_unawaited(work);
    }

    pub(super) fn strays(&self) -> Strays {
        self.strays
    }

    /// Releases the claim of a dropped guard. Polls the release once here, so that an idle connection of this
    /// runtime sends the request at once: the runtime, or the process, may be about to end. The background
    /// task waits for the reply.
    pub(in crate::core) fn release_on_drop(self, claim: Arc<Claim>, now: Moment) {
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

    pub(in crate::core) fn release_in_background(self, claim: Arc<Claim>) {
        self.spawn_release(claim, None);
    }

    /// `failure`: why the first release failed, if one was sent.
    fn spawn_release(mut self, claim: Arc<Claim>, failure: Option<&Error>) {
        // From here on the client's own thread does the release, unless it has already taken it over.
        if self.in_flight.take_if(|request| request.finish()).is_none() && self.in_flight.is_some() {
            return;
        }
        let pending = self.announce(&claim);
        failure.into_iter().for_each(|failure| pending.failed(failure));
        self.core.clone().background.spawn(janitor::retry_release(self, pending, claim, failure.is_none()));
    }
}

impl Drop for ReleasePending {
    fn drop(&mut self) {
        if self.in_flight.take().is_some_and(|request| !request.finish()) {
            return; // Taken over: the name opens when that release is answered.
        }
        self.core.queues.released(&self.name, self.role, self.pending.as_ref());
    }
}

/// A release under way, and the work that is left after it.
pub(in crate::core) struct ReleaseRequest {
    request: LimitedRequest<Released>,
    rest: Option<(ReleasePending, Arc<Claim>)>,
}

impl Future for ReleaseRequest {
    type Output = Result<Released>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<Released>> {
        let Self { request, rest } = &mut *self;
        let (release, claim) = rest.as_mut().expect("polled after it was ready");
        if release.in_flight.as_ref().is_some_and(|known| !known.begin_poll(cx.waker(), request.share())) {
            *rest = None;
            return Poll::Ready(Err(left_to_the_background()));
        }
        let Poll::Ready(answer) = Pin::new(&mut *request).poll(cx) else {
            if release.in_flight.is_none() {
                let request = request.share();
                let known = InFlight::new(claim, release.role, Purpose::Release, cx.waker(), request);
                release.core.queues.register(&known);
                release.pending.iter().for_each(|pending| known.set_pending_release(pending));
                release.in_flight = Some(known);
            }
            return Poll::Pending;
        };
        let (release, claim) = rest.take().expect("it was just there");
        match (&answer, release.strays) {
            (Err(error), _) => release.spawn_release(claim, Some(error)),
            (Ok(_), Some(until)) => release.release_strays(claim, until),
            (Ok(_), None) => {}
        }
        Poll::Ready(answer)
    }
}

impl ShieldedWork for ReleaseRequest {
    const ADOPTED_LIMIT: Duration = defaults::ADOPTED_RELEASE_LIMIT;

    fn abandoned(&mut self) {
        if let Some((release, claim)) = &mut self.rest {
            release.announce(claim);
        }
    }
}

impl Drop for ReleaseRequest {
    fn drop(&mut self) {
        // Sending a release twice does no harm (C2). Not sending it does.
        if let Some((release, claim)) = self.rest.take() {
            release.release_in_background(claim);
        }
    }
}

fn left_to_the_background() -> Error {
    let message =
        "its task was not run for seconds, and others waited: the release was left to the background";
    Error::new(ErrorKind::Unreachable, message).with_effect(Effect::Unknown)
}

/// Gives the right to drive, and a claim that is left, to the next local waiter. Returns a claim that no task
/// takes.
pub(in crate::core) fn pass_on(
    core: Arc<Core>,
    name: &LockName,
    role: ClaimRole,
    left: Inherited,
    pending: Option<Arc<PendingRelease>>,
) -> Option<(ReleasePending, Arc<Claim>)> {
    let (claim, strays) = core.queues.pass_on(name, role, left, pending.as_ref())?;
    Some((ReleasePending::new(core, name.clone(), role, strays).with_pending(pending), claim))
}

/// Hands a right to drive back that its task did not use.
pub(in crate::core) fn hand_back(core: &Arc<Core>, name: &LockName, right: DriveRight) {
    let DriveRight { role, inherited, .. } = right;
    if let Some((release, claim)) = pass_on(core.clone(), name, role, inherited, None) {
        release.release_in_background(claim);
    }
}

/// Until when this attempt's claim may hold the lock, if it cannot be undone. The server counts the ttl from
/// the moment at which it carries out the request. The request was given up by `given_up`, and may be granted
/// at the very end of the claim's place in the queue.
pub(in crate::core) fn may_hold_until(claim: &Claim, given_up: Moment) -> Moment {
    claim.lease_over(given_up.after(defaults::LATE + claim.wait_lease))
}
