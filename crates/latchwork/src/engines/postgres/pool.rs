//! The connections of one runtime. One is enough for most clients. Statements share it, and a transaction
//! uses it exclusively if no statement is under way on it. More connections are opened only for statements
//! and transactions that must not wait.
//!
//! Behind a pooler every statement uses a connection exclusively as well. After its reply the pooler gives
//! the server to another client. If the pooler has forwarded a part of the next statement by then, that
//! statement is split (pgbouncer's issue 759).

use std::sync::{Arc, Mutex};

use tokio::sync::{
    OnceCell, OwnedRwLockWriteGuard, OwnedSemaphorePermit, RwLock, RwLockReadGuard, RwLockWriteGuard,
    Semaphore,
};

use super::connection::Connection;
use super::rows::Shared;
use crate::Result;
use crate::engines::cell_subscriptions::CellSubscriptions;
use crate::engines::sql::{Query, QueryResult, Transaction};
use crate::net::per_runtime;
use crate::poison::lock_ignoring_poison;

/// The most spare connections of a runtime. A caller that needs another one waits.
const MAX_SPARE: usize = 4;
/// The most idle spare connections that are kept.
const MAX_IDLE: usize = 2;

/// The connections of one runtime.
pub(super) struct RuntimePool {
    main: Arc<Connection>,
    /// Held shared by statements on the main connection, and exclusively by a transaction.
    main_lock: Arc<RwLock<()>>,
    listening: OnceCell<()>,
    idle: Mutex<Vec<Arc<Connection>>>,
    spare_permits: Arc<Semaphore>,
    shared: Arc<Shared>,
}

impl per_runtime::Closable for RuntimePool {
    fn is_closed(&self) -> bool {
        self.main.is_closed()
    }
}

impl RuntimePool {
    pub(super) async fn open(shared: Arc<Shared>) -> Result<Self> {
        let main = Arc::new(Connection::open(shared.clone()).await?);
        let spare_permits = Arc::new(Semaphore::new(MAX_SPARE));
        Ok(Self {
            main,
            main_lock: Arc::default(),
            listening: OnceCell::new(),
            idle: Mutex::default(),
            spare_permits,
            shared,
        })
    }

    /// Subscribes to the notifications for this client.
    pub(super) async fn listen(&self) -> Result<()> {
        let listen = || async {
            // Not inside a transaction, which may be rolled back.
            let _guard = self.main_lock.read().await;
            self.main.command(&format!("LISTEN {}", self.shared.channel)).await
        };
        self.listening.get_or_try_init(listen).await.map(drop)
    }

    /// The connection that statements share. Waits until no transaction uses it: a statement would become a
    /// part of that.
    pub(super) async fn main(&self) -> (MainGuard<'_>, &Connection) {
        let guard = match self.shared.is_known_pooled() {
            true => MainGuard::Exclusive(self.main_lock.write().await),
            false => MainGuard::Shared(self.main_lock.read().await),
        };
        (guard, &self.main)
    }

    /// The subscriptions to watched cells.
    pub(super) fn cell_subscriptions(&self) -> &Arc<CellSubscriptions> {
        &self.main.cells
    }

    /// Runs independent statements.
    pub(super) async fn run(self: Arc<Self>, queries: &[Query]) -> Result<Vec<QueryResult>> {
        if self.shared.is_known_pooled() {
            return self.run_one_by_one(queries).await;
        }
        if let Ok(_guard) = self.main_lock.try_read() {
            return self.main.run(queries).await;
        }
        // The transaction on the main connection may wait for others, and these statements need not.
        let spare = self.spare().await?;
        let answers = spare.connection().run(queries).await?;
        spare.end();
        Ok(answers)
    }

    /// Runs all of them, even if one fails: as when they are sent together.
    async fn run_one_by_one(self: Arc<Self>, queries: &[Query]) -> Result<Vec<QueryResult>> {
        let connection = self.exclusive().await?;
        let mut answers = Vec::with_capacity(queries.len());
        for query in queries {
            answers.push(connection.connection().run_limited(query).await);
        }
        connection.end();
        let answers: Result<Vec<_>> = answers.into_iter().collect();
        Ok(answers?.concat())
    }

    /// Begins a transaction with these statements.
    pub(super) async fn begin(
        self: Arc<Self>,
        queries: &[Query],
    ) -> Result<(PostgresTransaction, Vec<QueryResult>)> {
        let transaction = self.exclusive().await?;
        match transaction.connection().begin(queries).await {
            Ok(answers) => Ok((transaction, answers)),
            Err(error) => {
                transaction.roll_back().await;
                // Nothing was committed.
                Err(error.with_effect(crate::Effect::None))
            }
        }
    }

    /// A connection for exclusive use.
    async fn exclusive(self: Arc<Self>) -> Result<PostgresTransaction> {
        match self.main_lock.clone().try_write_owned() {
            Ok(guard) => {
                let connection = ExclusiveConnection::Main(guard);
                Ok(PostgresTransaction { connection, pool: self, is_over: false })
            }
            Err(_) => self.spare().await,
        }
    }

    /// A spare connection for exclusive use.
    async fn spare(self: Arc<Self>) -> Result<PostgresTransaction> {
        let permit = self.spare_permits.clone().acquire_owned().await.expect("the semaphore is never closed");
        let idle = lock_ignoring_poison(&self.idle).pop().filter(|idle| !idle.is_closed());
        let connection = match idle {
            Some(idle) => idle,
            None => Arc::new(Connection::open(self.shared.clone()).await?),
        };
        let connection = ExclusiveConnection::Spare(connection, permit);
        Ok(PostgresTransaction { connection, pool: self, is_over: false })
    }
}

/// Keeps transactions away from the main connection, and behind a pooler all other statements, too.
#[allow(dead_code, reason = "held until it is dropped")]
pub(super) enum MainGuard<'a> {
    Shared(RwLockReadGuard<'a, ()>),
    Exclusive(RwLockWriteGuard<'a, ()>),
}

/// A connection in exclusive use, usually for a transaction. If it is dropped before its end, the connection
/// is closed, and the server rolls back.
pub(super) struct PostgresTransaction {
    connection: ExclusiveConnection,
    pool: Arc<RuntimePool>,
    is_over: bool,
}

/// A connection, and the guard or the permit for its exclusive use.
enum ExclusiveConnection {
    Main(#[allow(dead_code, reason = "held until it is dropped")] OwnedRwLockWriteGuard<()>),
    Spare(Arc<Connection>, #[allow(dead_code, reason = "held until it is dropped")] OwnedSemaphorePermit),
}

impl PostgresTransaction {
    fn connection(&self) -> &Connection {
        match &self.connection {
            ExclusiveConnection::Main(_) => &self.pool.main,
            ExclusiveConnection::Spare(connection, _) => connection,
        }
    }

    /// Returns the connection to the pool.
    fn end(mut self) {
        self.is_over = true;
        let ExclusiveConnection::Spare(connection, _) = &self.connection else { return };
        let mut idle = lock_ignoring_poison(&self.pool.idle);
        if idle.len() < MAX_IDLE {
            idle.push(connection.clone());
        }
    }
}

impl Drop for PostgresTransaction {
    fn drop(&mut self) {
        if !self.is_over {
            self.connection().close();
        }
    }
}

impl Transaction for PostgresTransaction {
    async fn run(&mut self, queries: Vec<Query>) -> Result<Vec<QueryResult>> {
        self.connection().run(&queries).await.map_err(|error| error.with_effect(crate::Effect::None))
    }

    async fn commit(self, queries: Vec<Query>) -> Result<Vec<QueryResult>> {
        let answers = self.connection().commit(&queries).await?;
        self.end();
        Ok(answers)
    }

    async fn roll_back(self) {
        if self.connection().command("ROLLBACK").await.is_ok() {
            self.end();
        }
    }
}
