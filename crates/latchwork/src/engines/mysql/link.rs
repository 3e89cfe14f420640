//! The connections of one runtime. Statements share one; a transaction has one to itself for a moment.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};

use super::cells::OfCells;
use super::lane::Lane;
use super::options::Options;
use super::wire::Reply;
use crate::engines::links;
use crate::engines::sql::{Answer, Ask, Transaction, Value};
use crate::{Effect, Result};

/// The most connections of one client on one runtime. Most have one: others are opened when something is to be sent while all are
/// in a transaction.
const MOST: usize = 4;

/// Read by statements, written by transactions and whoever opens it. Nobody sends a statement into another's transaction.
type Place = Arc<RwLock<Option<Lane>>>;

/// The connections of one runtime.
pub(super) struct Link {
    places: [Place; MOST],
    /// Whose turn it is to be waited for, if all are taken.
    turn: AtomicUsize,
    options: Arc<Options>,
}

impl links::Connection for Link {
    /// Whoever has the first to itself, uses it.
    fn is_closed(&self) -> bool {
        self.places[0].try_read().is_ok_and(|first| !is_usable(&first))
    }
}

fn is_usable(lane: &Option<Lane>) -> bool {
    lane.as_ref().is_some_and(|lane| !lane.is_closed())
}

impl Link {
    pub(super) async fn open(options: Arc<Options>) -> Result<Self> {
        let first = Lane::open(options.clone()).await?;
        let places = [Some(first), None, None, None].map(|lane| Arc::new(RwLock::new(lane)));
        Ok(Self { places, turn: AtomicUsize::new(0), options })
    }

    /// Refuses a server whose clock is of no use to locks.
    pub(super) async fn check_clock(&self) -> Result<()> {
        let first = self.places[0].read().await;
        first.as_ref().expect("a place whose lane is open").check_clock().await
    }

    /// The same of a table that others made.
    pub(super) async fn check_table(&self) -> Result<()> {
        let first = self.places[0].read().await;
        first.as_ref().expect("a place whose lane is open").check_table().await
    }

    /// Statements that each stand for themselves.
    pub(super) async fn run(&self, asks: &[Ask]) -> Result<Vec<Answer>> {
        self.beside().await?.as_ref().expect("a place whose lane is open").run(asks).await
    }

    /// A statement on cells.
    pub(super) async fn run_on_cells(&self, statement: OfCells, values: &[Value]) -> Result<Reply> {
        let lane = self.beside().await?;
        lane.as_ref().expect("a place whose lane is open").run_on_cells(statement, values).await
    }

    /// Begins a transaction with these.
    pub(super) async fn begin(&self, asks: &[Ask]) -> Result<(OpenTransaction, Vec<Answer>)> {
        let mut transaction = OpenTransaction { place: Some(self.alone().await?), is_asking: true };
        let answers = transaction.lane().begin(asks).await;
        transaction.is_asking = false;
        Ok((transaction, answers?))
    }

    /// A connection for statements that others may be under way beside.
    async fn beside(&self) -> Result<OwnedRwLockReadGuard<Option<Lane>>> {
        match self.shared() {
            Some(shared) => Ok(shared),
            None => Ok(self.alone().await?.downgrade()),
        }
    }

    /// A connection that is open and in no transaction.
    fn shared(&self) -> Option<OwnedRwLockReadGuard<Option<Lane>>> {
        let free = self.places.iter().filter_map(|place| place.clone().try_read_owned().ok());
        free.into_iter().find(|lane| is_usable(lane))
    }

    /// A connection that nobody else uses: one that is open, or else a new one, or else the one whose turn it is.
    async fn alone(&self) -> Result<OwnedRwLockWriteGuard<Option<Lane>>> {
        let free = || self.places.iter().filter_map(|place| place.clone().try_write_owned().ok());
        let mut place = match free().find(|lane| is_usable(lane)).or_else(|| free().next()) {
            Some(place) => place,
            None => {
                let turn = self.turn.fetch_add(1, Ordering::Relaxed) % MOST;
                self.places[turn].clone().write_owned().await
            }
        };
        if !is_usable(&place) {
            *place = None;
            *place = Some(Lane::open(self.options.clone()).await?);
        }
        Ok(place)
    }
}

/// A transaction. If it is dropped before its end, it is rolled back before the next statement on its
/// connection. If it is dropped before a reply, its connection is closed: the next statement would wait for
/// the same lock.
pub(super) struct OpenTransaction {
    place: Option<OwnedRwLockWriteGuard<Option<Lane>>>,
    is_asking: bool,
}

impl OpenTransaction {
    fn lane(&mut self) -> &Lane {
        let place = self.place.as_ref().expect("only its end takes it away");
        place.as_ref().expect("a place whose lane is open")
    }
}

impl Drop for OpenTransaction {
    fn drop(&mut self) {
        match self.place.as_deref() {
            Some(Some(lane)) if self.is_asking => lane.hang_up(),
            Some(Some(lane)) => lane.roll_back(),
            _ => {}
        }
    }
}

impl Transaction for OpenTransaction {
    async fn run(&mut self, asks: Vec<Ask>) -> Result<Vec<Answer>> {
        self.is_asking = true;
        let answers = self.lane().run(&asks).await;
        self.is_asking = false;
        answers.map_err(|error| error.with_effect(Effect::None))
    }

    async fn commit(mut self, asks: Vec<Ask>) -> Result<Vec<Answer>> {
        let answers = if asks.is_empty() { Vec::new() } else { self.run(asks).await? };
        self.is_asking = true;
        let committed = self.lane().commit().await;
        self.is_asking = false;
        committed?;
        self.place = None;
        Ok(answers)
    }

    async fn roll_back(self) {}
}
