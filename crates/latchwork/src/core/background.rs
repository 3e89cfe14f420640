//! Where work goes on when nobody awaits it: the caller's runtime, or a thread of our own where there is none.

use std::future::Future;
use std::sync::{Arc, OnceLock};

use tokio::runtime::{Builder, Handle};
use tokio::sync::Notify;

/// Starts tasks, and the thread of a client's own once something needs it.
#[derive(Default)]
pub(crate) struct Background {
    thread: OnceLock<Handle>,
    stop: Arc<Notify>,
}

impl Background {
    /// Runs `work` on the caller's runtime if there is one, else on the client's own thread.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        match Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn(work)),
            Err(_) => drop(self.thread().spawn(work)),
        }
    }

    /// The client's own thread with its small runtime, so that blocked user code cannot stop what runs there.
    ///
    /// It ends with the client: tasks on it hold what they need, and with it the client, until they are done.
    pub(crate) fn thread(&self) -> &Handle {
        self.thread.get_or_init(|| {
            let runtime = Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime needs a few descriptors");
            let (handle, stop) = (runtime.handle().clone(), self.stop.clone());
            std::thread::Builder::new()
                .name("latch-keeper".into())
                .spawn(move || runtime.block_on(stop.notified()))
                .expect("the system can start one more thread");
            handle
        })
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.stop.notify_one();
    }
}
