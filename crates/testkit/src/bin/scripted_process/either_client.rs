//! Clients and guards of either API, blocking or async.

use std::time::Duration;

use latchwork::engine::{Filter, LockState};
use latchwork::{Held, Loss, Result, blocking};

/// A client of either kind.
pub(super) enum EitherClient {
    /// Inside a runtime.
    Async(latchwork::Client),
    /// Outside a runtime.
    Blocking(blocking::Client),
}

/// A guard of either kind.
pub(super) enum EitherGuard {
    /// Inside a runtime.
    Async(latchwork::Guard),
    /// Outside a runtime.
    Blocking(blocking::Guard),
}

impl EitherClient {
    /// Connects inside a runtime.
    pub(super) async fn connect_async(url: &str) -> Self {
        Self::Async(latchwork::connect(url).await.expect("the engine accepts the connection"))
    }

    /// Connects outside a runtime.
    pub(super) async fn connect_blocking(url: &str) -> Self {
        Self::Blocking(blocking::connect(url).expect("the engine accepts the connection"))
    }

    /// Acquires a lock if it is free.
    pub(super) async fn take(&self, name: &str, ttl: Duration) -> Result<Option<EitherGuard>> {
        match self {
            Self::Async(client) => {
                Ok(client.lock(name).ttl(ttl).try_acquire().await?.map(EitherGuard::Async))
            }
            Self::Blocking(client) => {
                Ok(client.lock(name).ttl(ttl).try_acquire()?.map(EitherGuard::Blocking))
            }
        }
    }

    /// The holders and waiters of all locks.
    pub(super) async fn inspect(&self) -> Result<Vec<LockState>> {
        let all = Filter::Prefix(String::new());
        match self {
            Self::Async(client) => client.inspect(&all).await,
            Self::Blocking(client) => client.inspect(&all),
        }
    }

    /// Waits for background work.
    pub(super) async fn close(&self) -> Result<()> {
        match self {
            Self::Async(client) => client.close().await,
            Self::Blocking(client) => client.close(),
        }
    }
}

impl EitherGuard {
    /// The state of the guard.
    pub(super) fn held(&self) -> &Held {
        match self {
            Self::Async(guard) => guard,
            Self::Blocking(guard) => guard,
        }
    }

    /// Waits for the loss.
    pub(super) async fn lost(&self, within: Duration) -> Option<Loss> {
        match self {
            Self::Async(guard) => tokio::time::timeout(within, guard.lost()).await.ok(),
            Self::Blocking(guard) => guard.lost(within),
        }
    }

    /// Releases the lock.
    pub(super) async fn release(self) -> Result<()> {
        match self {
            Self::Async(guard) => guard.release().await,
            Self::Blocking(guard) => guard.release(),
        }
    }
}
