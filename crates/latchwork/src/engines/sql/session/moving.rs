//! What moves a connection: a task on the runtime that opened it, so that no request changes threads; and the client's own
//! thread, while somebody elsewhere asks or that runtime stands still.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use tokio::runtime::{self, Handle};

use super::connection::Ended;
use crate::net::own_thread::OwnThread;
use crate::poison::lock_ignoring_poison;

/// What reads and writes, until the connection ends. It must be [fit](super::Socket) to be polled on any runtime.
type Driving = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A connection on the move.
pub(in crate::engines) struct Moving {
    state: Mutex<State>,
    thread: OwnThread,
}

struct State {
    /// `None` before it begins, and when it is over.
    driving: Option<Driving>,
    /// Told when it is over.
    ended: Option<Ended>,
    /// The runtime that moves it if nobody else must.
    home: Option<runtime::Id>,
    /// Wakes the task there.
    resident: Option<Waker>,
    /// The task on the thread, by its number, while it does the work.
    visitor: Option<u64>,
    visitor_waker: Option<Waker>,
    visitors: u64,
    /// Requests from other runtimes that are under way.
    visits: usize,
}

impl Moving {
    pub(super) fn new(thread: OwnThread, ended: Ended) -> Arc<Self> {
        let state = State {
            driving: None,
            ended: Some(ended),
            home: None,
            resident: None,
            visitor: None,
            visitor_waker: None,
            visitors: 0,
            visits: 0,
        };
        Arc::new(Self { state: Mutex::new(state), thread })
    }

    /// Lets a connection do its work from now on, on this runtime.
    pub(in crate::engines) fn start(self: &Arc<Self>, driving: impl Future<Output = ()> + Send + 'static) {
        let mut state = lock_ignoring_poison(&self.state);
        state.driving = Some(Box::pin(driving));
        state.home = Some(Handle::current().id());
        drop(state);
        tokio::spawn(Resident(self.clone()));
    }

    /// Ends it at once, whatever is under way on it.
    pub(super) fn end(&self) {
        let over = lock_ignoring_poison(&self.state).take();
        over.tell();
    }

    /// Nobody asks anything any more. It says goodbye even if its runtime stands still; but waits for no answer that is missing.
    pub(super) fn leave(self: &Arc<Self>, is_unheard: bool) {
        if is_unheard {
            let moving = self.clone();
            drop(self.thread.spawn(async move { moving.end() }));
        } else {
            self.begin_visit(None);
        }
    }

    /// Waits for an answer, and sees to it that somebody brings it in. Asked at every turn: a request that nobody waits for any
    /// more goes on on another runtime, and the one that it began on may stand still from then on.
    pub(super) async fn moved<T>(self: &Arc<Self>, asking: impl Future<Output = T>) -> T {
        let (mut visit, mut asking) = (None, pin!(asking));
        poll_fn(|context| {
            if visit.is_none() {
                visit = self.visit();
            }
            asking.as_mut().poll(context)
        })
        .await
    }

    /// For a request that is under way: `Some` if it comes from another runtime than its own, which may stand still.
    fn visit(self: &Arc<Self>) -> Option<Visit<'_>> {
        let here = Handle::try_current().ok().map(|runtime| runtime.id());
        self.begin_visit(here).then(|| Visit(self))
    }

    fn begin_visit(self: &Arc<Self>, here: Option<runtime::Id>) -> bool {
        let mut state = lock_ignoring_poison(&self.state);
        // The thread never stands still.
        let is_at_home = state.home == here || state.home == Some(self.thread.id());
        if is_at_home || state.driving.is_none() {
            return false;
        }
        state.visits += 1;
        if state.visitor.is_none() {
            state.visitors += 1;
            state.visitor = Some(state.visitors);
            drop(self.thread.spawn(Visitor { moving: self.clone(), number: state.visitors }));
        }
        true
    }

    /// On its own runtime, unless somebody needs the thread for it.
    fn poll_at_home(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut state = lock_ignoring_poison(&self.state);
        keep(&mut state.resident, context.waker());
        if state.visits > 0 && state.driving.is_some() {
            return Poll::Pending;
        }
        // Taken back: nobody but this is woken from here on.
        if state.visitor.take().is_some() {
            state.visitor_waker.take().into_iter().for_each(Waker::wake);
        }
        let over = state.drive(context);
        drop(state);
        over.map(Over::tell)
    }

    /// On the thread, for as long as nobody takes it back: its runtime may stand still.
    fn poll_as_visitor(&self, number: u64, context: &mut Context<'_>) -> Poll<()> {
        let mut state = lock_ignoring_poison(&self.state);
        if state.visitor != Some(number) {
            return Poll::Ready(());
        }
        keep(&mut state.visitor_waker, context.waker());
        let over = state.drive(context);
        drop(state);
        over.map(Over::tell)
    }

    /// Its runtime has ended.
    fn lose_home(self: &Arc<Self>) {
        let mut state = lock_ignoring_poison(&self.state);
        if state.driving.is_none() {
            return;
        }
        if state.home == Some(self.thread.id()) {
            let over = state.take();
            drop(state);
            return over.tell();
        }
        state.home = Some(self.thread.id());
        drop(state);
        drop(self.thread.spawn(Resident(self.clone())));
    }
}

impl State {
    fn drive(&mut self, context: &mut Context<'_>) -> Poll<Over> {
        match self.driving.as_mut().map(|driving| driving.as_mut().poll(context)) {
            Some(Poll::Pending) => Poll::Pending,
            _ => Poll::Ready(self.take()),
        }
    }

    fn take(&mut self) -> Over {
        for task in [self.resident.take(), self.visitor_waker.take()] {
            task.into_iter().for_each(Waker::wake);
        }
        Over { ended: self.ended.take(), _driving: self.driving.take() }
    }
}

fn keep(place: &mut Option<Waker>, waker: &Waker) {
    if !place.as_ref().is_some_and(|kept| kept.will_wake(waker)) {
        *place = Some(waker.clone());
    }
}

/// A connection that has ended. Told when nothing is locked: holders first, then whoever waits for an answer.
struct Over {
    ended: Option<Ended>,
    _driving: Option<Driving>,
}

impl Over {
    fn tell(self) {
        drop(self.ended);
    }
}

/// A request from another runtime.
pub(super) struct Visit<'a>(&'a Moving);

impl Drop for Visit<'_> {
    fn drop(&mut self) {
        let mut state = lock_ignoring_poison(&self.0.state);
        state.visits -= 1;
        if state.visits == 0 {
            state.resident.iter().for_each(Waker::wake_by_ref);
        }
    }
}

/// The task on the runtime that opened it.
struct Resident(Arc<Moving>);

impl Future for Resident {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.0.poll_at_home(context)
    }
}

impl Drop for Resident {
    fn drop(&mut self) {
        self.0.lose_home();
    }
}

/// The task on the thread.
struct Visitor {
    moving: Arc<Moving>,
    number: u64,
}

impl Future for Visitor {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.moving.poll_as_visitor(self.number, context)
    }
}
