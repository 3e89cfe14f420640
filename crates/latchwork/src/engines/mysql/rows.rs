//! The lock tables of a MySQL or MariaDB database, as the algorithm for rows uses them.

use std::sync::Arc;

use super::cells::MysqlCells;
use super::options::{Options, Scheme};
use super::pool::{MysqlTransaction, RuntimePool};
use super::{Mysql, MysqlInsert, MysqlSession};
use crate::engine::{ClaimId, SharedCells};
use crate::engines::sql::{Query, QueryResult, RowStore};
use crate::engines::waiter_table::{Notification, WaiterTable};
use crate::net::per_runtime::PerRuntime;
use crate::{Guarantees, Result};

/// One client's connections to a database with lock tables.
pub(super) struct MysqlRows {
    options: Arc<Options>,
    pools: PerRuntime<RuntimePool>,
    /// The waiting claims. The server sends them no notifications.
    waiters: WaiterTable,
}

impl MysqlRows {
    /// Connects with the first statement.
    pub(super) fn new(options: Arc<Options>) -> Self {
        Self { options, pools: PerRuntime::default(), waiters: WaiterTable::default() }
    }

    pub(super) async fn connect(options: Options) -> Result<Self> {
        let rows = Self::new(Arc::new(options));
        rows.pool().await?.check_clock().await?;
        Ok(rows)
    }

    pub(super) async fn pool(&self) -> Result<Arc<RuntimePool>> {
        self.pools.get(|| RuntimePool::open(self.options.clone())).await
    }
}

impl RowStore for MysqlRows {
    type Transaction = MysqlTransaction;
    const INSERTS_IN_ONE_STATEMENT: bool = false;

    fn promises(&self) -> Guarantees {
        match self.options.scheme {
            Scheme::Row => Mysql::promises(),
            Scheme::Insert => MysqlInsert::promises(),
            Scheme::Session => MysqlSession::promises(),
        }
    }

    async fn channel(&self) -> Result<Option<Vec<u8>>> {
        Ok(None)
    }

    async fn next_notification(&self, id: ClaimId) -> Notification {
        self.waiters.next(id).await
    }

    fn expect(&self, id: ClaimId) -> bool {
        self.waiters.expect(id)
    }

    fn forget(&self, id: ClaimId) {
        self.waiters.forget(id);
    }

    async fn run(&self, queries: Vec<Query>) -> Result<Vec<QueryResult>> {
        self.pool().await?.run(&queries).await
    }

    async fn begin(&self, queries: Vec<Query>) -> Result<(MysqlTransaction, Vec<QueryResult>)> {
        self.pool().await?.begin(&queries).await
    }

    fn fork(&self) -> Self {
        Self::new(self.options.clone())
    }

    fn cells(self: Arc<Self>) -> SharedCells {
        SharedCells::new(MysqlCells(self))
    }
}
