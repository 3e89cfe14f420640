//! A lock split into segments, for code without async.

use super::runtime_thread::RuntimeThread;
use super::{Guard, Lock};
use crate::forward_options::forward_options;
use crate::{Error, Held, Result};

/// As [`latchwork::StripedLock`](crate::StripedLock), with calls that block.
#[derive(Clone, Debug)]
#[must_use = "nothing is locked before a segment is acquired"]
pub struct StripedLock {
    inner: crate::StripedLock,
    thread: RuntimeThread,
}

impl StripedLock {
    pub(super) fn new(inner: crate::StripedLock, thread: RuntimeThread) -> Self {
        Self { inner, thread }
    }

    forward_options! { all, }

    /// As [`StripedLock::segment_of`](crate::StripedLock::segment_of).
    pub fn segment_of(&self, key: impl AsRef<[u8]>) -> u32 {
        self.inner.segment_of(key)
    }

    /// As [`StripedLock::segment`](crate::StripedLock::segment).
    pub fn segment(&self, number: u32) -> Lock {
        Lock::new(self.inner.segment(number), self.thread.clone())
    }

    /// As [`StripedLock::for_key`](crate::StripedLock::for_key).
    pub fn for_key(&self, key: impl AsRef<[u8]>) -> Lock {
        Lock::new(self.inner.for_key(key), self.thread.clone())
    }

    /// Any segment that is free.
    pub fn any(&self) -> AnySegment {
        AnySegment { inner: self.inner.any(), thread: self.thread.clone() }
    }
}

/// As [`latchwork::AnySegment`](crate::AnySegment), with calls that block.
#[derive(Clone, Debug)]
#[must_use = "nothing is locked before `acquire` or `try_acquire`"]
pub struct AnySegment {
    inner: crate::AnySegment,
    thread: RuntimeThread,
}

impl AnySegment {
    /// Acquires a free segment, as [`AnySegment::try_acquire`](crate::AnySegment::try_acquire).
    ///
    /// # Errors
    /// Those of the async method.
    pub fn try_acquire(&self) -> Result<Option<(u32, Guard)>> {
        let acquired = self.thread.block_on(self.inner.try_acquire())?;
        Ok(acquired.map(|(number, guard)| (number, Guard::new(guard, self.thread.clone()))))
    }

    /// Acquires a segment, and waits for one, as [`AnySegment::acquire`](crate::AnySegment::acquire).
    ///
    /// # Errors
    /// Those of the async method.
    ///
    /// # Examples
    /// ```
    /// # fn main() -> latchwork::Result<()> {
    /// let client = latchwork::blocking::connect("memory:")?;
    /// let (number, guard) = client.striped_lock("items", 2).any().acquire()?;
    /// assert_eq!(guard.name().as_str(), format!("items/{number}"));
    /// # Ok(()) }
    /// ```
    pub fn acquire(&self) -> Result<(u32, Guard)> {
        let (number, guard) = self.thread.block_on(self.inner.acquire())?;
        Ok((number, Guard::new(guard, self.thread.clone())))
    }

    /// Runs `work` with the number of a segment while that segment is held, as [`Lock::run`].
    ///
    /// # Errors
    /// Those of the async method.
    pub fn run<T, E: From<Error>>(&self, work: impl FnOnce(u32, Held) -> Result<T, E>) -> Result<T, E> {
        let (number, guard) = self.acquire()?;
        guard.run(|held| work(number, held))
    }
}
