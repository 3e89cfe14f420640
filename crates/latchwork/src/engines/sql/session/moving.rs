//! Drives a connection. A task on the runtime that opened it does so, so that no request changes threads. The
//! client's own thread does so while a request comes from another runtime, because the first one may be
//! blocked, and after that runtime has ended.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use tokio::runtime::{self, Handle};

use super::session_store::CloseHook;
use crate::net::own_thread::OwnThread;
use crate::poison::lock_ignoring_poison;

/// The future that reads and writes until the connection ends. Its socket must allow polling on any runtime,
/// as [`Socket`](super::Socket) does.
type DriverFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A connection that different runtimes can drive.
pub(in crate::engines) struct Moving {
    state: Mutex<MovingState>,
    thread: OwnThread,
}

struct MovingState {
    /// `None` before the start and after the end.
    driver: Option<DriverFuture>,
    /// Dropped when the connection has ended.
    close_hook: Option<CloseHook>,
    /// The runtime that drives it while no request comes from elsewhere.
    home: Option<runtime::Id>,
    /// Wakes the task on the home runtime.
    resident: Option<Waker>,
    /// The number of the task on the client's thread, while that task drives the connection.
    visitor: Option<u64>,
    visitor_waker: Option<Waker>,
    /// The number of visitors so far.
    visitors: u64,
    /// The number of requests under way from other runtimes.
    visits: usize,
}

impl Moving {
    pub(super) fn new(thread: OwnThread, close_hook: CloseHook) -> Arc<Self> {
        let state = MovingState {
            driver: None,
            close_hook: Some(close_hook),
            home: None,
            resident: None,
            visitor: None,
            visitor_waker: None,
            visitors: 0,
            visits: 0,
        };
        Arc::new(Self { state: Mutex::new(state), thread })
    }

    /// Starts to drive the connection, on this runtime.
    pub(in crate::engines) fn start(self: &Arc<Self>, driver: impl Future<Output = ()> + Send + 'static) {
        let mut state = lock_ignoring_poison(&self.state);
        state.driver = Some(Box::pin(driver));
        state.home = Some(Handle::current().id());
        drop(state);
        tokio::spawn(Resident(self.clone()));
    }

    /// Ends the connection at once, even with requests under way.
    pub(super) fn end(&self) {
        let ended = lock_ignoring_poison(&self.state).take();
        ended.close();
    }

    /// The last user is gone. The connection is terminated properly, even while its runtime is blocked. With
    /// an unanswered request it is ended without waiting for the reply.
    pub(super) fn leave(self: &Arc<Self>, has_unanswered: bool) {
        if has_unanswered {
            let moving = self.clone();
            drop(self.thread.spawn(async move { moving.end() }));
        } else {
            self.begin_visit(None);
        }
    }

    /// Runs a request, and ensures that the connection is driven meanwhile. Checked at every poll: a request
    /// whose caller is gone continues on another runtime, and the runtime on which it began may be blocked
    /// from then on.
    pub(super) async fn moved<T>(self: &Arc<Self>, request: impl Future<Output = T>) -> T {
        let (mut visit, mut request) = (None, pin!(request));
        poll_fn(|context| {
            if visit.is_none() {
                visit = self.visit();
            }
            request.as_mut().poll(context)
        })
        .await
    }

    /// Begins a visit for a request, if it comes from another runtime than the home runtime, which may be
    /// blocked.
    fn visit(self: &Arc<Self>) -> Option<Visit<'_>> {
        let here = Handle::try_current().ok().map(|runtime| runtime.id());
        self.begin_visit(here).then(|| Visit(self))
    }

    fn begin_visit(self: &Arc<Self>, here: Option<runtime::Id>) -> bool {
        let mut state = lock_ignoring_poison(&self.state);
        // The client's own thread is never blocked.
        let is_at_home = state.home == here || state.home == Some(self.thread.id());
        if is_at_home || state.driver.is_none() {
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

    /// Drives the connection on its home runtime, unless a visit is under way.
    fn poll_at_home(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut state = lock_ignoring_poison(&self.state);
        store_waker(&mut state.resident, context.waker());
        if state.visits > 0 && state.driver.is_some() {
            return Poll::Pending;
        }
        // Taken back from the visitor: from here on only this task is woken.
        if state.visitor.take().is_some() {
            state.visitor_waker.take().into_iter().for_each(Waker::wake);
        }
        let ended = state.drive(context);
        drop(state);
        ended.map(EndedConnection::close)
    }

    /// Drives the connection on the client's thread until the home runtime takes it back, which may be
    /// blocked.
    fn poll_as_visitor(&self, number: u64, context: &mut Context<'_>) -> Poll<()> {
        let mut state = lock_ignoring_poison(&self.state);
        if state.visitor != Some(number) {
            return Poll::Ready(());
        }
        store_waker(&mut state.visitor_waker, context.waker());
        let ended = state.drive(context);
        drop(state);
        ended.map(EndedConnection::close)
    }

    /// The home runtime has ended.
    fn lose_home(self: &Arc<Self>) {
        let mut state = lock_ignoring_poison(&self.state);
        if state.driver.is_none() {
            return;
        }
        if state.home == Some(self.thread.id()) {
            let ended = state.take();
            drop(state);
            return ended.close();
        }
        state.home = Some(self.thread.id());
        drop(state);
        drop(self.thread.spawn(Resident(self.clone())));
    }
}

impl MovingState {
    fn drive(&mut self, context: &mut Context<'_>) -> Poll<EndedConnection> {
        match self.driver.as_mut().map(|driver| driver.as_mut().poll(context)) {
            Some(Poll::Pending) => Poll::Pending,
            _ => Poll::Ready(self.take()),
        }
    }

    fn take(&mut self) -> EndedConnection {
        for task in [self.resident.take(), self.visitor_waker.take()] {
            task.into_iter().for_each(Waker::wake);
        }
        EndedConnection { close_hook: self.close_hook.take(), _driver: self.driver.take() }
    }
}

fn store_waker(slot: &mut Option<Waker>, waker: &Waker) {
    if !slot.as_ref().is_some_and(|stored| stored.will_wake(waker)) {
        *slot = Some(waker.clone());
    }
}

/// A connection that has ended. Dropped when no mutex is locked. The holders of locks learn of it first, and
/// then the callers that wait for replies.
struct EndedConnection {
    close_hook: Option<CloseHook>,
    _driver: Option<DriverFuture>,
}

impl EndedConnection {
    fn close(self) {
        drop(self.close_hook);
    }
}

/// A request from another runtime than the home runtime.
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

/// The task on the home runtime.
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

/// The task on the client's thread.
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
