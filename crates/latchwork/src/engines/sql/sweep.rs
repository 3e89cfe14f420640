//! Forgets names that were not used for a day, so that no table grows with every name ever used.
//!
//! Three tables store a token for each name: the locks of `scheme=row`, and the tokens of `scheme=insert` and
//! of session locks. A token is never below the database's clock when it was drawn, so it also shows when
//! that was.
//!
//! The row with the empty name, which no lock can have, stores the floor: no forgotten name had a token above
//! it, and every new row starts above it. Clients of older releases never list that row, because no claim
//! holds it. They do not know the floor, and a new row of theirs starts at the clock. That is above every
//! forgotten token, unless the clock was set back by more than a day since.
//!
//! A sweep ends by raising the floor to a day ago. The next one is due when the floor is an hour older than
//! that, and forgets the names that are not above it. So every claim that could create a forgotten name again
//! began long after the floor was committed, and sees it: no statement of Latchwork waits for an hour. A
//! claim that meets a sweep either draws a new token first, and its row is kept, or finds the row deleted,
//! and starts above the floor. After the clock was set back, no sweep is due until it has passed the floor
//! again.

use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};

use super::conflict::retry_on_passed_conflict;
use super::row_store::{RowStore, Transaction};
use super::statement::{Query, QueryResult, Statement};
use super::value::{SqlValue, corrupt_table};
use crate::clock::{self, Clock, Moment};
use crate::{ErrorKind, Result};

/// How many names are forgotten at most in one transaction.
const PAGE: usize = 500;
/// How often a client checks whether a sweep is due, in seconds, and the maximum random delay on top. The
/// delay spreads the checks of many clients.
const INTERVAL: u64 = 60 * 60;
const JITTER: u64 = 30 * 60;

/// The time of this client's next check.
pub(super) struct Sweeps {
    start: Moment,
    /// Seconds since `start`.
    next: AtomicU64,
}

impl Sweeps {
    /// For a client that checks now.
    pub(super) fn after_now() -> Self {
        Self { start: Clock::boottime().now(), next: AtomicU64::new(next_check(0)) }
    }

    /// For a client that has not checked yet.
    pub(super) fn from_now() -> Self {
        Self { start: Clock::boottime().now(), next: AtomicU64::new(0) }
    }

    /// Whether it is time to check. Returns true to only one caller.
    pub(super) fn is_time(&self) -> bool {
        let Self { start, next } = self;
        let (now, due) = (Clock::boottime().now().since(*start).as_secs(), next.load(Ordering::Relaxed));
        now >= due
            && next.compare_exchange(due, next_check(now), Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}

fn next_check(now: u64) -> u64 {
    now + INTERVAL + u64::from_be_bytes(clock::random_bytes()) % JITTER
}

/// A table that has a row for each name, and is swept.
pub(super) trait SweepTable: Send + Sync + 'static {
    type Store: RowStore;

    fn store(&self) -> &Self::Store;

    /// Whether the client still exists. Otherwise its sweep stops.
    fn is_needed(&self) -> bool;

    /// Statements that show which names are in use although their tokens are old: one for each name, with a
    /// row if it is. Empty: no name is.
    fn in_use(&self, _: &[SqlValue]) -> Result<Vec<Query>> {
        Ok(Vec::new())
    }

    /// Deletes the other rows of a name that is forgotten.
    fn forget_related(&self, _: &SqlValue) -> Option<Query> {
        None
    }

    /// Removes the expired entries of a contended name.
    fn tidy(&self, _: &SqlValue) -> impl Future<Output = Result<()>> + Send {
        async { Ok(()) }
    }
}

/// A sweep is due.
pub(super) struct DueSweep {
    has_floor: bool,
}

/// Checks whether a sweep is due, without a row lock.
pub(super) async fn due(table: &impl SweepTable) -> Result<Option<DueSweep>> {
    let answer = run(table, Statement::SweepDue).await?;
    let Some(row) = answer.rows.first() else { return Ok(None) };
    let [_names, floor] = &row[..] else { return Err(corrupt_table()) };
    Ok(Some(DueSweep { has_floor: *floor != SqlValue::Null }))
}

/// Sweeps if a sweep is due.
pub(super) async fn sweep_if_due(table: impl SweepTable) {
    if let Ok(Some(due)) = due(&table).await {
        sweep(table, due).await;
    }
}

/// Sweeps. Errors are dropped: no caller waits for the result, and the next sweep repeats the part that
/// failed.
pub(super) async fn sweep(table: impl SweepTable, due: DueSweep) {
    if !due.has_floor {
        // Fails if another client was faster.
        let _ = run(&table, Statement::MakeFloor).await;
        return;
    }
    let mut last = Some(SqlValue::bytes(b""));
    while let Some(after) = last
        && table.is_needed()
    {
        last = match sweep_page(&table, after).await {
            Ok(last) => last,
            Err(error) => {
                // This user has no right to delete. The floor is raised all the same, so that no client tries
                // again for an hour.
                if error.kind() == ErrorKind::Denied {
                    let _ = run(&table, Statement::RaiseFloor).await;
                }
                return;
            }
        };
    }
}

async fn run(table: &impl SweepTable, statement: Statement) -> Result<QueryResult> {
    let answers = retry_on_passed_conflict(|| table.store().run(vec![Query::new(statement, [])])).await?;
    answers.into_iter().next().ok_or_else(corrupt_table)
}

/// Forgets the next old names after a name, and returns the last one. `None`: no names are left, or another
/// client is sweeping.
async fn sweep_page(table: &impl SweepTable, after: SqlValue) -> Result<Option<SqlValue>> {
    let (mut transaction, answers) = table.store().begin(vec![Query::new(Statement::LockFloor, [])]).await?;
    let Some(floor) = answers.first().and_then(QueryResult::scalar) else {
        transaction.roll_back().await;
        return Ok(None);
    };
    let page = Query::new(Statement::OldNames, [after, floor.clone(), SqlValue::Int(PAGE as i64)]);
    let page = transaction.run(vec![page]).await?.into_iter().next().ok_or_else(corrupt_table)?.rows;
    let (mut old, mut contended_names) = (Vec::new(), Vec::new());
    for row in &page {
        match &row[..] {
            [name, contended] if contended.as_int()? != 0 => contended_names.push(name.clone()),
            [name, ..] => old.push(name.clone()),
            [] => return Err(corrupt_table()),
        }
    }
    let queries = table.in_use(&old)?;
    if !queries.is_empty() {
        let mut answers = transaction.run(queries).await?.into_iter();
        old.retain(|_| answers.next().is_some_and(|answer| answer.rows.is_empty()));
    }
    let related: Vec<_> = old.iter().filter_map(|name| table.forget_related(name)).collect();
    let forget = |name| Query::new(Statement::Forget, [name, floor.clone()]);
    let mut writes: Vec<_> = old.into_iter().map(forget).chain(related).collect();
    let last = page.last().filter(|_| page.len() == PAGE).and_then(|row| row.first()).cloned();
    if last.is_none() {
        writes.push(Query::new(Statement::RaiseFloor, []));
    }
    transaction.commit(writes).await?;
    for name in &contended_names {
        table.tidy(name).await?;
    }
    Ok(last)
}
