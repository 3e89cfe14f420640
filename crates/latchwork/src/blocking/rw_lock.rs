//! Readers and writers, for code without async.

use super::Lock;
use super::runtime_thread::RuntimeThread;

/// As [`latchwork::RwLock`](crate::RwLock), with calls that block.
#[derive(Clone, Debug)]
#[must_use = "nothing is locked before `read` or `write` is acquired"]
pub struct RwLock {
    inner: crate::RwLock,
    thread: RuntimeThread,
}

impl RwLock {
    pub(super) fn new(inner: crate::RwLock, thread: RuntimeThread) -> Self {
        Self { inner, thread }
    }

    /// The side that many readers may hold at once.
    pub fn read(&self) -> Lock {
        Lock::new(self.inner.read(), self.thread.clone())
    }

    /// The side that one writer holds alone.
    pub fn write(&self) -> Lock {
        Lock::new(self.inner.write(), self.thread.clone())
    }
}
