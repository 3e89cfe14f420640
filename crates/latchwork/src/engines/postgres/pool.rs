//! The connections of one runtime. One is enough for most clients: statements share it, and a transaction has it alone, if
//! nothing else is under way on it. Only what must not wait for others opens more.
//!
//! Behind a pooler a statement has a connection alone as well. With its answer the pooler gives the server to another client, and if it
//! has passed on a part of the next one by then, that stays there in two halves (pgbouncer's issue 759).

use std::sync::{Arc, Mutex};

use tokio::sync::{
    OnceCell, OwnedRwLockWriteGuard, OwnedSemaphorePermit, RwLock, RwLockReadGuard, RwLockWriteGuard,
    Semaphore,
};

use super::Shared;
use super::connection::Connection;
use crate::Result;
use crate::engines::cell_subscriptions::CellSubscriptions;
use crate::engines::sql::{Query, QueryResult, Transaction};
use crate::net::per_runtime;
use crate::poison::lock_ignoring_poison;

/// How many spare connections a runtime has at most; who needs another waits.
const SPARE: usize = 4;
/// How many of these are kept.
const MOST_IDLE: usize = 2;
/// The connections of one runtime.
pub(super) struct RuntimePool {
    main: Arc<Connection>,
    /// Read by statements on the main connection, written by whoever must have it alone.
    alone: Arc<RwLock<()>>,
    listening: OnceCell<()>,
    idle: Mutex<Vec<Arc<Connection>>>,
    room: Arc<Semaphore>,
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
        let room = Arc::new(Semaphore::new(SPARE));
        Ok(Self {
            main,
            alone: Arc::default(),
            listening: OnceCell::new(),
            idle: Mutex::default(),
            room,
            shared,
        })
    }

    /// From now on this client hears what it is told.
    pub(super) async fn listen(&self) -> Result<()> {
        let listen = || async {
            // Not in the middle of a transaction, which may come to nothing.
            let _beside = self.alone.read().await;
            self.main.command(&format!("LISTEN {}", self.shared.channel)).await
        };
        self.listening.get_or_try_init(listen).await.map(drop)
    }

    /// The connection that statements share, for as long as no transaction has it: what is sent would be a part of that.
    pub(super) async fn beside(&self) -> (Beside<'_>, &Connection) {
        let beside = match self.shared.is_known_pooled() {
            true => Beside::Alone(self.alone.write().await),
            false => Beside::Others(self.alone.read().await),
        };
        (beside, &self.main)
    }

    /// What the server says of cells that are watched.
    pub(super) fn cell_news(&self) -> &Arc<CellSubscriptions> {
        &self.main.cells
    }

    /// Statements that each stand for themselves.
    pub(super) async fn run(self: Arc<Self>, queries: &[Query]) -> Result<Vec<QueryResult>> {
        if self.shared.is_known_pooled() {
            return self.run_one_by_one(queries).await;
        }
        if let Ok(_beside) = self.alone.try_read() {
            return self.main.run(queries).await;
        }
        // A transaction may have to wait for others, which is no concern of these.
        let spare = self.spare().await?;
        let answers = spare.connection().run(queries).await?;
        spare.end();
        Ok(answers)
    }

    /// All of them, whatever becomes of those before: as when they are sent together.
    async fn run_one_by_one(self: Arc<Self>, queries: &[Query]) -> Result<Vec<QueryResult>> {
        let alone = self.alone().await?;
        let mut answers = Vec::with_capacity(queries.len());
        for query in queries {
            answers.push(alone.connection().run_limited(query).await);
        }
        alone.end();
        let answers: Result<Vec<_>> = answers.into_iter().collect();
        Ok(answers?.concat())
    }

    /// Begins a transaction with these.
    pub(super) async fn begin(
        self: Arc<Self>,
        queries: &[Query],
    ) -> Result<(OpenTransaction, Vec<QueryResult>)> {
        let transaction = self.alone().await?;
        match transaction.connection().begin(queries).await {
            Ok(answers) => Ok((transaction, answers)),
            Err(error) => {
                transaction.roll_back().await;
                // Nothing is committed, so nothing was done.
                Err(error.with_effect(crate::Effect::None))
            }
        }
    }

    /// A connection for whoever needs one alone.
    async fn alone(self: Arc<Self>) -> Result<OpenTransaction> {
        match self.alone.clone().try_write_owned() {
            Ok(alone) => Ok(OpenTransaction { place: Place::Main(alone), pool: self, is_over: false }),
            Err(_) => self.spare().await,
        }
    }

    /// One that nobody else uses.
    async fn spare(self: Arc<Self>) -> Result<OpenTransaction> {
        // Never closed.
        let room = self.room.clone().acquire_owned().await.expect("a semaphore that nobody closes");
        let idle = lock_ignoring_poison(&self.idle).pop().filter(|idle| !idle.is_closed());
        let connection = match idle {
            Some(idle) => idle,
            None => Arc::new(Connection::open(self.shared.clone()).await?),
        };
        Ok(OpenTransaction { place: Place::Spare(connection, room), pool: self, is_over: false })
    }
}

/// What keeps a transaction away from the main connection, and behind a pooler everybody else.
#[allow(dead_code, reason = "kept until the end")]
pub(super) enum Beside<'a> {
    Others(RwLockReadGuard<'a, ()>),
    Alone(RwLockWriteGuard<'a, ()>),
}

/// A connection that is used alone, mostly for a transaction. Dropped before its end it is closed, and the server rolls back.
pub(super) struct OpenTransaction {
    place: Place,
    pool: Arc<RuntimePool>,
    is_over: bool,
}

/// Which connection, and what keeps others away from it.
enum Place {
    Main(#[allow(dead_code, reason = "kept until the end")] OwnedRwLockWriteGuard<()>),
    Spare(Arc<Connection>, #[allow(dead_code, reason = "kept until the end")] OwnedSemaphorePermit),
}

impl OpenTransaction {
    fn connection(&self) -> &Connection {
        match &self.place {
            Place::Main(_) => &self.pool.main,
            Place::Spare(connection, _) => connection,
        }
    }

    /// Leaves the connection for the next.
    fn end(mut self) {
        self.is_over = true;
        let Place::Spare(connection, _) = &self.place else { return };
        let mut idle = lock_ignoring_poison(&self.pool.idle);
        if idle.len() < MOST_IDLE {
            idle.push(connection.clone());
        }
    }
}

impl Drop for OpenTransaction {
    fn drop(&mut self) {
        if !self.is_over {
            self.connection().close();
        }
    }
}

impl Transaction for OpenTransaction {
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
