//! What the algorithm needs of a database.

use std::future::Future;
use std::sync::Arc;

use crate::engine::{ClaimId, SharedCells};
use crate::engines::waiter_table::Notification;
use crate::{Guarantees, Result};

/// What is sent and what comes back: everything is a number or bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::engines) enum Value {
    Null,
    Int(i64),
    Bytes(Vec<u8>),
    /// For columns that others made. It comes back as bytes.
    Text(String),
}

impl Value {
    pub(in crate::engines) fn bytes(bytes: &[u8]) -> Self {
        Self::Bytes(bytes.to_vec())
    }

    pub(super) fn id(id: ClaimId) -> Self {
        Self::bytes(id.as_bytes())
    }

    /// How many bytes of somebody else's are in it.
    #[cfg(feature = "mysql")]
    pub(in crate::engines) fn length(&self) -> usize {
        match self {
            Self::Null | Self::Int(_) => 0,
            Self::Bytes(bytes) => bytes.len(),
            Self::Text(text) => text.len(),
        }
    }
}

/// The statements, each spelled by every database. Their values come in the order that stands here; so do their columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::engines) enum Statement {
    /// Takes a lock that nobody holds or waits for: name, id, ttl, note, owner. A row with its token, or none.
    ClaimFree,
    /// Gives back a lock that nobody waits for: name, id.
    ReleaseFree,
    /// Locks the row of a lock: name. Token, whether it is contended, the last ticket; then the holder's id, end, since, whether
    /// revoked, note, owner.
    LockRow,
    /// The time. By itself, because a row may have been waited for after the time in the same statement was read.
    Now,
    /// Makes the row of a lock, if there is none: name.
    MakeRow,
    /// Writes the row of a lock whose queue is open, or was: name, token, whether it is contended, the last ticket.
    WriteRow,
    /// Takes over from the holder of a lock that nobody waits for: name, token, id, end, since, note, owner.
    TakeRow,
    /// One entry of the queue: name, id.
    Find,
    /// Entries of the queue behind a ticket: name, ticket, how many.
    Page,
    /// How many stand before a ticket, up to a thousand: name, ticket.
    Ahead,
    /// Writes an entry: name, and all that an entry has.
    Enrol,
    /// Deletes an entry: name, ticket.
    Leave,
    /// Lets a waiting entry hold: name, ticket, token, end, since.
    Grant,
    /// A sign of life of a waiter: name, id, for how long. Where the server can tell, a row with its ticket, how long the first lease
    /// ahead of it still lasts (null: there is none), how many stand before it, and the newest token.
    Touch,
    /// How a claim in the queue stands, where nobody is told: name, id. See `look.sql`.
    Look,
    /// Extends a claim that nobody waits for: name, id, ttl.
    RenewFree,
    /// Extends a claim in the queue: name, id, ttl.
    RenewQueued,
    /// Takes the lock from a holder: name, id, whether at once.
    RevokeFree,
    RevokeQueued,
    /// Holders of locks that nobody waits for, from a name on: name. Now, name, token, id, end, since, revoked, note, owner.
    ListFree,
    /// Entries of queues, from a name on: name. Now, name, and the entry.
    ListQueued,
    /// Tells a client: its channel, the message.
    Tell,
    /// Locks the row of a lock that this claim holds: name, id. Returns a row, or no row if the claim does
    /// not hold it, or if another transaction has locked it.
    OwnRow,
    /// Locks the claim's entry in the queue, in the same way: name, id.
    OwnEntry,
    /// Inserts a row: name, holder, ttl, age, owner, note. Where one statement does everything
    /// ([`Database::PUTS_AT_ONCE`]), it also replaces a row that is over or of the same owner. It then
    /// returns a row with its token and how long it lasts, or no row.
    Put,
    /// Lets an inserted row last: name, holder, ttl, age.
    Prolong,
    /// Deletes an inserted row: name, holder, the same holder when it was revoked.
    Remove,
    /// Revokes an inserted row: name, holder, the same holder when it was revoked.
    Mark,
    /// An inserted row: name, age. Name, holder, how long it lasts, token, since, note.
    Held,
    /// The same of all whose names begin so, in their order.
    HeldBelow,
    /// Locks an inserted row of this holder: name, holder. Returns a row, or no row if it does not exist, or
    /// if another transaction has locked it.
    OwnInserted,
    /// Replaces a row that is over or of the same owner. Used instead of [`Statement::Put`] where that takes
    /// a transaction and such a row was seen. Takes the values of [`Statement::Put`].
    TakeOld,
    /// The second statement of that transaction: draws a token for an inserted row, unless it has one. Takes
    /// the values of [`Statement::Put`].
    Draw,
    /// Whether a sweep for old names is due. Returns a row if so: how many names it saw, and the floor (null:
    /// no floor yet). See `sweep_due.sql`.
    SweepDue,
    /// Creates the row of the floor. Fails if it exists.
    MakeFloor,
    /// Locks the row of the floor, if a sweep is due and no other client is sweeping. Returns the floor.
    LockFloor,
    /// Old names after a name: name, floor, how many. Returns the name, and in the table of locks whether it
    /// is contended.
    OldNames,
    /// Deletes the row of a name, if it is unused and has no token above the floor: name, floor.
    Forget,
    /// Raises the floor to a day ago.
    RaiseFloor,
    /// Deletes what is left of holders whose lock was taken away at once and whose leases would have ended: name.
    ForgetRevoked,
}

impl Statement {
    /// Those of `scheme=insert`, in the order of their numbers.
    pub(in crate::engines) const OF_INSERT: [Self; 9] = [
        Self::Put,
        Self::Prolong,
        Self::Remove,
        Self::Mark,
        Self::Held,
        Self::HeldBelow,
        Self::OwnInserted,
        Self::TakeOld,
        Self::Draw,
    ];

    /// Those of `scheme=row`, in the order of their numbers.
    pub(in crate::engines) const ALL: [Self; 24] = [
        Self::ClaimFree,
        Self::ReleaseFree,
        Self::LockRow,
        Self::Now,
        Self::MakeRow,
        Self::WriteRow,
        Self::TakeRow,
        Self::Find,
        Self::Page,
        Self::Ahead,
        Self::Enrol,
        Self::Leave,
        Self::Grant,
        Self::Touch,
        Self::Look,
        Self::RenewFree,
        Self::RenewQueued,
        Self::RevokeFree,
        Self::RevokeQueued,
        Self::ListFree,
        Self::ListQueued,
        Self::Tell,
        Self::OwnRow,
        Self::OwnEntry,
    ];

    /// The statements of a sweep, in the order of their numbers; a revocation needs the last one, too. They are
    /// rare, so they are not prepared in advance.
    pub(in crate::engines) const OF_SWEEP: [Self; 7] = [
        Self::SweepDue,
        Self::MakeFloor,
        Self::LockFloor,
        Self::OldNames,
        Self::Forget,
        Self::RaiseFloor,
        Self::ForgetRevoked,
    ];
}

/// One statement with its values.
#[derive(Clone, Debug)]
pub(in crate::engines) struct Query {
    pub(in crate::engines) statement: Statement,
    pub(in crate::engines) values: Vec<Value>,
}

impl Query {
    pub(in crate::engines) fn new(statement: Statement, values: impl Into<Vec<Value>>) -> Self {
        Self { statement, values: values.into() }
    }
}

/// What came back.
#[derive(Clone, Debug, Default)]
pub(in crate::engines) struct QueryResult {
    pub(in crate::engines) rows: Vec<Vec<Value>>,
    /// How many rows were changed.
    pub(in crate::engines) changed: u64,
}

/// A database, with connections of its own.
pub(in crate::engines) trait Database: Send + Sync + Sized + 'static {
    type Transaction: Transaction;

    /// Whether [`Statement::Put`] does everything by itself.
    const PUTS_AT_ONCE: bool;

    /// What its locks promise.
    fn promises(&self) -> Guarantees;

    /// The channel that this client hears messages on, once it listens; `None` if it must ask.
    fn channel(&self) -> impl Future<Output = Result<Option<Vec<u8>>>> + Send;

    /// Waits for a message to a claim of this client.
    fn heard(&self, id: ClaimId) -> impl Future<Output = Notification> + Send;

    /// Keeps what is heard for a claim from now on.
    fn expect(&self, id: ClaimId) -> bool;

    /// Keeps nothing of it any more.
    fn forget(&self, id: ClaimId);

    /// Statements that each stand for themselves, in one round trip where the server allows it.
    fn run(&self, queries: Vec<Query>) -> impl Future<Output = Result<Vec<QueryResult>>> + Send;

    /// Begins a transaction with these.
    fn begin(
        &self,
        queries: Vec<Query>,
    ) -> impl Future<Output = Result<(Self::Transaction, Vec<QueryResult>)>> + Send;

    /// The database through connections of its own, so that a statement that waits on these connections
    /// delays nothing there.
    fn fork(&self) -> Self;

    /// Its cells.
    fn cells(self: Arc<Self>) -> SharedCells;
}

/// A transaction on a connection of its own. Dropped without a commit, it has done nothing.
pub(in crate::engines) trait Transaction: Send {
    /// More statements in it.
    fn run(&mut self, queries: Vec<Query>) -> impl Future<Output = Result<Vec<QueryResult>>> + Send;

    /// Runs these and commits.
    fn commit(self, queries: Vec<Query>) -> impl Future<Output = Result<Vec<QueryResult>>> + Send;

    /// Ends it without doing anything.
    fn roll_back(self) -> impl Future<Output = ()> + Send;
}
