//! The connections of one runtime. Statements share one; a transaction has one to itself for a moment.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};

use super::cells::CellStatement;
use super::options::Options;
use super::prepared::PreparedConnection;
use super::wire::Reply;
use crate::engines::sql::{Query, QueryResult, SqlValue, Transaction};
use crate::net::per_runtime;
use crate::{Effect, Result};

/// The maximum number of connections of one client on one runtime. Most clients have one: others are opened
/// when a statement is to be sent while all are in a transaction.
const MAX_CONNECTIONS: usize = 4;

/// Statements hold it shared, transactions and opening exclusively, so that no statement is sent into the
/// transaction of another task.
type PooledConnection = Arc<RwLock<Option<PreparedConnection>>>;

/// The connections of one runtime.
pub(super) struct RuntimePool {
    connections: [PooledConnection; MAX_CONNECTIONS],
    /// The connection to wait for next, if all are taken.
    next: AtomicUsize,
    options: Arc<Options>,
}

impl per_runtime::Closable for RuntimePool {
    /// A first connection that cannot be looked at is in use.
    fn is_closed(&self) -> bool {
        self.connections[0].try_read().is_ok_and(|first| !is_usable(&first))
    }
}

fn is_usable(connection: &Option<PreparedConnection>) -> bool {
    connection.as_ref().is_some_and(|connection| !connection.is_closed())
}

impl RuntimePool {
    pub(super) async fn open(options: Arc<Options>) -> Result<Self> {
        let first = PreparedConnection::open(options.clone()).await?;
        let connections = [Some(first), None, None, None].map(|connection| Arc::new(RwLock::new(connection)));
        Ok(Self { connections, next: AtomicUsize::new(0), options })
    }

    /// Refuses a server whose clock is of no use to locks.
    pub(super) async fn check_clock(&self) -> Result<()> {
        let first = self.connections[0].read().await;
        first.as_ref().expect("an open connection").check_clock().await
    }

    /// Refuses a shared table on which two could hold at once.
    pub(super) async fn check_table(&self) -> Result<()> {
        let first = self.connections[0].read().await;
        first.as_ref().expect("an open connection").check_table().await
    }

    /// Statements, each a transaction of its own.
    pub(super) async fn run(&self, queries: &[Query]) -> Result<Vec<QueryResult>> {
        self.share().await?.as_ref().expect("an open connection").run(queries).await
    }

    /// A statement on cells.
    pub(super) async fn run_on_cells(&self, statement: CellStatement, values: &[SqlValue]) -> Result<Reply> {
        let connection = self.share().await?;
        connection.as_ref().expect("an open connection").run_on_cells(statement, values).await
    }

    /// Begins a transaction with these.
    pub(super) async fn begin(&self, queries: &[Query]) -> Result<(MysqlTransaction, Vec<QueryResult>)> {
        let mut transaction = MysqlTransaction { connection: Some(self.take().await?), is_outstanding: true };
        let answers = transaction.connection().begin(queries).await;
        transaction.is_outstanding = false;
        Ok((transaction, answers?))
    }

    /// A connection for statements that may be outstanding together with those of other tasks.
    async fn share(&self) -> Result<OwnedRwLockReadGuard<Option<PreparedConnection>>> {
        match self.open_and_shared() {
            Some(shared) => Ok(shared),
            None => Ok(self.take().await?.downgrade()),
        }
    }

    /// An open connection that is in no transaction.
    fn open_and_shared(&self) -> Option<OwnedRwLockReadGuard<Option<PreparedConnection>>> {
        let free = self.connections.iter().filter_map(|connection| connection.clone().try_read_owned().ok());
        free.into_iter().find(|connection| is_usable(connection))
    }

    /// A connection for one task alone: an open one, or else a new one, or else the next that becomes free.
    async fn take(&self) -> Result<OwnedRwLockWriteGuard<Option<PreparedConnection>>> {
        let free =
            || self.connections.iter().filter_map(|connection| connection.clone().try_write_owned().ok());
        let mut taken = match free().find(|connection| is_usable(connection)).or_else(|| free().next()) {
            Some(taken) => taken,
            None => {
                let next = self.next.fetch_add(1, Ordering::Relaxed) % MAX_CONNECTIONS;
                self.connections[next].clone().write_owned().await
            }
        };
        if !is_usable(&taken) {
            *taken = None;
            *taken = Some(PreparedConnection::open(self.options.clone()).await?);
        }
        Ok(taken)
    }
}

/// A transaction. If it is dropped before its end, it is rolled back before the next statement on its
/// connection. If it is dropped before a reply, its connection is closed: the next statement would wait for
/// the same lock.
pub(super) struct MysqlTransaction {
    connection: Option<OwnedRwLockWriteGuard<Option<PreparedConnection>>>,
    /// A statement is outstanding.
    is_outstanding: bool,
}

impl MysqlTransaction {
    fn connection(&mut self) -> &PreparedConnection {
        let connection = self.connection.as_ref().expect("only the end of the transaction takes it away");
        connection.as_ref().expect("an open connection")
    }
}

impl Drop for MysqlTransaction {
    fn drop(&mut self) {
        match self.connection.as_deref() {
            Some(Some(connection)) if self.is_outstanding => connection.close(),
            Some(Some(connection)) => connection.roll_back(),
            _ => {}
        }
    }
}

impl Transaction for MysqlTransaction {
    async fn run(&mut self, queries: Vec<Query>) -> Result<Vec<QueryResult>> {
        self.is_outstanding = true;
        let answers = self.connection().run(&queries).await;
        self.is_outstanding = false;
        answers.map_err(|error| error.with_effect(Effect::None))
    }

    async fn commit(mut self, queries: Vec<Query>) -> Result<Vec<QueryResult>> {
        let answers = if queries.is_empty() { Vec::new() } else { self.run(queries).await? };
        self.is_outstanding = true;
        let committed = self.connection().commit().await;
        self.is_outstanding = false;
        committed?;
        self.connection = None;
        Ok(answers)
    }

    async fn roll_back(self) {}
}
