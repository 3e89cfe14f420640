//! The interface between the algorithm and a database.

use std::future::Future;
use std::sync::Arc;

use super::statement::{Query, QueryResult};
use crate::engine::{ClaimId, SharedCells};
use crate::engines::waiter_table::Notification;
use crate::{Guarantees, Result};

/// One client's connections to a database with lock tables.
pub(in crate::engines) trait RowStore: Send + Sync + Sized + 'static {
    type Transaction: Transaction;

    /// Whether [`Statement::Insert`](super::Statement::Insert) replaces rows and draws tokens by itself.
    const INSERTS_IN_ONE_STATEMENT: bool;

    /// The guarantees of its locks.
    fn promises(&self) -> Guarantees;

    /// The channel on which this client receives notifications, once it listens; `None` if the server cannot
    /// push.
    fn channel(&self) -> impl Future<Output = Result<Option<Vec<u8>>>> + Send;

    /// Waits for a notification for a claim of this client.
    fn next_notification(&self, id: ClaimId) -> impl Future<Output = Notification> + Send;

    /// Keeps notifications for a claim from now on. Returns whether it was expected before.
    fn expect(&self, id: ClaimId) -> bool;

    /// Keeps no notifications for a claim any more.
    fn forget(&self, id: ClaimId);

    /// Runs independent statements, in one round trip where the server allows it.
    fn run(&self, queries: Vec<Query>) -> impl Future<Output = Result<Vec<QueryResult>>> + Send;

    /// Begins a transaction with these statements.
    fn begin(
        &self,
        queries: Vec<Query>,
    ) -> impl Future<Output = Result<(Self::Transaction, Vec<QueryResult>)>> + Send;

    /// A store with connections of its own, so that a statement that waits on these connections delays no
    /// statement there.
    fn fork(&self) -> Self;

    /// Its cells.
    fn cells(self: Arc<Self>) -> SharedCells;
}

/// A transaction on a connection of its own. If it is dropped without a commit, it is rolled back.
pub(in crate::engines) trait Transaction: Send {
    /// Runs more statements in it.
    fn run(&mut self, queries: Vec<Query>) -> impl Future<Output = Result<Vec<QueryResult>>> + Send;

    /// Runs these statements and commits.
    fn commit(self, queries: Vec<Query>) -> impl Future<Output = Result<Vec<QueryResult>>> + Send;

    /// Rolls it back.
    fn roll_back(self) -> impl Future<Output = ()> + Send;
}
