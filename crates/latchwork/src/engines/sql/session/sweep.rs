//! Forgets tokens of names that were not used for a day. A lock may be held meanwhile: its holder knows its
//! token, and the next token is above the floor.

use std::sync::{Arc, Weak};
use std::time::Duration;

use super::leased_connection::LeasedConnection;
use super::session_pool::SessionPool;
use super::{SessionConnection, SessionStore};
use crate::engines::sql::sweep::{SweepTable, sweep_if_due};

/// How long the check whether a sweep is due may take.
const CHECK_LIMIT: Duration = Duration::from_secs(5);

/// The table of tokens.
struct FenceTable<S: SessionStore> {
    store: S::Tokens,
    pool: Weak<SessionPool<S>>,
}

impl<S: SessionStore> SweepTable for FenceTable<S> {
    type Store = S::Tokens;

    fn store(&self) -> &S::Tokens {
        &self.store
    }

    fn is_needed(&self) -> bool {
        self.pool.strong_count() > 0
    }
}

impl<S: SessionStore> SessionPool<S> {
    /// Sweeps in the background if a sweep is due. The check uses an open connection. The sweep itself opens
    /// another one, so that no lock waits for it.
    pub(super) fn sweep_if_due(self: &Arc<Self>, leased: Arc<LeasedConnection<S::Connection>>) {
        let table = FenceTable { store: self.store.tokens(), pool: Arc::downgrade(self) };
        let (thread, timer) = (self.thread.clone(), self.thread.clone());
        drop(thread.spawn(async move {
            let check = leased.request(leased.connection.is_sweep_due());
            let is_due = timer.in_time(CHECK_LIMIT, check).await;
            drop(leased);
            if let Some(Ok(true)) = is_due {
                sweep_if_due(table).await;
            }
        }));
    }
}
