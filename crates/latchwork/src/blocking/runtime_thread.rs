//! The thread that drives connections and timers for callers without a runtime.

use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use tokio::runtime::{Builder, EnterGuard, Handle};

use crate::poison::lock_ignoring_poison;
use crate::{Error, ErrorKind, Result};

/// A handle of a runtime that runs on a thread of its own.
#[derive(Clone, Debug)]
pub(super) struct RuntimeThread {
    runtime: Handle,
    pid: u32,
}

impl RuntimeThread {
    /// The runtime of this process. A fork starts another, because threads are not inherited.
    pub(super) fn of_this_process() -> Result<Self> {
        static THREAD: Mutex<Option<RuntimeThread>> = Mutex::new(None);
        let mut thread = lock_ignoring_poison(&THREAD);
        match thread.as_ref().filter(|thread| thread.pid == forkmark::process_id()) {
            Some(thread) => Ok(thread.clone()),
            None => Ok(thread.insert(Self::start()?).clone()),
        }
    }

    fn start() -> Result<Self> {
        let no_thread = |error: std::io::Error| {
            Error::new(ErrorKind::Unreachable, format!("cannot start a thread: {error}")).with_source(error)
        };
        let runtime = Builder::new_current_thread().enable_all().build().map_err(no_thread)?;
        let thread = Self { runtime: runtime.handle().clone(), pid: forkmark::process_id() };
        let drive = move || runtime.block_on(std::future::pending::<()>());
        std::thread::Builder::new().name("latch-blocking".into()).spawn(drive).map_err(no_thread)?;
        Ok(thread)
    }

    /// Until the guard is dropped, spawned tasks and new timers belong to this runtime.
    pub(super) fn enter(&self) -> EnterGuard<'_> {
        self.runtime.enter()
    }

    /// Polls `future` on the calling thread, which sleeps in between. Timers and sockets wake it from this
    /// thread.
    pub(super) fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        let _inside = self.enter();
        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
        // The caller may be a task of another runtime. Once the budget of that task is spent, tokio defers
        // the wake-up until the task returns, which it cannot before this call does.
        let future = tokio::task::unconstrained(future);
        let (mut future, mut cx) = (pin!(future), Context::from_waker(&waker));
        loop {
            if let Poll::Ready(done) = future.as_mut().poll(&mut cx) {
                return done;
            }
            std::thread::park();
        }
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}
