//! A runtime on a thread of its own. Connections that must survive user code which blocks every worker live
//! there.

#[cfg(any(feature = "mysql", feature = "postgres"))]
use std::future::pending;
#[cfg(any(feature = "mysql", feature = "postgres"))]
use std::time::Duration;

use tokio::runtime::{Builder, Handle};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
#[cfg(any(feature = "mysql", feature = "postgres"))]
use tokio::time::timeout;

/// The thread ends when the last clone of this and the last spawned task are gone.
#[derive(Clone)]
pub(crate) struct OwnThread {
    runtime: Handle,
    alive: mpsc::Sender<()>,
}

impl OwnThread {
    /// # Errors
    /// If the system has no thread or descriptor left.
    pub(crate) fn start(name: &str) -> std::io::Result<Self> {
        let (alive, mut ended) = mpsc::channel(1);
        let (sender, made) = std::sync::mpsc::channel();
        // Built on that thread: a runtime must not be dropped in async code.
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

    /// The id of its runtime.
    #[cfg(any(feature = "mysql", feature = "postgres"))]
    pub(crate) fn id(&self) -> tokio::runtime::Id {
        self.runtime.id()
    }

    /// Runs `work` here, for at most `limit`. The timer is on that thread, because the runtime of the caller
    /// may end while `work` continues elsewhere.
    #[cfg(any(feature = "mysql", feature = "postgres"))]
    pub(crate) async fn in_time<T>(&self, limit: Duration, work: impl Future<Output = T>) -> Option<T> {
        let mut limit = self.spawn(async move { timeout(limit, pending::<()>()).await });
        let done = tokio::select! {
            done = work => Some(done),
            _ = &mut limit => None,
        };
        limit.abort();
        done
    }

    /// Spawns `work` on that thread, which lives until it is done.
    pub(crate) fn spawn<T: Send + 'static>(
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
