//! Work that goes on without a caller, and requests whose caller may go away.
//!
//! [`Background`] starts tasks, [`Shield`](shield::Shield) moves a request into one when its caller is
//! dropped, and [`ReleasePending`](release::ReleasePending) releases a claim there. `janitor` repeats
//! releases that fail, and `sweeper` takes turns and requests back from tasks that are not polled. This room
//! uses `queue`, and neither `held` nor `acquire`.

mod abortable;
mod deadlines;
mod handle;
mod janitor;
mod release;
mod request;
mod shield;
pub(super) mod sweeper;

use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::thread::ThreadId;
use std::time::Duration;

use tokio::runtime::{Builder, Handle, RuntimeFlavor};
use tokio::sync::{Notify, oneshot, watch};
use tokio::task::JoinHandle;

pub(super) use self::abortable::AbortableRequest;
pub(super) use self::deadlines::RequestDeadlines;
pub(crate) use self::handle::ClientHandle;
pub(super) use self::release::{ReleasePending, hand_back, may_hold_until, pass_on};
pub(crate) use self::request::LimitedRequest;
pub(super) use self::shield::{Shield, ShieldedWork};
use super::defaults;
use crate::clock::{Clock, Moment};
use crate::poison::lock_ignoring_poison;

/// Starts tasks, and the client's own thread once something needs it.
pub(crate) struct Background {
    thread: Mutex<Option<Handle>>,
    clock: Clock,
    /// Watched on the thread, once there is one.
    pub(super) deadlines: Arc<RequestDeadlines>,
    pid: u32,
    stop: Arc<Notify>,
    /// The id of the client's own thread, once it has started.
    thread_id: Arc<OnceLock<ThreadId>>,
    unfinished: Arc<Unfinished>,
    /// Whether the sweeper task is running.
    is_sweeping: AtomicBool,
    /// The time after which requests begun on other runtimes are no longer waited for.
    settles_at: watch::Sender<Moment>,
    /// When the last lock that is kept for a while is released, in microseconds.
    kept_until: AtomicU64,
}

impl Background {
    pub(crate) fn new(clock: Clock) -> Self {
        Self {
            thread: Mutex::default(),
            stop: Arc::default(),
            clock,
            deadlines: Arc::default(),
            pid: forkmark::process_id(),
            thread_id: Arc::default(),
            unfinished: Arc::default(),
            is_sweeping: AtomicBool::new(false),
            settles_at: watch::Sender::new(Moment::NEVER),
            kept_until: AtomicU64::new(0),
        }
    }

    /// Resolves when all work that was begun is done.
    pub(crate) async fn finished(&self) {
        loop {
            let changed = self.unfinished.changed.notified();
            if self.unfinished() == 0 {
                return;
            }
            changed.await;
        }
    }

    /// The number of tasks that are not done yet.
    pub(crate) fn unfinished(&self) -> usize {
        let counts = lock_ignoring_poison(&self.unfinished.counts);
        counts.requests + counts.kept
    }

    /// Blocks the calling thread until no release is outstanding, for at most `timeout`. It does not wait for
    /// claims that are kept for a while: they outlive the process anyway.
    ///
    /// It never blocks on tokio's clock, because that would block the runtime itself. It never blocks on the
    /// client's own thread, which does the work. It uses nothing of tokio: it may run while a thread ends,
    /// after the thread-local variables are gone.
    pub(crate) fn settle(&self, timeout: Duration) {
        let is_own_thread = || self.thread_id.get() == Some(&std::thread::current().id());
        if self.clock.lives_in_the_runtime()
            || timeout.is_zero()
            || lock_ignoring_poison(&self.unfinished.counts).requests == 0
            || is_own_thread()
        {
            return;
        }
        // This thread may be the one that drives the connection on which the reply arrives.
        let blocks_runtime = Handle::try_current()
            .is_ok_and(|runtime| runtime.runtime_flavor() == RuntimeFlavor::CurrentThread);
        let (now, grace) =
            (self.clock.now(), if blocks_runtime { Duration::ZERO } else { defaults::SETTLE_GRACE });
        self.settles_at.send_replace(now.after(grace));
        let counts = lock_ignoring_poison(&self.unfinished.counts);
        let waiting =
            self.unfinished.released.wait_timeout_while(counts, timeout, |counts| counts.requests > 0);
        drop(waiting.unwrap_or_else(PoisonError::into_inner));
    }

    /// Returns true if the sweeper is not running. The caller must then start it.
    pub(super) fn begin_sweeping(&self) -> bool {
        !self.is_sweeping.load(Ordering::SeqCst) && !self.is_sweeping.swap(true, Ordering::SeqCst)
    }

    pub(super) fn end_sweeping(&self) {
        self.is_sweeping.store(false, Ordering::SeqCst);
    }

    /// When the last lock that `hold_at_least` keeps is released.
    pub(crate) fn kept_until(&self) -> Moment {
        Moment::from_micros(self.kept_until.load(Ordering::Relaxed))
    }

    /// Runs `work`, which keeps a claim until `until`.
    pub(crate) fn spawn_kept(&self, until: Moment, work: impl Future<Output = ()> + Send + 'static) {
        self.kept_until.fetch_max(until.as_micros(), Ordering::Relaxed);
        let counted = Counted::new(&self.unfinished, |counts| &mut counts.kept);
        self.spawn_unawaited(async move {
            work.await;
            drop(counted);
        });
    }

    /// Lets a request finish that was begun on another runtime. A request that stays unanswered is dropped.
    /// Its drop starts it again from this thread, because the runtime that drives its connection may be
    /// blocked or gone.
    pub(super) fn adopt<W: ShieldedWork>(&self, mut work: W) {
        if self.pid != forkmark::process_id() {
            // In a fork the runtime's threads do not exist, and a drop would send requests that the parent
            // may send too.
            return std::mem::forget(work);
        }
        if self.clock.lives_in_the_runtime() {
            return self.spawn(async move { drop(work.await) });
        }
        // Outside of any runtime it is unknown whether the request's runtime is still alive.
        let Ok(runtime) = Handle::try_current() else { return drop(work) };
        let (clock, mut settles_at) = (self.clock, self.settles_at.subscribe());
        let limit = clock.now().after(W::ADOPTED_LIMIT);
        let (alive, mut ended) = oneshot::channel::<()>();
        let alive = AbortOnDrop(runtime.spawn(async move {
            let _alive = alive;
            std::future::pending::<()>().await;
        }));
        self.spawn(async move {
            let _alive = alive;
            loop {
                let until = limit.min(*settles_at.borrow_and_update());
                tokio::select! {
                    biased;
                    // Polled before the work: timers of a runtime that has ended panic.
                    _ = &mut ended => return,
                    done = &mut work => return drop(done),
                    () = clock.sleep_until(until) => return,
                    Ok(()) = settles_at.changed() => {}
                }
            }
        });
    }

    /// Runs `work` on the client's own thread, so that it is not lost when the caller's runtime ends. Work on
    /// tokio's clock stays in the caller's runtime, if there is one.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let counted = Counted::new(&self.unfinished, |counts| &mut counts.requests);
        self.spawn_unawaited(async move {
            work.await;
            drop(counted);
        });
    }

    /// Runs `work` as [`Background::spawn`] does, but [`Background::finished`] does not wait for it.
    pub(crate) fn spawn_unawaited(&self, work: impl Future<Output = ()> + Send + 'static) {
        if self.pid != forkmark::process_id() {
            // A fork must not send requests that its parent may send too. Nor may it drop them: that could
            // send others.
            return std::mem::forget(work);
        }
        let caller = || Handle::try_current().ok();
        let runtime = if self.clock.lives_in_the_runtime() {
            caller().or_else(|| self.thread())
        } else {
            self.thread().or_else(caller)
        };
        // Without any runtime the work is dropped: the lease ends by itself.
        runtime.map(|runtime| runtime.spawn(work));
    }

    /// The client's own thread with its small runtime, so that blocked user code cannot stop that thread's
    /// tasks. `None` if the system has no descriptor or thread left.
    ///
    /// The thread ends with the client. A task on it refers to the client until the task is done.
    pub(crate) fn thread(&self) -> Option<Handle> {
        let mut thread = lock_ignoring_poison(&self.thread);
        if thread.is_none() {
            let (stop, (sender, made)) = (self.stop.clone(), std::sync::mpsc::channel());
            let (watch, thread_id) = (self.deadlines.clone().watch(self.clock), self.thread_id.clone());
            // Built on that thread: a runtime must not be dropped in async code, and here it would be if no
            // thread can start.
            let live = move || {
                let _ = thread_id.set(std::thread::current().id());
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

/// A task that is aborted when this is dropped.
struct AbortOnDrop(JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Counts of the work in progress.
#[derive(Default)]
struct Unfinished {
    counts: Mutex<Counts>,
    /// Notified at every change.
    changed: Notify,
    /// Notified when no request is left.
    released: Condvar,
}

#[derive(Default)]
struct Counts {
    /// Requests and releases that continue without a caller.
    requests: usize,
    /// Claims that are kept for a while.
    kept: usize,
}

/// One task that is not done, or not even dropped with its runtime.
struct Counted {
    unfinished: Arc<Unfinished>,
    count: fn(&mut Counts) -> &mut usize,
}

impl Counted {
    fn new(unfinished: &Arc<Unfinished>, count: fn(&mut Counts) -> &mut usize) -> Self {
        *count(&mut lock_ignoring_poison(&unfinished.counts)) += 1;
        Self { unfinished: unfinished.clone(), count }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut counts = lock_ignoring_poison(&self.unfinished.counts);
        *(self.count)(&mut counts) -= 1;
        let is_released = counts.requests == 0;
        drop(counts);
        self.unfinished.changed.notify_waiters();
        if is_released {
            self.unfinished.released.notify_all();
        }
    }
}
