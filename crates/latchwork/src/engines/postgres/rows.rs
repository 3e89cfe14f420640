//! The lock tables of a PostgreSQL database, as the algorithm for rows uses them.

use std::sync::Arc;

use tokio::sync::OnceCell;

use super::cells::PostgresCells;
use super::options::{Options, Scheme};
use super::pool::{PostgresTransaction, RuntimePool};
use super::{PostgresInsert, PostgresSession, pooler};
use crate::engine::{ClaimId, SharedCells};
use crate::engines::sql::{self, Query, QueryResult, RowStore};
use crate::engines::waiter_table::{Notification, WaiterTable};
use crate::net::per_runtime::PerRuntime;
use crate::{Guarantees, Result, clock};

/// One client's connections to a database with lock tables.
pub(super) struct PostgresRows {
    pub(super) shared: Arc<Shared>,
    pools: PerRuntime<RuntimePool>,
}

/// The state that all connections of a client share.
pub(super) struct Shared {
    pub(super) options: Arc<Options>,
    pub(super) waiters: Arc<WaiterTable>,
    /// The channel on which this client listens.
    pub(super) channel: String,
    /// Whether a pooler is in between, once that is known.
    pooled: OnceCell<bool>,
}

impl Shared {
    pub(super) async fn is_pooled(
        &self,
        client: &tokio_postgres::Client,
    ) -> std::result::Result<bool, tokio_postgres::Error> {
        let pooled = self.pooled.get_or_try_init(|| async {
            match self.options.pooler {
                Some(pooler) => Ok(pooler),
                None => pooler::is_between(client).await,
            }
        });
        pooled.await.copied()
    }

    /// Whether a pooler is in between. Known since the first connection, without which there is no client.
    pub(super) fn is_known_pooled(&self) -> bool {
        self.pooled.get().is_some_and(|pooled| *pooled)
    }
}

impl PostgresRows {
    /// Connects with the first statement.
    pub(super) fn new(options: Arc<Options>, pooled: OnceCell<bool>) -> Self {
        let number = u64::from_be_bytes(clock::random_bytes());
        let channel = format!("latchwork_{number:016x}");
        let shared = Shared { options, waiters: Arc::default(), channel, pooled };
        Self { shared: Arc::new(shared), pools: PerRuntime::default() }
    }

    pub(super) async fn connect(options: Options) -> Result<Self> {
        let rows = Self::new(Arc::new(options), OnceCell::new());
        rows.pool().await?;
        Ok(rows)
    }

    pub(super) async fn pool(&self) -> Result<Arc<RuntimePool>> {
        self.pools.get(|| RuntimePool::open(self.shared.clone())).await
    }
}

impl RowStore for PostgresRows {
    type Transaction = PostgresTransaction;
    const INSERTS_IN_ONE_STATEMENT: bool = true;

    fn promises(&self) -> Guarantees {
        match self.shared.options.scheme {
            Scheme::Row => sql::promises("postgres", !self.shared.is_known_pooled()),
            Scheme::Insert if self.shared.is_known_pooled() => sql::promises_of_insert("postgres-insert"),
            Scheme::Insert => PostgresInsert::promises(),
            Scheme::Session => PostgresSession::promises(),
        }
    }

    async fn channel(&self) -> Result<Option<Vec<u8>>> {
        if self.shared.is_known_pooled() {
            return Ok(None);
        }
        self.pool().await?.listen().await?;
        Ok(Some(self.shared.channel.clone().into_bytes()))
    }

    async fn next_notification(&self, id: ClaimId) -> Notification {
        self.shared.waiters.next(id).await
    }

    fn expect(&self, id: ClaimId) -> bool {
        self.shared.waiters.expect(id)
    }

    fn forget(&self, id: ClaimId) {
        self.shared.waiters.forget(id);
    }

    async fn run(&self, queries: Vec<Query>) -> Result<Vec<QueryResult>> {
        self.pool().await?.run(&queries).await
    }

    async fn begin(&self, queries: Vec<Query>) -> Result<(PostgresTransaction, Vec<QueryResult>)> {
        self.pool().await?.begin(&queries).await
    }

    fn fork(&self) -> Self {
        Self { shared: self.shared.clone(), pools: PerRuntime::default() }
    }

    fn cells(self: Arc<Self>) -> SharedCells {
        SharedCells::new(PostgresCells(self))
    }
}
