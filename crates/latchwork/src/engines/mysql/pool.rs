//! The connections of one runtime. Statements share one; a transaction has one to itself for a moment.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};

use super::cells::CellStatement;
use super::options::Options;
use super::prepared::PreparedConnection;
use super::wire::Reply;
use crate::engines::sql::{Query, QueryResult, SqlValue as Value, Transaction};
use crate::net::per_runtime;
use crate::{Effect, Result};

/// The most connections of one client on one runtime. Most have one: others are opened when something is to be sent while all are
/// in a transaction.
const MOST: usize = 4;

/// Read by statements, written by transactions and whoever opens it. Nobody sends a statement into another's transaction.
type Place = Arc<RwLock<Option<PreparedConnection>>>;

/// The connections of one runtime.
pub(super) struct RuntimePool {
    places: [Place; MOST],
    /// Whose turn it is to be waited for, if all are taken.
    turn: AtomicUsize,
    options: Arc<Options>,
}

impl per_runtime::Closable for RuntimePool {
    /// Whoever has the first to itself, uses it.
    fn is_closed(&self) -> bool {
        self.places[0].try_read().is_ok_and(|first| !is_usable(&first))
    }
}

fn is_usable(connection: &Option<PreparedConnection>) -> bool {
    connection.as_ref().is_some_and(|connection| !connection.is_closed())
}

impl RuntimePool {
    pub(super) async fn open(options: Arc<Options>) -> Result<Self> {
        let first = PreparedConnection::open(options.clone()).await?;
        let places = [Some(first), None, None, None].map(|connection| Arc::new(RwLock::new(connection)));
        Ok(Self { places, turn: AtomicUsize::new(0), options })
    }

    /// Refuses a server whose clock is of no use to locks.
    pub(super) async fn check_clock(&self) -> Result<()> {
        let first = self.places[0].read().await;
        first.as_ref().expect("a place whose connection is open").check_clock().await
    }

    /// The same of a table that others made.
    pub(super) async fn check_table(&self) -> Result<()> {
        let first = self.places[0].read().await;
        first.as_ref().expect("a place whose connection is open").check_table().await
    }

    /// Statements that each stand for themselves.
    pub(super) async fn run(&self, queries: &[Query]) -> Result<Vec<QueryResult>> {
        self.beside().await?.as_ref().expect("a place whose connection is open").run(queries).await
    }

    /// A statement on cells.
    pub(super) async fn run_on_cells(&self, statement: CellStatement, values: &[Value]) -> Result<Reply> {
        let connection = self.beside().await?;
        connection.as_ref().expect("a place whose connection is open").run_on_cells(statement, values).await
    }

    /// Begins a transaction with these.
    pub(super) async fn begin(&self, queries: &[Query]) -> Result<(OpenTransaction, Vec<QueryResult>)> {
        let mut transaction = OpenTransaction { place: Some(self.alone().await?), is_asking: true };
        let answers = transaction.connection().begin(queries).await;
        transaction.is_asking = false;
        Ok((transaction, answers?))
    }

    /// A connection for statements that others may be under way beside.
    async fn beside(&self) -> Result<OwnedRwLockReadGuard<Option<PreparedConnection>>> {
        match self.shared() {
            Some(shared) => Ok(shared),
            None => Ok(self.alone().await?.downgrade()),
        }
    }

    /// A connection that is open and in no transaction.
    fn shared(&self) -> Option<OwnedRwLockReadGuard<Option<PreparedConnection>>> {
        let free = self.places.iter().filter_map(|place| place.clone().try_read_owned().ok());
        free.into_iter().find(|connection| is_usable(connection))
    }

    /// A connection that nobody else uses: one that is open, or else a new one, or else the one whose turn it is.
    async fn alone(&self) -> Result<OwnedRwLockWriteGuard<Option<PreparedConnection>>> {
        let free = || self.places.iter().filter_map(|place| place.clone().try_write_owned().ok());
        let mut place = match free().find(|connection| is_usable(connection)).or_else(|| free().next()) {
            Some(place) => place,
            None => {
                let turn = self.turn.fetch_add(1, Ordering::Relaxed) % MOST;
                self.places[turn].clone().write_owned().await
            }
        };
        if !is_usable(&place) {
            *place = None;
            *place = Some(PreparedConnection::open(self.options.clone()).await?);
        }
        Ok(place)
    }
}

/// A transaction. If it is dropped before its end, it is rolled back before the next statement on its
/// connection. If it is dropped before a reply, its connection is closed: the next statement would wait for
/// the same lock.
pub(super) struct OpenTransaction {
    place: Option<OwnedRwLockWriteGuard<Option<PreparedConnection>>>,
    is_asking: bool,
}

impl OpenTransaction {
    fn connection(&mut self) -> &PreparedConnection {
        let place = self.place.as_ref().expect("only its end takes it away");
        place.as_ref().expect("a place whose connection is open")
    }
}

impl Drop for OpenTransaction {
    fn drop(&mut self) {
        match self.place.as_deref() {
            Some(Some(connection)) if self.is_asking => connection.hang_up(),
            Some(Some(connection)) => connection.roll_back(),
            _ => {}
        }
    }
}

impl Transaction for OpenTransaction {
    async fn run(&mut self, queries: Vec<Query>) -> Result<Vec<QueryResult>> {
        self.is_asking = true;
        let answers = self.connection().run(&queries).await;
        self.is_asking = false;
        answers.map_err(|error| error.with_effect(Effect::None))
    }

    async fn commit(mut self, queries: Vec<Query>) -> Result<Vec<QueryResult>> {
        let answers = if queries.is_empty() { Vec::new() } else { self.run(queries).await? };
        self.is_asking = true;
        let committed = self.connection().commit().await;
        self.is_asking = false;
        committed?;
        self.place = None;
        Ok(answers)
    }

    async fn roll_back(self) {}
}
