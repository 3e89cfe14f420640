//! The right to drive a name's remote claim.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

use tokio::sync::Notify;

use crate::LockName;
use crate::core::background::{self, AbortableRequest, ReleasePending, may_hold_until};
use crate::core::queue::{
    Abort, ClaimRole, DriveRight, InFlight, Inherited, PendingRelease, Purpose, Strays,
};
use crate::core::terms::{LockTerms, WaitUntil};
use crate::core::{Core, defaults};
use crate::engine::{Boxed, Claim, ClaimId};

/// The right to drive the remote claim of one name. Its drop passes the right, and the claim with its
/// position in the remote queue, to the next local waiter. Without a waiter, the claim is released and the
/// name is forgotten.
pub(super) struct Ticket {
    core: Option<Arc<Core>>,
    name: LockName,
    role: ClaimRole,
    claim: Option<Arc<Claim>>,
    /// Whether the server may know the claim. If not, there is nothing to release.
    is_sent: bool,
    strays: Strays,
    /// Notified when no reader of this client holds an older claim any more.
    readers: Option<Arc<Notify>>,
    /// The claim's entry in the client's queue, once its task had to wait for the server.
    in_flight: Option<Arc<InFlight>>,
    /// The state of the claim for tasks that do not wait, once its own task is gone and the claim is in
    /// flight.
    pending: Option<Arc<PendingRelease>>,
}

impl Ticket {
    pub(super) fn new(core: &Arc<Core>, name: &LockName, right: DriveRight) -> Self {
        let DriveRight { role, inherited: Inherited { claim, strays }, readers } = right;
        let is_sent = claim.is_some();
        Self {
            core: Some(core.clone()),
            name: name.clone(),
            role,
            claim,
            is_sent,
            strays,
            readers,
            in_flight: None,
            pending: None,
        }
    }

    /// Called when the task runs and is about to poll a request of its claim. False if the claim was taken
    /// over: it must not send anything then.
    pub(super) fn begin_poll(&self, waker: &Waker, request: impl FnOnce() -> Option<Arc<dyn Abort>>) -> bool {
        self.in_flight.as_ref().is_none_or(|known| known.begin_poll(waker, request()))
    }

    /// Called when the task has to wait. From now on the sweeper can detect that the task is not polled.
    pub(super) fn wait(&mut self, waker: &Waker, request: impl FnOnce() -> Option<Arc<dyn Abort>>) {
        if let (None, Some(core), Some(claim)) = (&self.in_flight, &self.core, &self.claim) {
            let known = InFlight::new(claim, self.role, Purpose::Claim, waker, request());
            core.queues.register(&known);
            self.pending.iter().for_each(|pending| known.set_pending_release(pending));
            self.in_flight = Some(known);
        }
    }

    /// Waits for `work`, which sends no request that could arrive after the release of its claim.
    pub(super) async fn run<T>(&mut self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        poll_fn(|context| {
            self.begin_poll(context.waker(), || None);
            let polled = work.as_mut().poll(context);
            if polled.is_pending() {
                self.wait(context.waker(), || None);
            }
            polled
        })
        .await
    }

    /// Waits for a request of its claim. `None` if the claim was taken over.
    pub(super) async fn run_request<T: Send + 'static>(&mut self, request: Boxed<T>) -> Option<T> {
        let request = AbortableRequest::new(request);
        let shared = || Some(request.clone() as Arc<dyn Abort>);
        poll_fn(|context| {
            if !self.begin_poll(context.waker(), shared) {
                return Poll::Ready(None);
            }
            let polled = request.poll(context);
            if polled.is_pending() {
                self.wait(context.waker(), shared);
            }
            polled
        })
        .await
    }

    /// Whether the claim was taken over because its task was not polled. The claim is then released, and
    /// belongs to no task.
    pub(super) fn was_taken_over(&self) -> bool {
        self.in_flight.as_ref().is_some_and(|known| !known.is_active())
    }

    /// Consumes the ticket. `None` if it was consumed before, or its claim was taken over.
    fn use_up(&mut self) -> Option<Arc<Core>> {
        let core = self.core.take()?;
        self.in_flight.take().is_none_or(|known| known.finish()).then_some(core)
    }

    /// Lets short readers before this one finish, so that a client has one read claim at a time. The wait for
    /// a long one ends when its claim could no longer be joined.
    pub(super) async fn let_readers_finish(&mut self, terms: &LockTerms, wait: WaitUntil) {
        let (Some(core), Some(readers)) = (self.core.clone(), self.readers.take()) else { return };
        let limit = match wait {
            WaitUntil::Never => return,
            WaitUntil::Moment(end) => core.clock.now().after(terms.pass_for).min(end),
            WaitUntil::Forever => core.clock.now().after(terms.pass_for),
        };
        let _ = self.run(core.until(limit, readers.notified())).await;
    }

    /// The claim is about to be sent. Returns whether it was sent before.
    pub(super) fn sends(&mut self) -> bool {
        std::mem::replace(&mut self.is_sent, true)
    }

    /// Its task is gone, and the claim is under way: from here on, tasks that try wait for its end.
    pub(super) fn abandon(&mut self) {
        let (Some(core), Some(claim)) = (&self.core, &self.claim) else { return };
        let held_until = may_hold_until(claim, core.clock.now().after(defaults::REQUEST_LIMIT));
        let pending = PendingRelease::new(self.role, held_until);
        self.pending = Some(core.queues.announce(&self.name, pending, self.in_flight.as_deref()));
    }

    /// The request failed without any effect.
    pub(super) fn did_nothing(&mut self, was_sent: bool) {
        self.is_sent = was_sent;
    }

    /// Requests of its claim may still be under way, and take effect for as long as a lease.
    pub(super) fn expect_strays(&mut self) {
        if let (Some(core), Some(claim)) = (&self.core, &self.claim) {
            self.strays = Some(core.clock.now().after(claim.ttl));
        }
    }

    /// The claim this ticket drives; made from `terms` unless it was inherited from a task that gave up.
    pub(super) fn claim(&mut self, terms: &LockTerms, wait: WaitUntil) -> Arc<Claim> {
        let (name, core) = (&self.name, &self.core);
        let claim = self.claim.get_or_insert_with(|| {
            let id = core.as_ref().map_or_else(ClaimId::random, |core| ClaimId::drawn(core.clock));
            Arc::new(Claim {
                name: name.clone(),
                id,
                mode: terms.mode,
                owner: terms.owner.clone(),
                ttl: terms.lease.ttl,
                wait_lease: match wait {
                    WaitUntil::Never => Duration::ZERO,
                    _ => defaults::WAIT_LEASE.min(terms.lease.ttl),
                },
                lifetime: terms.lifetime,
                fenced: terms.fenced,
                note: terms.note.clone(),
                tells: terms.tells.clone(),
            })
        });
        claim.clone()
    }

    /// Leaves without the lock, when the server keeps nothing of the claim.
    pub(super) fn forget_claim(mut self) {
        self.claim = None;
    }

    /// Leaves without the lock. True if nothing is left behind. Otherwise a background task releases the
    /// claim.
    pub(super) async fn withdraw(mut self) -> bool {
        let was_taken_over = self.was_taken_over();
        let Some((unreleased, claim)) = self.pass_on() else { return !was_taken_over };
        // Withdraws from the queue, or frees a grant that crossed with the withdrawal.
        release(unreleased, claim).await
    }

    /// Leaves with a claim that was lost. Its id must not be requested again (C12), so the next local waiter
    /// draws its own.
    pub(super) async fn withdraw_lost(mut self) -> bool {
        let was_taken_over = self.was_taken_over();
        let (Some(core), Some(claim)) = (self.use_up(), self.claim.take()) else { return !was_taken_over };
        release(ReleasePending::new(core, self.name.clone(), self.role, self.strays), claim).await
    }

    /// Hands over the granted claim. `None` if it was taken over.
    pub(super) fn into_granted(mut self) -> Option<(Arc<Core>, Arc<Claim>, Strays)> {
        let core = self.use_up()?;
        let claim = self.claim.take().expect("a ticket that was granted has claimed");
        Some((core, claim, self.strays))
    }

    /// Gives the right and the claim to the next local waiter. Returns a claim that no task takes.
    fn pass_on(&mut self) -> Option<(ReleasePending, Arc<Claim>)> {
        let core = self.use_up()?;
        let claim = self.claim.take().filter(|_| self.is_sent);
        let left = Inherited { claim, strays: self.strays };
        background::pass_on(core, &self.name, self.role, left, self.pending.take())
    }
}

/// Whether the engine answered in time that nothing is left.
async fn release(mut release: ReleasePending, claim: Arc<Claim>) -> bool {
    let core = release.core().clone();
    // Its caller may not wait for the answer.
    release.announce(&claim);
    let now = core.clock.now();
    let limit = now.after(defaults::UNDO_LIMIT);
    core.until(limit, release.release(claim, now)).await.is_some_and(|answer| answer.is_ok())
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if let Some((release, claim)) = self.pass_on() {
            release.release_in_background(claim);
        }
    }
}
