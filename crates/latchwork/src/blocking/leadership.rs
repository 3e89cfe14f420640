//! A leadership, for code without async.

use std::ops::Deref;

use super::Guard;
use super::runtime_thread::RuntimeThread;
use crate::{Error, Held, Result};

/// As [`latchwork::Leadership`](crate::Leadership), with calls that block. Derefs to the guard of its lock.
#[derive(Debug)]
#[must_use = "a leader that is dropped resigns"]
pub struct Leadership {
    guard: Guard,
    term: u64,
}

impl Leadership {
    pub(super) fn new(inner: crate::Leadership, thread: RuntimeThread) -> Self {
        Self { term: inner.term(), guard: Guard::new(inner.into_guard(), thread) }
    }

    /// As [`Leadership::term`](crate::Leadership::term).
    pub fn term(&self) -> u64 {
        self.term
    }

    /// Runs `work` while it leads, as [`Lock::run`](super::Lock::run).
    ///
    /// # Errors
    /// Those of the async method.
    ///
    /// # Examples
    /// ```
    /// # fn main() -> latchwork::Result<()> {
    /// let client = latchwork::blocking::connect("memory:")?;
    /// let leading = client.election("main").campaign("one")?;
    /// assert!(leading.run(|held| Ok::<_, latchwork::Error>(held.is_certain()))?);
    /// # Ok(()) }
    /// ```
    pub fn run<T, E: From<Error>>(self, work: impl FnOnce(Held) -> Result<T, E>) -> Result<T, E> {
        self.guard.run(work)
    }

    /// Resigns, so that the next candidate leads, as [`Leadership::resign`](crate::Leadership::resign).
    ///
    /// # Errors
    /// Those of the async method.
    pub fn resign(self) -> Result<()> {
        self.guard.release()
    }

    /// The lock of the election, for code that works with guards.
    pub fn into_guard(self) -> Guard {
        self.guard
    }
}

impl Deref for Leadership {
    type Target = Guard;

    fn deref(&self) -> &Guard {
        &self.guard
    }
}
