//! The thread that drives engines and timers for callers without a runtime.

use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use tokio::runtime::{Builder, EnterGuard, Handle};

use crate::poison::lock_ignoring_poison;
use crate::{Error, ErrorKind, Result};

/// A runtime on a thread of its own.
#[derive(Clone, Debug)]
pub(super) struct Driver {
    runtime: Handle,
    pid: u32,
}

impl Driver {
    /// The one of this process. A fork starts another: threads do not cross it.
    pub(super) fn of_this_process() -> Result<Self> {
        static DRIVER: Mutex<Option<Driver>> = Mutex::new(None);
        let mut driver = lock_ignoring_poison(&DRIVER);
        match driver.as_ref().filter(|driver| driver.pid == forkmark::process_id()) {
            Some(driver) => Ok(driver.clone()),
            None => Ok(driver.insert(Self::start()?).clone()),
        }
    }

    fn start() -> Result<Self> {
        let no_thread = |error: std::io::Error| {
            Error::new(ErrorKind::Unreachable, format!("cannot start a thread: {error}")).with_source(error)
        };
        let runtime = Builder::new_current_thread().enable_all().build().map_err(no_thread)?;
        let driver = Self { runtime: runtime.handle().clone(), pid: forkmark::process_id() };
        let drive = move || runtime.block_on(std::future::pending::<()>());
        std::thread::Builder::new().name("latch-blocking".into()).spawn(drive).map_err(no_thread)?;
        Ok(driver)
    }

    /// Whatever is begun while the guard lives runs on this driver.
    pub(super) fn enter(&self) -> EnterGuard<'_> {
        self.runtime.enter()
    }

    /// Polls `future` on the calling thread, which sleeps in between; timers and sockets wake it from the driver's.
    pub(super) fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        let _inside = self.enter();
        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
        // Inside somebody's task, that task's budget is not ours: once it is spent, tokio defers the wake-up until the task
        // returns, and it cannot return before this does.
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
