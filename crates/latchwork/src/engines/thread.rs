//! A thread of an engine's own, so that user code that blocks every worker cannot end its connections.

#[cfg(any(feature = "mysql", feature = "postgres"))]
use std::future::pending;
#[cfg(any(feature = "mysql", feature = "postgres"))]
use std::time::Duration;

use tokio::runtime::{Builder, Handle};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
#[cfg(any(feature = "mysql", feature = "postgres"))]
use tokio::time::timeout;

/// The thread. It ends with the last of what keeps it alive.
#[derive(Clone)]
pub(super) struct Thread {
    runtime: Handle,
    alive: mpsc::Sender<()>,
}

impl Thread {
    /// # Errors
    /// If the system has no thread or descriptor left.
    pub(super) fn start(name: &str) -> std::io::Result<Self> {
        let (alive, mut ended) = mpsc::channel(1);
        let (sender, made) = std::sync::mpsc::channel();
        // Made over there: a runtime must not be dropped in async code.
        let live = move || {
            let runtime = Builder::new_current_thread().enable_all().build();
            let is_made =
                runtime.as_ref().map(|runtime| runtime.handle().clone()).map_err(|error| error.kind());
            let _ = sender.send(is_made);
            if let Ok(runtime) = runtime {
                let _: Option<()> = runtime.block_on(ended.recv());
            }
        };
        std::thread::Builder::new().name(name.into()).spawn(live)?;
        let runtime = made.recv().map_err(std::io::Error::other)??;
        Ok(Self { runtime, alive })
    }

    /// Its runtime's.
    #[cfg(any(feature = "mysql", feature = "postgres"))]
    pub(super) fn id(&self) -> tokio::runtime::Id {
        self.runtime.id()
    }

    /// Waits here for so long at most. The time is kept there: what nobody waits for any more may go on elsewhere, and the runtime
    /// that it began on may end.
    #[cfg(any(feature = "mysql", feature = "postgres"))]
    pub(super) async fn in_time<T>(&self, limit: Duration, work: impl Future<Output = T>) -> Option<T> {
        let mut limit = self.spawn(async move { timeout(limit, pending::<()>()).await });
        let done = tokio::select! {
            done = work => Some(done),
            _ = &mut limit => None,
        };
        limit.abort();
        done
    }

    /// Does it there. The thread lives for as long as that takes.
    pub(super) fn spawn<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        let alive = self.alive.clone();
        self.runtime.spawn(async move {
            let done = work.await;
            drop(alive);
            done
        })
    }
}
