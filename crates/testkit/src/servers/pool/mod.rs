//! Servers that the cases of one kind share: some take a second of a core to start, and there are hundreds of
//! cases.
//!
//! Rust never drops statics, so a process that leases from a pool must call [`end_all`] before it ends.

#[cfg(test)]
mod tests;

use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Every pool from which a server was ever leased.
static USED: Mutex<Vec<&'static dyn Ends>> = Mutex::new(Vec::new());

/// A value that can be pooled. Dropping it ends it, and waits until it has ended.
pub trait Pooled: Send + Sync + 'static {
    /// Whether the next case can use it. False also if it does not answer in time.
    fn is_healthy(&self) -> bool;
}

/// One server of a kind, in a static from which each case leases it. Concurrent cases share the server, so
/// each keeps to a part of its own, and cuts off its own clients instead of the server.
pub struct Pool<S: Pooled> {
    start: fn() -> S,
    server: Mutex<Option<Arc<S>>>,
}

/// A leased server, which others may use as well. If the thread panics, later lessees get another server.
pub struct Leased<S: Pooled> {
    pool: &'static Pool<S>,
    server: Arc<S>,
}

/// Ends all pooled servers when it is dropped, in a panic as well.
#[derive(Debug)]
pub struct EndsAll;

impl<S: Pooled> Pool<S> {
    /// A pool without a server, and how to start one.
    pub const fn new(start: fn() -> S) -> Self {
        Self { start, server: Mutex::new(None) }
    }

    /// Returns the server; if there is none, or if it is unhealthy, a new one.
    ///
    /// Before a server is started, unused servers of other pools are ended: the cases of one kind run after
    /// those of another, and a server that is not needed any more would only take memory and time.
    pub fn lease(&'static self) -> Leased<S> {
        self.register();
        // Locked while a server starts, because concurrent lessees need the same one.
        let mut server = lock(&self.server);
        let running = server.take().filter(|running| running.is_healthy()).unwrap_or_else(|| {
            used().into_iter().filter(|other| !self.is(*other)).for_each(Ends::end_unused);
            Arc::new((self.start)())
        });
        *server = Some(running.clone());
        Leased { pool: self, server: running }
    }

    /// Pools register themselves, so that no pool can be forgotten.
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

/// Ends the unused servers of all pools. Call it when no server is leased any more.
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

/// A pool of any type.
trait Ends: Sync {
    /// Ends the server, unless it is leased or about to be.
    fn end_unused(&self);
}

impl<S: Pooled> Ends for Pool<S> {
    fn end_unused(&self) {
        // The owner of the mutex is starting a server, and may be waiting for ours to end.
        let Ok(mut server) = self.server.try_lock() else { return };
        drop(server.take_if(|server| Arc::strong_count(server) == 1));
    }
}

/// A copy: a server takes a while to end, and a pool that only registers should not wait for that.
fn used() -> Vec<&'static dyn Ends> {
    lock(&USED).clone()
}

/// A server that fails to start or to end must not keep the others from ending.
fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
