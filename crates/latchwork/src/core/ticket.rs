//! The right to drive a name's remote claim.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

use tokio::sync::Notify;

use super::active::Part;
use super::drive::may_hold_until;
use super::duty::{Duty, Purpose, Seizable, Seize};
use super::finish::Finish;
use super::local::{self, hand_duty};
use super::pending_release::PendingRelease;
use super::{Core, Patience, Terms, defaults};
use crate::LockName;
use crate::clock::Moment;
use crate::engine::{Boxed, Claim, ClaimId};

/// The right to drive the remote claim of one name. Dropping it hands the duty, and the place in the remote queue, to
/// the next local waiter; without one, the claim is released and the name forgotten.
pub(crate) struct Ticket {
    core: Option<Arc<Core>>,
    name: LockName,
    /// What it counts as among the claims of its client.
    part: Part,
    claim: Option<Arc<Claim>>,
    /// Whether the server may know the claim. If not, there is nothing to release.
    is_sent: bool,
    strays: Strays,
    /// Rings when the readers of this client are done that hold an older claim.
    readers: Option<Arc<Notify>>,
    /// The claim's entry in the client's queue, once its task had to wait for the server.
    duty: Option<Arc<Duty>>,
    /// What tasks that try see of the claim, once its task is gone and the claim is under way.
    pending: Option<Arc<PendingRelease>>,
}

/// What a task that gives up leaves to the next.
#[derive(Default)]
pub(crate) struct Inherited {
    pub(crate) claim: Option<Arc<Claim>>,
    pub(crate) strays: Strays,
}

/// Until when requests of a claim whose replies are missing may still arrive and take effect, if there are any.
pub(crate) type Strays = Option<Moment>;

impl Ticket {
    pub(crate) fn new(core: Arc<Core>, name: LockName, part: Part, inherited: Inherited) -> Self {
        let Inherited { claim, strays } = inherited;
        let is_sent = claim.is_some();
        Self {
            core: Some(core),
            name,
            part,
            claim,
            is_sent,
            strays,
            readers: None,
            duty: None,
            pending: None,
        }
    }

    /// Called when the task runs and is about to poll a request of its claim. False if its duty was taken
    /// over: it must not send anything then.
    pub(super) fn begin_poll(&self, waker: &Waker, request: impl FnOnce() -> Option<Arc<dyn Seize>>) -> bool {
        self.duty.as_ref().is_none_or(|duty| duty.runs(waker, request()))
    }

    /// Called when the task has to wait. From now on the sweeper can detect that the task is not polled.
    pub(super) fn wait(&mut self, waker: &Waker, request: impl FnOnce() -> Option<Arc<dyn Seize>>) {
        if let (None, Some(core), Some(claim)) = (&self.duty, &self.core, &self.claim) {
            let duty = Duty::register(core, claim, self.part, Purpose::Claim, waker, request());
            self.pending.iter().for_each(|pending| duty.set_pending_release(pending));
            self.duty = Some(duty);
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

    /// Waits for a request of its claim. `None` if its duty was taken over.
    pub(super) async fn run_request<T: Send + 'static>(&mut self, request: Boxed<T>) -> Option<T> {
        let request = Seizable::new(request);
        let shared = || Some(request.clone() as Arc<dyn Seize>);
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

    /// Whether its duty was taken over because its task was not polled. The claim is then released, and
    /// belongs to no task.
    pub(crate) fn was_taken_over(&self) -> bool {
        self.duty.as_ref().is_some_and(|duty| !duty.is_active())
    }

    /// Consumes the ticket. `None` if it was consumed before, or its duty was taken over.
    fn use_up(&mut self) -> Option<Arc<Core>> {
        let core = self.core.take()?;
        self.duty.take().is_none_or(|duty| duty.finish()).then_some(core)
    }

    /// The same behind readers of this client whose claim others can no longer join.
    pub(crate) fn after(mut self, readers: Option<Arc<Notify>>) -> Self {
        self.readers = readers;
        self
    }

    /// Lets short readers before this one finish, so that a client has one read claim at a time; a long one is not waited
    /// for longer than its claim could be joined.
    pub(crate) async fn let_readers_finish(&mut self, terms: &Terms, patience: Patience) {
        let (Some(core), Some(readers)) = (self.core.clone(), self.readers.take()) else { return };
        let limit = match patience {
            Patience::None => return,
            Patience::Until(end) => core.clock.now().after(terms.pass_for).min(end),
            Patience::Endless => core.clock.now().after(terms.pass_for),
        };
        let _ = self.run(core.until(limit, readers.notified())).await;
    }

    /// The claim is about to be sent. Returns whether it was sent before.
    pub(super) fn sends(&mut self) -> bool {
        std::mem::replace(&mut self.is_sent, true)
    }

    /// Its task is gone, and the claim is under way: from here on, tasks that try wait for what becomes of it.
    pub(super) fn abandon(&mut self) {
        let (Some(core), Some(claim)) = (&self.core, &self.claim) else { return };
        let held_until = may_hold_until(claim, core.clock.now().after(defaults::REQUEST_LIMIT));
        let pending = PendingRelease::new(self.part, held_until);
        self.pending = Some(local::announce(core, &self.name, pending, self.duty.as_deref()));
    }

    /// The request failed without any effect.
    pub(super) fn did_nothing(&mut self, was_sent: bool) {
        self.is_sent = was_sent;
    }

    /// Requests of its claim may still be under way, and take effect for as long as a lease.
    pub(crate) fn expect_strays(&mut self) {
        if let (Some(core), Some(claim)) = (&self.core, &self.claim) {
            self.strays = Some(core.clock.now().after(claim.ttl));
        }
    }

    /// The claim this ticket drives; made from `terms` unless it was inherited from a task that gave up.
    pub(crate) fn claim(&mut self, terms: &Terms, patience: Patience) -> Arc<Claim> {
        let (name, core) = (&self.name, &self.core);
        let claim = self.claim.get_or_insert_with(|| {
            let id = core.as_ref().map_or_else(ClaimId::random, |core| ClaimId::drawn(core.clock));
            Arc::new(Claim {
                name: name.clone(),
                id,
                mode: terms.mode,
                owner: terms.owner.clone(),
                ttl: terms.lease.ttl,
                wait_lease: match patience {
                    Patience::None => Duration::ZERO,
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
    pub(crate) fn forget_claim(mut self) {
        self.claim = None;
    }

    /// Leaves without the lock. True if nothing is left behind; else a background task sees to it.
    pub(crate) async fn withdraw(mut self) -> bool {
        let was_taken_over = self.was_taken_over();
        let Some((finish, claim)) = self.hand_on() else { return !was_taken_over };
        // Withdraws from the queue, or frees a grant that crossed with our leaving.
        release(finish, claim).await
    }

    /// The same with a claim that was lost: nobody may ask for its id again (C12), so the next local waiter has one of its own.
    pub(crate) async fn withdraw_lost(mut self) -> bool {
        let was_taken_over = self.was_taken_over();
        let (Some(core), Some(claim)) = (self.use_up(), self.claim.take()) else { return !was_taken_over };
        release(Finish::new(core, self.name.clone(), self.part, self.strays), claim).await
    }

    /// Converts the claim into a tenure, whose end decides what happens to the name. `None` if its duty was
    /// taken over.
    pub(crate) fn into_tenure(mut self) -> Option<(Arc<Core>, Arc<Claim>, Strays)> {
        let core = self.use_up()?;
        let claim = self.claim.take().expect("a ticket that was granted has claimed");
        Some((core, claim, self.strays))
    }

    /// Gives duty and claim to the next local waiter; what nobody takes comes back.
    fn hand_on(&mut self) -> Option<(Finish, Arc<Claim>)> {
        let core = self.use_up()?;
        let claim = self.claim.take().filter(|_| self.is_sent);
        let left = Inherited { claim, strays: self.strays };
        let pending = self.pending.take();
        let (claim, strays) = hand_duty(&core, &self.name, self.part, left, pending.as_ref())?;
        Some((Finish::new(core, self.name.clone(), self.part, strays).with_pending(pending), claim))
    }
}

/// Whether the engine said in time that nothing is left.
async fn release(mut finish: Finish, claim: Arc<Claim>) -> bool {
    let core = finish.core().clone();
    // Its caller may not wait for the answer.
    finish.announce(&claim);
    let now = core.clock.now();
    let limit = now.after(defaults::UNDO_LIMIT);
    core.until(limit, finish.release(claim, now)).await.is_some_and(|answer| answer.is_ok())
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if let Some((finish, claim)) = self.hand_on() {
            finish.release_in_background(claim);
        }
    }
}
