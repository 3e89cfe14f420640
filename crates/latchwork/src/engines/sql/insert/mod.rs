//! `scheme=insert`: the client that inserts the row of a lock holds it, in a table that other services use by
//! plain SQL.
//!
//! The table has a unique `unique_mutex`, a `holder_id` and a `create_time`, and no room for anything else. A
//! claim inserts the row, or replaces a row that is expired, and then draws a token. A row expires at an age
//! that all programs agree on, by the database's clock: a lease of another length is written as a row with an
//! earlier or later `create_time`. A renewal rewrites that time, and a release deletes the row. There is no
//! queue and no notification: waiters poll, with pauses that double from 5 to 80 ms. Tokens come from a
//! second table, which only Latchwork uses, because rows are deleted and tokens must not go back.

mod claim;
mod inserted_row;
mod inspect;
mod renew;
mod row_holder;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use self::inserted_row::InsertedRow;
use super::conflict::retry_on_conflict;
use super::entry::micros;
use super::row_store::RowStore;
use super::statement::{Query, QueryResult, Statement};
use super::sweep::{self, SweepTable, Sweeps};
use super::value::{SqlValue, corrupt_table};
use super::waiting_renewals::WaitingRenewals;
use crate::clock::Clock;
use crate::engine::{
    Busy, Claim, ClaimId, Engine, Filter, LockState, Released, Renewal, Revoke, Revoked, SharedCells,
    Verdict, Wake,
};
use crate::names::BuildIdentityHasher;
use crate::poison::lock_ignoring_poison;
use crate::{Guarantees, LockName, Result};

/// The age at which a row expires, unless the URL sets another one.
pub(in crate::engines) const DEFAULT_MAX_AGE: Duration = Duration::from_secs(30);

/// Locks as rows of a shared table.
pub(in crate::engines) struct InsertEngine<S> {
    shared: Arc<Shared<S>>,
}

struct Shared<S> {
    store: Arc<S>,
    /// The age at which a row expires, for all programs that use the table.
    max_age: Duration,
    /// The number of failed polls of each waiter.
    failed_polls: Mutex<HashMap<ClaimId, u32, BuildIdentityHasher>>,
    waiting_renewals: WaitingRenewals,
    sweeps: Arc<Sweeps>,
}

impl<S> Clone for InsertEngine<S> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone() }
    }
}

/// The guarantees of inserted rows in every database.
pub(in crate::engines) fn promises_of_insert(engine: &'static str) -> Guarantees {
    Guarantees {
        fair: false,
        lists_waiters: false,
        tells_revocations: false,
        read_write: false,
        permits: false,
        beware: "for services that share the table by plain SQL: all must agree on the age at which a row expires, and \
                 delete only their own rows; waiters poll, in no order; a lock of such a service has no token",
        ..super::promises(engine, false)
    }
}

/// The name of a lock as a value.
fn name(lock: &LockName) -> SqlValue {
    SqlValue::Text(lock.as_str().to_owned())
}

impl<S: RowStore> InsertEngine<S> {
    /// Starts a sweep of unused names in the background, if it is due.
    pub(in crate::engines) async fn open(store: S, max_age: Duration) -> Self {
        let engine = Self::new(store, max_age, Arc::new(Sweeps::after_now()));
        // Before any other request, so that it delays nothing.
        if let Ok(Some(due)) = sweep::due(&engine).await {
            tokio::spawn(sweep::sweep(engine.clone(), due));
        }
        engine
    }

    fn new(store: S, max_age: Duration, sweeps: Arc<Sweeps>) -> Self {
        let (store, waiting_renewals) = (Arc::new(store), WaitingRenewals::default());
        let shared = Shared { store, max_age, failed_polls: Mutex::default(), waiting_renewals, sweeps };
        Self { shared: Arc::new(shared) }
    }

    async fn run(&self, statement: Statement, values: impl Into<Vec<SqlValue>>) -> Result<QueryResult> {
        let query = Query::new(statement, values);
        let answers = retry_on_conflict(|| self.shared.store.run(vec![query.clone()])).await?;
        answers.into_iter().next().ok_or_else(corrupt_table)
    }

    fn max_age(&self) -> SqlValue {
        SqlValue::Int(micros(self.shared.max_age))
    }

    async fn row(&self, lock: &LockName) -> Result<Option<InsertedRow>> {
        let answer = self.run(Statement::ReadInserted, [name(lock), self.max_age()]).await?;
        answer.rows.first().map(|row| InsertedRow::read(row)).transpose()
    }
}

impl<S: RowStore> SweepTable for InsertEngine<S> {
    type Store = S;

    fn store(&self) -> &S {
        &self.shared.store
    }

    /// When the client is gone, a sweep has the only reference.
    fn is_needed(&self) -> bool {
        Arc::strong_count(&self.shared) > 1
    }

    /// A name with a row in the shared table is in use: the holder's token must not disappear. A claim that
    /// inserts the row after this read draws a new token with it. The shared table is only read, and no row
    /// of it is locked.
    fn in_use(&self, names: &[SqlValue]) -> Result<Vec<Query>> {
        let read = |name: &SqlValue| {
            Ok(Query::new(Statement::ReadInserted, [SqlValue::Text(name.to_text()?), self.max_age()]))
        };
        names.iter().map(read).collect()
    }
}

impl<S: RowStore> Engine for InsertEngine<S> {
    fn guarantees(&self) -> Guarantees {
        self.shared.store.promises()
    }

    fn clock(&self) -> Clock {
        Clock::boottime()
    }

    /// Uses connections of its own: a claim or a release that waits for a row delays no renewal.
    async fn fork(&self) -> Result<Self> {
        Ok(Self::new(self.shared.store.fork(), self.shared.max_age, self.shared.sweeps.clone()))
    }

    async fn claim(&self, claim: &Claim) -> Result<Verdict> {
        self.claim_lock(claim).await
    }

    /// There are no notifications: the core repeats the claim.
    async fn wait(&self, _: &Claim, _: &Busy) -> Result<Wake> {
        std::future::pending().await
    }

    async fn renew(&self, claims: &[Arc<Claim>]) -> Vec<Result<Renewal>> {
        self.renew_claims(claims).await
    }

    /// The database reports no losses.
    async fn lost_hints(&self) -> Vec<ClaimId> {
        std::future::pending().await
    }

    async fn release(&self, claim: &Claim) -> Result<Released> {
        lock_ignoring_poison(&self.shared.failed_polls).remove(&claim.id);
        let text = row_holder::text(claim);
        let revoked = SqlValue::Text(row_holder::revoked(&text));
        let values = [name(&claim.name), SqlValue::Text(text), revoked];
        match self.run(Statement::DeleteInserted, values).await?.changed {
            0 => Ok(Released::NotHeld),
            _ => Ok(Released::Freed),
        }
    }

    async fn inspect(&self, filter: &Filter) -> Result<Vec<LockState>> {
        self.inspect_locks(filter).await
    }

    async fn revoke(&self, lock: &LockState, how: Revoke) -> Result<Revoked> {
        self.revoke_holder(lock, how).await
    }

    fn cells(&self) -> Option<SharedCells> {
        Some(self.shared.store.clone().cells())
    }
}
