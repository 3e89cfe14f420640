//! The statements, and their results.

use super::value::SqlValue;

/// The statements. Each database has its own SQL for them. Each variant lists its values in their order, and
/// then the columns of its rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::engines) enum Statement {
    /// Claims a lock that has no holder and no waiter: name, id, ttl, note, owner. Returns a row with the
    /// token if the claim was granted.
    ClaimUncontended,
    /// Releases a lock that has no waiter: name, id.
    ReleaseUncontended,
    /// Locks the row of a lock: name. Returns the token, whether the lock is contended, the last ticket; then
    /// the id, expiry, since, revoked, note and owner of the holder.
    LockRow,
    /// The time. A statement of its own, because a statement that waits for a row may have read the clock
    /// before.
    Now,
    /// Inserts the row of a lock if it does not exist: name.
    MakeRow,
    /// Updates the row of a lock after a change of its queue: name, token, whether it is contended, the last
    /// ticket.
    WriteRow,
    /// Makes a claim the holder of a lock that has no waiter: name, token, id, expiry, since, note, owner.
    TakeRow,
    /// The entry of a claim in the queue: name, id.
    FindEntry,
    /// The entries of the queue behind a ticket: name, ticket, limit.
    ReadPage,
    /// The number of entries before a ticket, at most a thousand: name, ticket.
    CountAhead,
    /// Inserts an entry into the queue: name, and the columns of an entry.
    InsertEntry,
    /// Deletes an entry: name, ticket.
    DeleteEntry,
    /// Makes a waiting entry a holder: name, ticket, token, expiry, since.
    GrantEntry,
    /// A heartbeat of a waiter: name, id, the new lease of its entry. Where the database supports it, returns
    /// a row with the ticket, the time left of the first lease ahead (null: no holder is ahead), the number
    /// of entries ahead, and the newest token.
    Heartbeat,
    /// The state of a waiting claim, where the server cannot push: name, id. See `poll.sql`.
    Poll,
    /// Renews a claim that has no waiter behind it: name, id, ttl.
    RenewUncontended,
    /// Renews a claim in the queue: name, id, ttl.
    RenewQueued,
    /// Revokes a holder that has no waiter behind it: name, id, whether at once.
    RevokeUncontended,
    /// Revokes a holder in the queue: name, id, whether at once.
    RevokeQueued,
    /// The holders of uncontended locks between two names: from, to. Now, name, token, id, expiry, since,
    /// revoked, note, owner.
    ListUncontended,
    /// The entries of queues between two names: from, to. Now, name, and the columns of an entry.
    ListQueued,
    /// Notifies a client: its channel, the message.
    Notify,
    /// Locks the row of a lock that this claim holds: name, id. Returns a row, or no row if the claim does
    /// not hold it, or if another transaction has locked it.
    OwnRow,
    /// Locks the claim's entry in the queue, in the same way: name, id.
    OwnEntry,
    /// Inserts a row: name, holder, ttl, age, owner, note. Where one statement does everything
    /// ([`RowStore::INSERTS_IN_ONE_STATEMENT`](super::RowStore)), it also replaces a row that is expired or
    /// of the same owner. It then returns a row with its token and the time left, or no row.
    Insert,
    /// Renews an inserted row: name, holder, ttl, age.
    RenewInserted,
    /// Deletes an inserted row: name, holder, the holder as written when it is revoked.
    DeleteInserted,
    /// Revokes an inserted row: name, holder, the holder as written when it is revoked.
    RevokeInserted,
    /// An inserted row: name, age. Name, holder, time left, token, since, note.
    ReadInserted,
    /// All inserted rows whose names begin with a prefix, ordered by name: prefix, age. Columns as for
    /// [`Statement::ReadInserted`].
    ListInserted,
    /// Locks an inserted row of this holder: name, holder. Returns a row, or no row if it does not exist, or
    /// if another transaction has locked it.
    OwnInserted,
    /// Replaces a row that is expired or of the same owner. Used instead of [`Statement::Insert`] where that
    /// takes a transaction and such a row was read. Takes the values of [`Statement::Insert`].
    ReplaceInserted,
    /// The second statement of that transaction: draws a token for an inserted row, unless it has one. Takes
    /// the values of [`Statement::Insert`].
    DrawToken,
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
    /// Deletes the records of holders that were revoked at once and whose leases would have ended: name.
    ForgetRevoked,
}

impl Statement {
    /// The statements of `scheme=insert`.
    #[cfg(feature = "mysql")]
    pub(in crate::engines) const OF_INSERT: [Self; 9] = [
        Self::Insert,
        Self::RenewInserted,
        Self::DeleteInserted,
        Self::RevokeInserted,
        Self::ReadInserted,
        Self::ListInserted,
        Self::OwnInserted,
        Self::ReplaceInserted,
        Self::DrawToken,
    ];

    /// The statements of `scheme=row`, the most frequent ones first.
    pub(in crate::engines) const ALL: [Self; 24] = [
        Self::ClaimUncontended,
        Self::ReleaseUncontended,
        Self::LockRow,
        Self::Now,
        Self::MakeRow,
        Self::WriteRow,
        Self::TakeRow,
        Self::FindEntry,
        Self::ReadPage,
        Self::CountAhead,
        Self::InsertEntry,
        Self::DeleteEntry,
        Self::GrantEntry,
        Self::Heartbeat,
        Self::Poll,
        Self::RenewUncontended,
        Self::RenewQueued,
        Self::RevokeUncontended,
        Self::RevokeQueued,
        Self::ListUncontended,
        Self::ListQueued,
        Self::Notify,
        Self::OwnRow,
        Self::OwnEntry,
    ];

    /// The statements of a sweep. A revocation needs [`Statement::ForgetRevoked`], too. They are rare, so
    /// they are not prepared in advance.
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
    pub(in crate::engines) values: Vec<SqlValue>,
}

impl Query {
    pub(in crate::engines) fn new(statement: Statement, values: impl Into<Vec<SqlValue>>) -> Self {
        Self { statement, values: values.into() }
    }
}

/// The result of one statement.
#[derive(Clone, Debug, Default)]
pub(in crate::engines) struct QueryResult {
    pub(in crate::engines) rows: Vec<Vec<SqlValue>>,
    /// The number of rows that were changed.
    pub(in crate::engines) changed: u64,
}

impl QueryResult {
    /// The first column of the first row.
    pub(super) fn scalar(&self) -> Option<&SqlValue> {
        self.rows.first()?.first()
    }
}
