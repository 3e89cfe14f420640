//! Servers that the cases of one kind share: some take a second of a core to start, and there are hundreds of cases.
//!
//! Rust never drops what is static, so whoever leases from a pool must call [`end_all`] before the process ends.

#[cfg(test)]
mod tests;

use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Every pool that has ever been asked for a server.
static USED: Mutex<Vec<&'static dyn Ends>> = Mutex::new(Vec::new());

/// What can be pooled. Dropping it ends it, and waits until it is gone.
pub trait Pooled: Send + Sync + 'static {
    /// Whether the next case can use it. False also if it does not answer in time.
    fn is_healthy(&self) -> bool;
}

/// One server of a kind: a static, which each case leases it from. Cases that run side by side get the same one, so they
/// keep to a part of their own, and cut off their own clients instead of the server.
pub struct Pool<S: Pooled> {
    start: fn() -> S,
    server: Mutex<Option<Arc<S>>>,
}

/// A server that others may use as well. When the thread panics, those who come later get another.
pub struct Leased<S: Pooled> {
    pool: &'static Pool<S>,
    server: Arc<S>,
}

/// Ends everything pooled when it is dropped, in a panic as well.
#[derive(Debug)]
pub struct EndsAll;

impl<S: Pooled> Pool<S> {
    /// A pool without a server, and how to start one.
    pub const fn new(start: fn() -> S) -> Self {
        Self { start, server: Mutex::new(None) }
    }

    /// The server; if there is none, or if it is sick, a new one.
    ///
    /// Before one is started, those of other pools that nobody uses end: cases come kind after kind, and a server whose
    /// kind is through would only take memory and time from the others.
    pub fn lease(&'static self) -> Leased<S> {
        self.register();
        // Kept while one starts: whoever comes in the meantime wants the same one.
        let mut server = lock(&self.server);
        let running = server.take().filter(|running| running.is_healthy()).unwrap_or_else(|| {
            used().into_iter().filter(|other| !self.is(*other)).for_each(Ends::end_unused);
            Arc::new((self.start)())
        });
        *server = Some(running.clone());
        Leased { pool: self, server: running }
    }

    /// Pools register themselves, so that nobody can forget to.
    fn register(&'static self) {
        let mut used = lock(&USED);
        if !used.iter().any(|known| self.is(*known)) {
            used.push(self);
        }
    }

    fn is(&self, other: &dyn Ends) -> bool {
        std::ptr::addr_eq(self, other)
    }
}

/// Ends the servers of all pools that nobody uses. Call it when nothing is leased any more.
pub fn end_all() {
    used().into_iter().for_each(Ends::end_unused);
}

impl<S: Pooled> Deref for Leased<S> {
    type Target = S;

    fn deref(&self) -> &S {
        &self.server
    }
}

impl<S: Pooled> Drop for Leased<S> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        let mut current = lock(&self.pool.server);
        if current.as_ref().is_some_and(|current| Arc::ptr_eq(current, &self.server)) {
            *current = None;
        }
    }
}

impl Drop for EndsAll {
    fn drop(&mut self) {
        end_all();
    }
}

/// A pool, whatever is in it.
trait Ends: Sync {
    /// Ends the server, unless somebody uses it or is about to.
    fn end_unused(&self);
}

impl<S: Pooled> Ends for Pool<S> {
    fn end_unused(&self) {
        // Whoever has it locked is starting one, and may be waiting for ours to end.
        let Ok(mut server) = self.server.try_lock() else { return };
        drop(server.take_if(|server| Arc::strong_count(server) == 1));
    }
}

/// A copy: a server takes its time to end, and nobody should wait for that who only wants to register.
fn used() -> Vec<&'static dyn Ends> {
    lock(&USED).clone()
}

/// A server that fails to start or to end must not keep the others from ending.
fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
