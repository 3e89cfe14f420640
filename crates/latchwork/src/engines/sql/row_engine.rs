//! The engine for `scheme=row`. Each verb has a file of its own.

use std::sync::Arc;
use std::time::Duration;

use super::conflict::{Conflict, retry_on_conflict, retry_on_passed_conflict};
use super::operations::{LockOperation, TidyOperation};
use super::queue::{Queue, TransactionEnd, opening};
use super::row_store::{RowStore, Transaction};
use super::statement::{Query, QueryResult, Statement};
use super::sweep::{self, SweepTable, Sweeps};
use super::value::{SqlValue, corrupt_table};
use super::waiting_renewals::WaitingRenewals;
use crate::clock::Clock;
use crate::engine::{
    Busy, Claim, ClaimId, Engine, Filter, LockState, Released, Renewal, Revoke, Revoked, SharedCells,
    Verdict, Wake,
};
use crate::{Error, ErrorKind, Faults, Guarantees, LockName, Promise, Result};

/// Locks as rows of a database.
pub(in crate::engines) struct RowEngine<S> {
    pub(super) store: Arc<S>,
    pub(super) warnings: Vec<String>,
    pub(super) waiting_renewals: WaitingRenewals,
    pub(super) sweeps: Arc<Sweeps>,
}

impl<S> Clone for RowEngine<S> {
    fn clone(&self) -> Self {
        let Self { store, warnings, waiting_renewals, sweeps } = self;
        let (store, warnings) = (store.clone(), warnings.clone());
        let (waiting_renewals, sweeps) = (waiting_renewals.clone(), sweeps.clone());
        Self { store, warnings, waiting_renewals, sweeps }
    }
}

/// The guarantees of rows in every database.
pub(in crate::engines) fn promises(engine: &'static str, pushes: bool) -> Guarantees {
    Guarantees {
        engine,
        tokens: Some("max(counter + 1, the database's clock in us)"),
        tokens_survive_data_loss: true,
        fair: true,
        lists_waiters: true,
        pushes,
        tells_losses: false,
        tells_revocations: true,
        lives_with_session: false,
        read_write: true,
        permits: true,
        cells: true,
        watchers_told: if pushes { "at once" } else { "within 250 ms: they look" },
        takes_over: true,
        survives_blocked_runtime: true,
        outlives_wrapper: false,
        min_ttl: Duration::from_millis(100),
        max_ttl: Duration::from_secs(24 * 60 * 60),
        ttl_option: None,
        dead_holder: "the ttl",
        faults: Faults {
            holder_crash: Promise::Exclusive,
            holder_pause: Promise::FencedOnly,
            restart: Promise::Exclusive,
            failover: Promise::FencedOnly,
            partition: Promise::Exclusive,
            clock_step: Promise::FencedOnly,
            data_deleted: Promise::FencedOnly,
        },
        beware: "every grant and every release is a durable commit; a replica that takes over may lack the newest commits",
        warnings: Vec::new(),
    }
}

/// The name of a claim's lock as a value.
pub(super) fn name(claim: &Claim) -> SqlValue {
    SqlValue::bytes(claim.name.as_str().as_bytes())
}

impl<S: RowStore> RowEngine<S> {
    /// Starts a sweep of unused names in the background, if it is due.
    pub(in crate::engines) async fn open(store: S, warnings: Vec<String>) -> Self {
        let (waiting_renewals, sweeps) = (WaitingRenewals::default(), Arc::new(Sweeps::after_now()));
        let engine = Self { store: Arc::new(store), warnings, waiting_renewals, sweeps };
        // Before any other request, so that it delays nothing.
        if let Ok(Some(due)) = sweep::due(&engine).await {
            tokio::spawn(sweep::sweep(engine.clone(), due));
        }
        engine
    }

    /// Runs one statement by itself.
    pub(super) async fn run(
        &self,
        statement: Statement,
        values: impl Into<Vec<SqlValue>>,
    ) -> Result<QueryResult> {
        let query = Query::new(statement, values);
        retry_on_passed_conflict(|| self.run_once(&query)).await
    }

    pub(super) async fn run_once(&self, query: &Query) -> Result<QueryResult> {
        let answers = self.store.run(vec![query.clone()]).await?;
        answers.into_iter().next().ok_or_else(corrupt_table)
    }

    /// Runs an operation in a transaction on its lock.
    pub(super) async fn in_transaction<O: LockOperation>(&self, operation: &O) -> Result<O::Answer> {
        let (lock, id) = (operation.lock(), operation.id());
        let (mut transaction, mut answers) = self.store.begin(opening(lock, id)).await?;
        if answers.first().is_some_and(|row| row.rows.is_empty()) {
            if let Some(answer) = operation.without_row() {
                transaction.roll_back().await;
                return Ok(answer);
            }
            let make = Query::new(Statement::MakeRow, [SqlValue::bytes(lock.as_str().as_bytes())]);
            transaction.run(vec![make]).await?;
            answers = transaction.run(opening(lock, id)).await?;
        }
        let Some((queue, own)) = Queue::open(&mut transaction, lock, &answers)? else {
            // Another client created it, and it was forgotten since.
            return Err(Error::new(ErrorKind::Unreachable, "the row of the lock was deleted meanwhile")
                .with_source(Conflict::Passed));
        };
        match operation.run(queue, own).await? {
            TransactionEnd::Commit(answer, writes) => {
                transaction.commit(writes).await?;
                Ok(answer)
            }
            TransactionEnd::RollBack(answer) => {
                transaction.roll_back().await;
                Ok(answer)
            }
        }
    }
}

impl<S: RowStore> SweepTable for RowEngine<S> {
    type Store = S;

    fn store(&self) -> &S {
        &self.store
    }

    /// When the client is gone, a sweep has the only reference to the store.
    fn is_needed(&self) -> bool {
        Arc::strong_count(&self.store) > 1
    }

    fn forget_related(&self, name: &SqlValue) -> Option<Query> {
        Some(Query::new(Statement::ForgetRevoked, [name.clone()]))
    }

    /// Entries of dead clients keep the name in use until a client checks the queue. The next sweep forgets
    /// the name.
    async fn tidy(&self, name: &SqlValue) -> Result<()> {
        let name = LockName::new(name.to_text()?).map_err(|_| corrupt_table())?;
        let operation = TidyOperation(&name);
        retry_on_conflict(|| self.in_transaction(&operation)).await
    }
}

impl<S: RowStore> Engine for RowEngine<S> {
    fn guarantees(&self) -> Guarantees {
        let mut promises = self.store.promises();
        promises.warnings = self.warnings.clone();
        promises
    }

    fn clock(&self) -> Clock {
        Clock::boottime()
    }

    /// Uses connections of its own: a claim or a release that waits for a row delays no renewal.
    async fn fork(&self) -> Result<Self> {
        let (store, warnings) = (Arc::new(self.store.fork()), self.warnings.clone());
        let (waiting_renewals, sweeps) = (WaitingRenewals::default(), self.sweeps.clone());
        Ok(Self { store, warnings, waiting_renewals, sweeps })
    }

    async fn claim(&self, claim: &Claim) -> Result<Verdict> {
        self.claim_lock(claim).await
    }

    async fn wait(&self, claim: &Claim, busy: &Busy) -> Result<Wake> {
        self.wait_for_notification(claim, busy).await
    }

    async fn renew(&self, claims: &[Arc<Claim>]) -> Vec<Result<Renewal>> {
        self.renew_claims(claims).await
    }

    /// The database reports no losses.
    async fn lost_hints(&self) -> Vec<ClaimId> {
        std::future::pending().await
    }

    async fn release(&self, claim: &Claim) -> Result<Released> {
        self.release_lock(claim).await
    }

    async fn inspect(&self, filter: &Filter) -> Result<Vec<LockState>> {
        self.inspect_locks(filter).await
    }

    async fn revoke(&self, lock: &LockState, how: Revoke) -> Result<Revoked> {
        self.revoke_holders(lock, how).await
    }

    fn cells(&self) -> Option<SharedCells> {
        Some(self.store.clone().cells())
    }
}
