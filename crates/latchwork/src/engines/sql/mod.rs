//! Locks as rows of a database.
//!
//! The table of locks has one row for each name: its newest token and, while no client waits, the holder. A
//! claim of a lock without holder and waiter is one statement on that row, and so is its release. A claim
//! that finds a holder opens a transaction. It locks the row of the lock, reads its own entry and the first
//! 16 entries of the queue, and reads the database's clock after that. It moves the holder into the queue,
//! adds its own entry behind it, and marks the row as contended. From then on every claim, release and
//! immediate revocation of this lock is such a transaction: it deletes expired entries from the front of the
//! queue, grants the lock to the first waiters that are compatible with the holders, and sends these writes
//! together with the commit, which also notifies the new holders. A waiter extends its entry by heartbeats;
//! where the server cannot push, it also polls. The row is uncontended again when the queue is empty. Only
//! the database's clock decides whether a lease has ended.
//!
//! The transaction is in `queue`; `claim`, `wait`, `poll`, `renew`, `release` and `inspect` are the verbs,
//! and `row_engine` connects them. A [`RowStore`] runs the [`Statement`]s on one kind of database. `insert`
//! is the engine for `scheme=insert`, and `session` that for locks that the server keeps for connections.

mod claim;
mod conflict;
mod delegate_engine;
mod entry;
mod insert;
mod inspect;
mod operations;
mod poll;
mod queue;
mod release;
mod renew;
mod row_engine;
mod row_store;
pub(super) mod session;
mod statement;
mod statement_map;
mod statements;
mod sweep;
mod token_table;
mod value;
mod wait;
mod waiting_renewals;

pub(super) use self::conflict::{Conflict, retry_on_conflict};
pub(super) use self::delegate_engine::delegate_engine;
pub(super) use self::insert::{DEFAULT_MAX_AGE, InsertEngine, promises_of_insert};
pub(super) use self::poll::poll_cell_in;
pub(super) use self::row_engine::{RowEngine, promises};
pub(super) use self::row_store::{RowStore, Transaction};
pub(super) use self::statement::{Query, QueryResult, Statement};
pub(super) use self::statement_map::StatementMap;
pub(super) use self::statements::text;
pub(super) use self::token_table::{FENCE, LOCKS, TokenTable};
pub(super) use self::value::SqlValue;
