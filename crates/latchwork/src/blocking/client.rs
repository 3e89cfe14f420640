//! A client for code without async.

use std::time::Duration;

use super::runtime_thread::RuntimeThread;
use super::{Cell, Election, Lock, MultiLock, RwLock, StripedLock};
use crate::engine::{Engine, Filter, LockState, Revoke, Revoked};
use crate::{Guarantees, Result};

/// As [`latchwork::Client`](crate::Client), with calls that block.
#[derive(Clone)]
pub struct Client {
    inner: crate::Client,
    thread: RuntimeThread,
}

/// Opens a client by URL, as [`latchwork::connect`](crate::connect) does.
///
/// # Errors
/// Those of the async function, and [`ErrorKind::Unreachable`](crate::ErrorKind::Unreachable) if no thread
/// can be started.
pub fn connect(url: &str) -> Result<Client> {
    let thread = RuntimeThread::of_this_process()?;
    let inner = thread.block_on(crate::connect(url))?;
    Ok(Client { inner, thread })
}

impl Client {
    /// A client of an engine, as [`Client::new`](crate::Client::new).
    ///
    /// # Errors
    /// [`ErrorKind::Unreachable`](crate::ErrorKind::Unreachable) if no thread can be started.
    pub fn new(engine: impl Engine) -> Result<Self> {
        let thread = RuntimeThread::of_this_process()?;
        let inner = {
            let _inside = thread.enter();
            crate::Client::new(engine)
        };
        Ok(Self { inner, thread })
    }

    /// As [`Client::with_note`](crate::Client::with_note).
    pub fn with_note(mut self, text: &str) -> Self {
        self.inner = self.inner.with_note(text);
        self
    }

    /// As [`Client::with_whole_note`](crate::Client::with_whole_note).
    pub fn with_whole_note(mut self, text: &str) -> Self {
        self.inner = self.inner.with_whole_note(text);
        self
    }

    /// As [`Client::with_drop_timeout`](crate::Client::with_drop_timeout).
    pub fn with_drop_timeout(mut self, timeout: Duration) -> Self {
        self.inner = self.inner.with_drop_timeout(timeout);
        self
    }

    /// Describes a lock. Nothing is sent before it is acquired.
    pub fn lock(&self, name: impl AsRef<str>) -> Lock {
        Lock::new(self.inner.lock(name), self.thread.clone())
    }

    /// As [`Client::rw_lock`](crate::Client::rw_lock).
    pub fn rw_lock(&self, name: impl AsRef<str>) -> RwLock {
        RwLock::new(self.inner.rw_lock(name), self.thread.clone())
    }

    /// As [`Client::semaphore`](crate::Client::semaphore).
    pub fn semaphore(&self, name: impl AsRef<str>, permits: u32) -> Lock {
        Lock::new(self.inner.semaphore(name, permits), self.thread.clone())
    }

    /// As [`Client::multi_lock`](crate::Client::multi_lock).
    pub fn multi_lock(&self, names: impl IntoIterator<Item = impl AsRef<str>>) -> MultiLock {
        MultiLock::new(self.inner.multi_lock(names), self.thread.clone())
    }

    /// As [`Client::striped_lock`](crate::Client::striped_lock).
    pub fn striped_lock(&self, name: impl AsRef<str>, segments: u32) -> StripedLock {
        StripedLock::new(self.inner.striped_lock(name, segments), self.thread.clone())
    }

    /// As [`Client::cell`](crate::Client::cell).
    pub fn cell(&self, name: impl AsRef<str>) -> Cell {
        Cell::new(self.inner.cell(name), self.thread.clone())
    }

    /// As [`Client::election`](crate::Client::election).
    pub fn election(&self, name: impl AsRef<str>) -> Election {
        Election::new(self.inner.election(name), self.thread.clone())
    }

    /// The promises of the engine.
    pub fn guarantees(&self) -> Guarantees {
        self.inner.guarantees()
    }

    /// The holders and waiters of the matching locks, as [`Client::inspect`](crate::Client::inspect).
    ///
    /// # Errors
    /// The errors of the engine.
    pub fn inspect(&self, filter: &Filter) -> Result<Vec<LockState>> {
        self.thread.block_on(self.inner.inspect(filter))
    }

    /// Takes a lock away, as [`Client::revoke`](crate::Client::revoke).
    ///
    /// # Errors
    /// The errors of the engine.
    pub fn revoke(&self, state: &LockState, how: Revoke) -> Result<Revoked> {
        self.thread.block_on(self.inner.revoke(state, how))
    }

    /// Takes a lock away, with a reason, as [`Client::revoke_because`](crate::Client::revoke_because).
    ///
    /// # Errors
    /// The errors of the engine.
    pub fn revoke_because(&self, state: &LockState, how: Revoke, reason: &str) -> Result<Revoked> {
        self.thread.block_on(self.inner.revoke_because(state, how, reason))
    }

    /// Waits until the background work is done, as [`Client::close`](crate::Client::close).
    ///
    /// # Errors
    /// Those of the async method.
    pub fn close(&self) -> Result<()> {
        self.thread.block_on(self.inner.close())
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.inner.fmt(f)
    }
}
