//! Where work goes on when nobody awaits it.

use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use tokio::runtime::{Builder, Handle};
use tokio::sync::{Notify, watch};

use super::limits::Limits;
use crate::clock::{Clock, Moment};
use crate::locked::locked;

/// Starts tasks, and the thread of a client's own once something needs it.
pub(crate) struct Background {
    thread: Mutex<Option<Handle>>,
    clock: Clock,
    /// Watched on the thread, once there is one.
    pub(super) limits: Arc<Limits>,
    pid: u32,
    stop: Arc<Notify>,
    /// How many tasks are not done yet.
    unfinished: watch::Sender<usize>,
    /// When the last of them that keeps a lock for a while is to give it back, in microseconds.
    kept_until: AtomicU64,
}

impl Background {
    pub(crate) fn new(clock: Clock) -> Self {
        Self {
            thread: Mutex::default(),
            stop: Arc::default(),
            clock,
            limits: Arc::default(),
            pid: forkmark::process_id(),
            unfinished: watch::Sender::new(0),
            kept_until: AtomicU64::new(0),
        }
    }

    /// Resolves when all work that was begun is done.
    pub(crate) async fn finished(&self) {
        let _ = self.unfinished.subscribe().wait_for(|unfinished| *unfinished == 0).await;
    }

    /// How many tasks are not done yet.
    pub(crate) fn unfinished(&self) -> usize {
        *self.unfinished.borrow()
    }

    /// Until when something is kept that need not be given back before.
    pub(crate) fn kept_until(&self) -> Moment {
        Moment::from_micros(self.kept_until.load(Ordering::Relaxed))
    }

    /// Runs `work` that cannot be done before `until`.
    pub(crate) fn spawn_until(&self, until: Moment, work: impl Future<Output = ()> + Send + 'static) {
        self.kept_until.fetch_max(until.as_micros(), Ordering::Relaxed);
        self.spawn(work);
    }

    /// Runs `work` where it is not lost when the caller's runtime ends: on the client's own thread. Work on tokio's
    /// clock stays in the caller's runtime, if there is one.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let unfinished = Unfinished::new(&self.unfinished);
        self.spawn_unawaited(async move {
            work.await;
            drop(unfinished);
        });
    }

    /// The same for work that [`Background::finished`] does not wait for.
    pub(crate) fn spawn_unawaited(&self, work: impl Future<Output = ()> + Send + 'static) {
        if self.pid != forkmark::process_id() {
            // A fork must not send what its parent may send too; nor drop it, which could send something else.
            return std::mem::forget(work);
        }
        let caller = || Handle::try_current().ok();
        let place = if self.clock.lives_in_the_runtime() {
            caller().or_else(|| self.thread())
        } else {
            self.thread().or_else(caller)
        };
        // Without any place the work is dropped: the lease ends by itself.
        place.map(|runtime| runtime.spawn(work));
    }

    /// The client's own thread with its small runtime, so that blocked user code cannot stop what runs there. `None` if
    /// the system has no descriptor or thread left.
    ///
    /// It ends with the client: tasks on it hold what they need, and with it the client, until they are done.
    pub(crate) fn thread(&self) -> Option<Handle> {
        let mut thread = locked(&self.thread);
        if thread.is_none() {
            let (stop, (sender, made)) = (self.stop.clone(), std::sync::mpsc::channel());
            let watch = self.limits.clone().watch(self.clock);
            // Made over there: a runtime must not be dropped in async code, and here it would be if no thread can start.
            let live = move || {
                if let Ok(runtime) = Builder::new_current_thread().enable_all().build() {
                    runtime.spawn(watch);
                    let _ = sender.send(runtime.handle().clone());
                    runtime.block_on(stop.notified());
                }
            };
            std::thread::Builder::new().name("latch-keeper".into()).spawn(live).ok()?;
            *thread = made.recv().ok();
        }
        thread.clone()
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.stop.notify_one();
    }
}

/// One task that is not done, or not even dropped with its runtime.
struct Unfinished(watch::Sender<usize>);

impl Unfinished {
    fn new(count: &watch::Sender<usize>) -> Self {
        count.send_modify(|unfinished| *unfinished += 1);
        Self(count.clone())
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        self.0.send_modify(|unfinished| *unfinished -= 1);
    }
}
