//! The connection of a session, shared by the tasks of its client.
//!
//! A request that can write at once does so inline. A request that must wait for another process takes the
//! connection to a blocking thread; requests that come meanwhile wait until it is back. It is never reserved
//! for one of them: a request whose runtime stands still would keep it from all others.

use std::pin::pin;
use std::sync::{Arc, Mutex};

use tokio::sync::Notify;

use super::errors::shut_down;
use super::store::{Blocking, Store};
use crate::Result;
use crate::poison::lock_ignoring_poison;

/// A connection that the tasks of one client use in turn.
pub(super) struct SharedStore {
    /// `None` while a blocking thread has it. Locked only for as long as an inline statement takes.
    store: Mutex<Option<Box<Store>>>,
    returned: Notify,
}

/// The outcome of an inline attempt.
enum InlineAttempt<T> {
    Done(T),
    /// Another process is writing. The connection was taken out, to wait for that process elsewhere.
    MustBlock(Taken),
    /// A blocking thread has the connection.
    InUse,
}

/// The connection on its way to a blocking thread. Its drop puts it back, also if the thread never ran.
struct Taken {
    store: Option<Box<Store>>,
    from: Arc<SharedStore>,
}

impl SharedStore {
    pub(super) fn new(store: Store) -> Arc<Self> {
        Arc::new(Self { store: Mutex::new(Some(Box::new(store))), returned: Notify::new() })
    }

    /// Runs `work` with the connection: inline if it need not wait, else on a blocking thread. `work` returns
    /// `None` if it would have to wait and must not.
    pub(super) async fn run<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl Fn(&mut Store, Blocking) -> Result<Option<T>> + Send + 'static,
    ) -> Result<T> {
        let attempt = match self.attempt(&work)? {
            InlineAttempt::InUse => self.attempt_when_returned(&work).await?,
            attempt => attempt,
        };
        let mut taken = match attempt {
            InlineAttempt::Done(done) => return Ok(done),
            InlineAttempt::MustBlock(taken) => taken,
            InlineAttempt::InUse => unreachable!("waited for"),
        };
        let blocking = tokio::task::spawn_blocking(move || {
            let done = taken.store.as_mut().map_or(Ok(None), |store| work(store, Blocking::Yes));
            drop(taken);
            done
        });
        blocking.await.unwrap_or(Ok(None))?.ok_or_else(shut_down)
    }

    fn attempt<T>(
        self: &Arc<Self>,
        work: &impl Fn(&mut Store, Blocking) -> Result<Option<T>>,
    ) -> Result<InlineAttempt<T>> {
        let mut slot = lock_ignoring_poison(&self.store);
        let Some(store) = &mut *slot else { return Ok(InlineAttempt::InUse) };
        Ok(match work(store, Blocking::No)? {
            Some(done) => InlineAttempt::Done(done),
            None => InlineAttempt::MustBlock(Taken { store: slot.take(), from: self.clone() }),
        })
    }

    /// All waiting requests are woken when the connection is back, and one of those that are polled gets it.
    async fn attempt_when_returned<T>(
        self: &Arc<Self>,
        work: &impl Fn(&mut Store, Blocking) -> Result<Option<T>>,
    ) -> Result<InlineAttempt<T>> {
        loop {
            let mut returned = pin!(self.returned.notified());
            // Before the attempt: a connection that comes back in between is noticed.
            returned.as_mut().enable();
            match self.attempt(work)? {
                InlineAttempt::InUse => returned.await,
                attempt => return Ok(attempt),
            }
        }
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        *lock_ignoring_poison(&self.from.store) = self.store.take();
        self.from.returned.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::task::{Context, Waker};
    use std::time::Duration;

    use super::*;
    use crate::engine::{Engine, Filter};
    use crate::engines::Sqlite;

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_request_that_is_not_polled_does_not_keep_the_connection() {
        let folder = tempfile::tempdir().unwrap();
        let engine = Arc::new(Sqlite::open(folder.path().join("locks.db")).unwrap());
        let list = async |engine: &Sqlite| engine.inspect(&Filter::Prefix(String::new())).await;
        // Another process is writing.
        let write_lock = File::open(&engine.shared.location.sessions).unwrap();
        write_lock.lock().unwrap();
        let first = tokio::spawn({
            let engine = engine.clone();
            async move { engine.inspect(&Filter::Prefix(String::new())).await }
        });
        while !is_in_use(&engine) {
            tokio::task::yield_now().await;
        }
        let mut idle = pin!(list(&engine));
        assert!(idle.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        // One request that waits already, and one that arrives when the connection is back.
        let mut behind = pin!(list(&engine));
        assert!(behind.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        write_lock.unlock().unwrap();
        first.await.unwrap().unwrap();
        let kept = "kept by a request that is not polled";
        let limit = Duration::from_secs(10);
        tokio::time::timeout(limit, behind).await.expect(kept).unwrap();
        tokio::time::timeout(limit, list(&engine)).await.expect(kept).unwrap();
        idle.await.unwrap();
    }

    #[test]
    fn a_runtime_that_shuts_down_gives_the_connection_back() {
        let folder = tempfile::tempdir().unwrap();
        let engine = Sqlite::open(folder.path().join("locks.db")).unwrap();
        let write_lock = File::open(&engine.shared.location.sessions).unwrap();
        write_lock.lock().unwrap();
        let filter = Filter::Prefix(String::new());
        let ends = tokio::runtime::Builder::new_current_thread().build().unwrap();
        {
            let mut asked = pin!(engine.inspect(&filter));
            let _entered = ends.enter();
            assert!(asked.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
            assert!(is_in_use(&engine));
        }
        ends.shutdown_background();
        write_lock.unlock().unwrap();
        let stays = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let list = async { tokio::time::timeout(Duration::from_secs(10), engine.inspect(&filter)).await };
        stays.block_on(list).expect("the connection is back").unwrap();
    }

    fn is_in_use(engine: &Sqlite) -> bool {
        lock_ignoring_poison(&engine.store.store).is_none()
    }
}
