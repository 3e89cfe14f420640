//! The connections of one runtime: one that all statements share, and a few for transactions.

use std::sync::{Arc, Mutex};

use tokio::sync::{OnceCell, OwnedSemaphorePermit, Semaphore};

use super::Shared;
use super::connection::Connection;
use crate::Result;
use crate::engines::links;
use crate::engines::sql::{Answer, Ask, Transaction};
use crate::locked::locked;

/// How many transactions of a runtime are open at once; more wait. Each needs a connection.
const TRANSACTIONS: usize = 4;
/// How many of these connections are kept.
const MOST_IDLE: usize = 2;
/// A client that is stopped in the middle of a transaction must not block a lock for longer than this, and nobody waits for longer.
const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout = '3s'; \
                     SET LOCAL idle_in_transaction_session_timeout = '3s'";

/// The connections of one runtime.
pub(super) struct Link {
    statements: Connection,
    listening: OnceCell<()>,
    idle: Mutex<Vec<Connection>>,
    room: Arc<Semaphore>,
    shared: Arc<Shared>,
}

impl links::Connection for Link {
    fn is_closed(&self) -> bool {
        self.statements.is_closed()
    }
}

impl Link {
    pub(super) async fn open(shared: Arc<Shared>) -> Result<Self> {
        let statements = Connection::open(shared.clone()).await?;
        let room = Arc::new(Semaphore::new(TRANSACTIONS));
        Ok(Self { statements, listening: OnceCell::new(), idle: Mutex::default(), room, shared })
    }

    /// From now on this client hears what it is told.
    pub(super) async fn listen(&self) -> Result<()> {
        let listen = || async {
            let text = format!("LISTEN {}", self.shared.channel);
            self.statements.command(&text).await
        };
        self.listening.get_or_try_init(listen).await.map(drop)
    }

    /// The connection that all statements share.
    pub(super) fn statements(&self) -> &Connection {
        &self.statements
    }

    /// Statements that each stand for themselves.
    pub(super) async fn run(&self, asks: &[Ask]) -> Result<Vec<Answer>> {
        self.statements.run(asks).await
    }

    /// Begins a transaction with these.
    pub(super) async fn begin(self: Arc<Self>, asks: &[Ask]) -> Result<(OpenTransaction, Vec<Answer>)> {
        // Never closed.
        let place = self.room.clone().acquire_owned().await.expect("a semaphore that nobody closes");
        let idle = locked(&self.idle).pop().filter(|idle| !idle.is_closed());
        let connection = match idle {
            Some(idle) => idle,
            None => Connection::open(self.shared.clone()).await?,
        };
        let answers = connection.run_between(BEGIN, asks, "").await;
        // Nothing is committed, so nothing was done.
        let answers = answers.map_err(|error| error.with_effect(crate::Effect::None))?;
        Ok((OpenTransaction { connection, link: self, _place: place }, answers))
    }
}

/// A transaction. Dropped before its end it takes its connection with it, and the server rolls it back.
pub(super) struct OpenTransaction {
    connection: Connection,
    link: Arc<Link>,
    _place: OwnedSemaphorePermit,
}

impl OpenTransaction {
    /// Leaves the connection for the next.
    fn end(self) {
        let mut idle = locked(&self.link.idle);
        if idle.len() < MOST_IDLE {
            idle.push(self.connection);
        }
    }
}

impl Transaction for OpenTransaction {
    async fn run(&mut self, asks: Vec<Ask>) -> Result<Vec<Answer>> {
        self.connection.run(&asks).await.map_err(|error| error.with_effect(crate::Effect::None))
    }

    async fn commit(self, asks: Vec<Ask>) -> Result<()> {
        self.connection.run_between("", &asks, "COMMIT").await?;
        self.end();
        Ok(())
    }

    async fn roll_back(self) {
        if self.connection.command("ROLLBACK").await.is_ok() {
            self.end();
        }
    }
}
