//! One connection per runtime: its read task runs only while its runtime is driven, and ends with it.

use std::future::Future;
use std::sync::{Arc, Mutex};

use tokio::runtime::{self, Handle};

use crate::Result;
use crate::poison::lock_ignoring_poison;

/// A connection that stays closed once it is closed.
pub(crate) trait Closable {
    /// Whether every request would fail.
    fn is_closed(&self) -> bool;
}

/// The connections of one client, one for each of its runtimes.
pub(crate) struct PerRuntime<T> {
    /// Few, so not a map.
    slots: Mutex<Vec<(runtime::Id, RuntimeSlot<T>)>>,
}

/// The connection of a runtime, and the lock under which it is opened.
struct RuntimeSlot<T> {
    connection: Option<Arc<T>>,
    opening: Arc<tokio::sync::Mutex<()>>,
}

impl<T> Default for PerRuntime<T> {
    fn default() -> Self {
        Self { slots: Mutex::default() }
    }
}

impl<T: Closable> PerRuntime<T> {
    /// The connection of this runtime, opened if it has none that works.
    ///
    /// # Errors
    /// Those of `open`. Nothing else was sent then.
    pub(crate) async fn get<F>(&self, open: impl FnOnce() -> F) -> Result<Arc<T>>
    where
        F: Future<Output = Result<T>>,
    {
        let runtime = Handle::current().id();
        match self.working(runtime) {
            Some(connection) => Ok(connection),
            // Boxed: only the first request needs the size of this future.
            None => Box::pin(self.open(runtime, open)).await,
        }
    }

    async fn open<F>(&self, runtime: runtime::Id, open: impl FnOnce() -> F) -> Result<Arc<T>>
    where
        F: Future<Output = Result<T>>,
    {
        let opening = self.opening(runtime);
        let _turn = opening.lock().await;
        if let Some(connection) = self.working(runtime) {
            return Ok(connection); // Another task was faster.
        }
        let connection = Arc::new(open().await?);
        if let Some((_, slot)) = lock_ignoring_poison(&self.slots).iter_mut().find(|(id, _)| *id == runtime) {
            slot.connection = Some(connection.clone());
        }
        Ok(connection)
    }

    fn opening(&self, runtime: runtime::Id) -> Arc<tokio::sync::Mutex<()>> {
        let mut slots = lock_ignoring_poison(&self.slots);
        // Before the attempt, which may fail or be cancelled. A runtime that has ended has no open connection
        // and no task that opens one.
        slots.retain(|(id, slot)| {
            *id == runtime || slot.working().is_some() || Arc::strong_count(&slot.opening) > 1
        });
        if let Some((_, slot)) = slots.iter().find(|(id, _)| *id == runtime) {
            return slot.opening.clone();
        }
        let opening = Arc::<tokio::sync::Mutex<()>>::default();
        slots.push((runtime, RuntimeSlot { connection: None, opening: opening.clone() }));
        opening
    }

    fn working(&self, runtime: runtime::Id) -> Option<Arc<T>> {
        lock_ignoring_poison(&self.slots).iter().find(|(id, _)| *id == runtime)?.1.working().cloned()
    }
}

impl<T: Closable> RuntimeSlot<T> {
    fn working(&self) -> Option<&Arc<T>> {
        self.connection.as_ref().filter(|connection| !connection.is_closed())
    }
}

#[cfg(test)]
mod tests {
    use tokio::runtime::Builder;

    use super::*;
    use crate::{Error, ErrorKind};

    struct Open;

    impl Closable for Open {
        fn is_closed(&self) -> bool {
            false
        }
    }

    #[test]
    fn runtimes_that_ended_are_forgotten_while_nobody_can_be_reached() {
        let connections = PerRuntime::<Open>::default();
        let is_down = || async { Err(Error::new(ErrorKind::Unreachable, "nobody answers")) };
        for _ in 0..100 {
            let runtime = Builder::new_current_thread().build().expect("a runtime");
            assert!(runtime.block_on(connections.get(is_down)).is_err());
        }
        assert!(
            lock_ignoring_poison(&connections.slots).len() <= 1,
            "{} runtimes are kept",
            lock_ignoring_poison(&connections.slots).len()
        );
    }

    #[test]
    fn a_runtime_that_opens_a_connection_is_not_forgotten_meanwhile() {
        let connections = PerRuntime::<Open>::default();
        let [one, other] = [(); 2].map(|()| Builder::new_current_thread().build().expect("a runtime"));
        one.block_on(connections.get(|| async {
            let opened = std::thread::scope(|scope| {
                scope.spawn(|| other.block_on(connections.get(|| async { Ok(Open) })).is_ok()).join()
            });
            assert!(opened.expect("no panic"));
            Ok(Open)
        }))
        .expect("opened");
        let unused = || async { Err(Error::new(ErrorKind::Unreachable, "it has one")) };
        assert!(
            one.block_on(connections.get(unused)).is_ok() && other.block_on(connections.get(unused)).is_ok()
        );
    }
}
