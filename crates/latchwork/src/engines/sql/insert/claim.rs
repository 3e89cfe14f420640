//! The verb `claim` of `scheme=insert`.

use std::time::Duration;

use super::inserted_row::{InsertedRow, micros_to_duration};
use super::{InsertEngine, name, row_holder};
use crate::engine::{Busy, Claim, Grant, Lifetime, Mode, Valid, Verdict};
use crate::engines::sql::conflict::{Conflict, retry_on_passed_conflict};
use crate::engines::sql::entry::micros;
use crate::engines::sql::row_store::{RowStore, Transaction};
use crate::engines::sql::statement::{Query, QueryResult, Statement};
use crate::engines::sql::sweep;
use crate::engines::sql::value::{SqlValue, corrupt_table};
use crate::poison::lock_ignoring_poison;
use crate::{Effect, Error, ErrorKind, Result};

/// The first pause of a waiter between two polls. Each further pause is twice as long, up to the maximum.
const MIN_INTERVAL: Duration = Duration::from_millis(5);
const MAX_INTERVAL: Duration = Duration::from_millis(80);

/// The result of an insert.
enum InsertResult {
    Granted(Grant),
    /// Another row exists; the row, if it was read.
    Busy(Option<InsertedRow>),
}

impl<S: RowStore> InsertEngine<S> {
    pub(super) async fn claim_lock(&self, claim: &Claim) -> Result<Verdict> {
        if claim.mode != Mode::Exclusive || claim.lifetime != Lifetime::Lease {
            let message =
                "scheme=insert supports only exclusive locks with a lease; scheme=row supports all kinds";
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        let verdict = self.claim_or_poll(claim).await;
        if matches!(verdict, Ok(Verdict::Granted(_))) {
            lock_ignoring_poison(&self.shared.failed_polls).remove(&claim.id);
            if self.shared.sweeps.is_time() {
                tokio::spawn(sweep::sweep_if_due(self.clone()));
            }
        }
        verdict
    }

    async fn claim_or_poll(&self, claim: &Claim) -> Result<Verdict> {
        let is_waiting = lock_ignoring_poison(&self.shared.failed_polls).contains_key(&claim.id);
        // A failed insert costs the server a commit. Where it takes a transaction, it also locks the holder's
        // row, and the holder's own delete can then become the victim of a deadlock. A read costs neither.
        let reads_first = is_waiting || !S::INSERTS_IN_ONE_STATEMENT;
        let current = if reads_first { self.row(&claim.name).await? } else { None };
        if let Some(row) = &current
            && !row.is_expired()
            && !claim.takes_over(row.holder.id, Mode::Exclusive, row.holder.owner.as_ref())
        {
            return self.verdict(claim, row);
        }
        let row = match self.insert(claim, current.as_ref()).await? {
            InsertResult::Granted(grant) => return Ok(Verdict::Granted(grant)),
            InsertResult::Busy(None) => self.row(&claim.name).await?,
            InsertResult::Busy(row) => row,
        };
        match row {
            Some(row) => self.verdict(claim, &row),
            // It was deleted meanwhile.
            None => Ok(Verdict::Busy(Busy::new(Duration::from_millis(1)))),
        }
    }

    /// Tries to insert the row. The unique key decides between concurrent claims. `current` is the row to
    /// replace.
    async fn insert(&self, claim: &Claim, current: Option<&InsertedRow>) -> Result<InsertResult> {
        let values = vec![
            name(&claim.name),
            SqlValue::Text(row_holder::text(claim)),
            SqlValue::Int(micros(claim.ttl)),
            self.max_age(),
            claim.owner.as_ref().map_or(SqlValue::Null, |owner| SqlValue::Text(owner.as_str().to_owned())),
            SqlValue::Text(claim.note.as_str().to_owned()),
        ];
        if !S::INSERTS_IN_ONE_STATEMENT {
            let first = if current.is_some() { Statement::ReplaceInserted } else { Statement::Insert };
            return match self.insert_in_transaction(claim, first, &values).await {
                // A competitor was faster. A retry would only collide with it again.
                Err(error) if Conflict::of(&error) == Some(Conflict::Passed) => Ok(InsertResult::Busy(None)),
                answer => answer,
            };
        }
        let insert = Query::new(Statement::Insert, values);
        let answers = retry_on_passed_conflict(|| self.shared.store.run(vec![insert.clone()])).await?;
        let answer = answers.into_iter().next().ok_or_else(corrupt_table)?;
        let Some([token, left]) = answer.rows.first().map(Vec::as_slice) else {
            return Ok(InsertResult::Busy(None));
        };
        // A row means that the lock was granted, whatever the values are.
        let read = |value: &SqlValue| value.as_int().map_err(|error| error.with_effect(Effect::Unknown));
        let valid = Valid::For(micros_to_duration(read(left)?).min(claim.ttl));
        Ok(InsertResult::Granted(Grant { token: Some(read(token)? as u64), valid }))
    }

    async fn insert_in_transaction(
        &self,
        claim: &Claim,
        first: Statement,
        values: &[SqlValue],
    ) -> Result<InsertResult> {
        let writes = [first, Statement::DrawToken].map(|statement| Query::new(statement, values));
        let read = Query::new(Statement::ReadInserted, [name(&claim.name), self.max_age()]);
        let queries = writes.into_iter().chain([read]).collect();
        let (transaction, answers) = self.shared.store.begin(queries).await?;
        let row = answers.last().and_then(|held: &QueryResult| held.rows.first());
        match row.map(|row| InsertedRow::read(row)).transpose()? {
            Some(row) if row.text == row_holder::text(claim) => {
                transaction.commit(Vec::new()).await?;
                let token = Some(row.token.ok_or_else(corrupt_table)? as u64);
                Ok(InsertResult::Granted(Grant { token, valid: Valid::For(row.valid_for(claim)?) }))
            }
            row => {
                transaction.roll_back().await;
                Ok(InsertResult::Busy(row))
            }
        }
    }

    /// The answer for a claim when this row exists: the claim's own row, or that of another holder.
    fn verdict(&self, claim: &Claim, row: &InsertedRow) -> Result<Verdict> {
        if row.text == row_holder::text(claim) {
            // Repeated after a lost reply: the answer is the same.
            let valid = Valid::For(row.valid_for(claim)?);
            return Ok(Verdict::Granted(Grant { token: row.token.map(|token| token as u64), valid }));
        }
        let pause = (MIN_INTERVAL * (1 << self.count_failed_poll(claim).min(8))).min(MAX_INTERVAL);
        let mut busy = Busy::new(pause.min(row.expires_in().unwrap_or(pause) + Duration::from_millis(1)));
        busy.holder = Some(row.describe());
        Ok(Verdict::Busy(busy))
    }

    /// Counts a failed poll. Returns the number of earlier ones.
    fn count_failed_poll(&self, claim: &Claim) -> u32 {
        // Nothing is kept of a claim that does not wait.
        if claim.wait_lease.is_zero() {
            return 0;
        }
        let mut failed_polls = lock_ignoring_poison(&self.shared.failed_polls);
        let count = failed_polls.entry(claim.id).or_default();
        *count = count.saturating_add(1);
        *count - 1
    }
}
