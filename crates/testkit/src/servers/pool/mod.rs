//! Servers that the cases of one kind use one after the other: some take a second of a core to start, and there are
//! hundreds of cases.
//!
//! Rust never drops what is static, so whoever leases from a pool must call [`end_all`] before the process ends.

#[cfg(test)]
mod tests;

use std::ops::Deref;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Every pool that has ever been asked for a server.
static USED: Mutex<Vec<&'static dyn Ends>> = Mutex::new(Vec::new());

/// What can be pooled. Dropping it ends it, and waits until it is gone.
pub trait Pooled: Send + 'static {
    /// Whether the next case can use it. False also if it does not answer in time.
    fn is_healthy(&self) -> bool;
}

/// Servers of one kind: a static, from which each case leases one for itself.
pub struct Pool<S: Pooled> {
    start: fn() -> S,
    free: Mutex<Vec<S>>,
}

/// A server that nobody else uses now. It goes back to its pool when this is dropped, unless it has become sick or the
/// thread is panicking: then it ends.
pub struct Leased<S: Pooled> {
    pool: &'static Pool<S>,
    server: Option<S>,
}

/// Ends everything pooled when it is dropped, in a panic as well.
#[derive(Debug)]
pub struct EndsAll;

impl<S: Pooled> Pool<S> {
    /// A pool without servers, and how to start one.
    pub const fn new(start: fn() -> S) -> Self {
        Self { start, free: Mutex::new(Vec::new()) }
    }

    /// A server that is free; if there is none, a new one.
    ///
    /// Before one is started, those of other pools that are free end: cases come kind after kind, and a server whose
    /// kind is through would only take memory and time from the others.
    pub fn lease(&'static self) -> Leased<S> {
        self.register();
        // A statement of its own: nobody could give a server back if the lock were kept while one starts.
        let free = lock(&self.free).pop();
        let server = free.unwrap_or_else(|| {
            used().into_iter().filter(|other| !self.is(*other)).for_each(Ends::end_free);
            (self.start)()
        });
        Leased { pool: self, server: Some(server) }
    }

    /// How many servers are free.
    pub fn free(&self) -> usize {
        lock(&self.free).len()
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

/// Ends the servers of all pools that are free. Those that are leased end or come back when they are dropped.
pub fn end_all() {
    used().into_iter().for_each(Ends::end_free);
}

impl<S: Pooled> Deref for Leased<S> {
    type Target = S;

    fn deref(&self) -> &S {
        self.server.as_ref().expect("there until it is dropped")
    }
}

impl<S: Pooled> Drop for Leased<S> {
    fn drop(&mut self) {
        let server = self.server.take().expect("dropped once");
        if !std::thread::panicking() && server.is_healthy() {
            lock(&self.pool.free).push(server);
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
    /// Ends the servers that are free.
    fn end_free(&self);
}

impl<S: Pooled> Ends for Pool<S> {
    fn end_free(&self) {
        let free = std::mem::take(&mut *lock(&self.free));
        drop(free);
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
