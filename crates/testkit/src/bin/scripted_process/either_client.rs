//! One way of locking, blocking or not.

use std::time::Duration;

use latchwork::engine::{Filter, LockState};
use latchwork::{Held, Loss, Result, blocking};

/// A client of either kind.
pub(super) enum EitherClient {
    /// Inside a runtime.
    Async(latchwork::Client),
    /// In none.
    Blocking(blocking::Client),
}

/// A guard of either kind.
pub(super) enum EitherGuard {
    /// Inside a runtime.
    Async(latchwork::Guard),
    /// In none.
    Blocking(blocking::Guard),
}

impl EitherClient {
    /// Connects inside a runtime.
    pub(super) async fn connect_async(url: &str) -> Self {
        Self::Async(latchwork::connect(url).await.expect("the engine is there"))
    }

    /// Connects without one.
    pub(super) async fn connect_blocking(url: &str) -> Self {
        Self::Blocking(blocking::connect(url).expect("the engine is there"))
    }

    /// Takes a lock if it is free.
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

    /// Who holds and who waits, of all locks.
    pub(super) async fn inspect(&self) -> Result<Vec<LockState>> {
        let all = Filter::Prefix(String::new());
        match self {
            Self::Async(client) => client.inspect(&all).await,
            Self::Blocking(client) => client.inspect(&all),
        }
    }

    /// Waits for what goes on in the background.
    pub(super) async fn close(&self) -> Result<()> {
        match self {
            Self::Async(client) => client.close().await,
            Self::Blocking(client) => client.close(),
        }
    }
}

impl EitherGuard {
    /// What can be known of it.
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

    /// Gives it back.
    pub(super) async fn release(self) -> Result<()> {
        match self {
            Self::Async(guard) => guard.release().await,
            Self::Blocking(guard) => guard.release(),
        }
    }
}
