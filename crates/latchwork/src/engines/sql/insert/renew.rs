//! The verb `renew` of `scheme=insert`.

use std::sync::Arc;

use super::inserted_row::InsertedRow;
use super::{InsertEngine, name, row_holder};
use crate::engine::{Claim, Mode, Renewal, Valid};
use crate::engines::sql::conflict::retry_on_passed_conflict;
use crate::engines::sql::entry::micros;
use crate::engines::sql::row_store::{RowStore, Transaction};
use crate::engines::sql::statement::{Query, QueryResult, Statement};
use crate::engines::sql::value::{SqlValue, corrupt_table};
use crate::engines::sql::waiting_renewals::{RenewalCaller, row_is_locked};
use crate::{Loss, Result};

impl<S: RowStore> InsertEngine<S> {
    pub(super) async fn renew_claims(&self, claims: &[Arc<Claim>]) -> Vec<Result<Renewal>> {
        if let [claim] = claims {
            let (engine, claim) = (self.clone(), claim.clone());
            let renewal = |caller| async move { engine.renew_waiting(&claim, &caller).await };
            if let Some(renewed) = self.shared.waiting_renewals.wait(renewal).await {
                return vec![renewed];
            }
        }
        match self.renew_batch(claims).await {
            Ok(renewals) => renewals,
            Err(error) => claims.iter().map(|_| Err(error.again())).collect(),
        }
    }

    /// The statements that renew a row, and then read how long it lasts: its column may not store fractions
    /// of a second.
    fn renewal_queries(&self, claim: &Claim) -> [Query; 2] {
        let (ttl, holder) = (SqlValue::Int(micros(claim.ttl)), SqlValue::Text(row_holder::text(claim)));
        let values = [name(&claim.name), holder, ttl, self.max_age()];
        [
            Query::new(Statement::RenewInserted, values),
            Query::new(Statement::ReadInserted, [name(&claim.name), self.max_age()]),
        ]
    }

    /// Renews a claim, and waits for its row if another transaction has locked it.
    async fn renew_waiting(&self, claim: &Claim, caller: &RenewalCaller) -> Result<Renewal> {
        let renew = || async {
            let (transaction, answers) =
                self.shared.store.begin(self.renewal_queries(claim).to_vec()).await?;
            caller.commit(transaction).await?;
            Ok(answers)
        };
        let answers = retry_on_passed_conflict(renew).await?;
        let [renewed, row] = &answers[..] else { return Err(corrupt_table()) };
        renewal(claim, renewed.changed > 0, row)
    }

    /// Renews the claims whose rows are not locked by another transaction. Waits for no row.
    async fn renew_batch(&self, claims: &[Arc<Claim>]) -> Result<Vec<Result<Renewal>>> {
        let own = claims.iter().map(|claim| {
            let values = [name(&claim.name), SqlValue::Text(row_holder::text(claim))];
            Query::new(Statement::OwnInserted, values)
        });
        let queries: Vec<_> = own.collect();
        let renew = || async {
            let (transaction, own) = self.shared.store.begin(queries.clone()).await?;
            let locked: Vec<_> = own.iter().map(|own| !own.rows.is_empty()).collect();
            let writes = claims.iter().zip(&locked).filter(|(_, is_locked)| **is_locked);
            let writes = writes.flat_map(|(claim, _)| self.renewal_queries(claim)).collect();
            Ok((locked, transaction.commit(writes).await?))
        };
        let (locked, written) = retry_on_passed_conflict(renew).await?;
        let (mut written, mut renewals) = (written.chunks(2), Vec::with_capacity(claims.len()));
        for (claim, is_locked) in claims.iter().zip(locked) {
            renewals.push(match (is_locked, is_locked.then(|| written.next())) {
                (true, Some(Some([renewed, row]))) => renewal(claim, renewed.changed > 0, row),
                (true, _) => Err(corrupt_table()),
                (false, _) => self.why_not_locked(claim).await,
            });
        }
        Ok(renewals)
    }

    /// Why a claim's row could not be locked at once: the claim is lost, or another transaction has locked
    /// the row.
    async fn why_not_locked(&self, claim: &Claim) -> Result<Renewal> {
        match self.row(&claim.name).await? {
            Some(row) if row.text == row_holder::text(claim) && !row.is_expired() => Err(row_is_locked()),
            row => Ok(Renewal::Lost(loss(claim, row.as_ref()))),
        }
    }
}

fn renewal(claim: &Claim, is_renewed: bool, row: &QueryResult) -> Result<Renewal> {
    let row = row.rows.first().map(|row| InsertedRow::read(row)).transpose()?;
    Ok(match row {
        Some(row) if is_renewed => Renewal::Kept(Valid::For(row.valid_for(claim)?)),
        row => Renewal::Lost(loss(claim, row.as_ref())),
    })
}

/// Why a claim is lost, when this row exists.
fn loss(claim: &Claim, row: Option<&InsertedRow>) -> Loss {
    match row.map(|row| &row.holder) {
        Some(holder) if holder.id == claim.id && holder.is_revoked => Loss::Revoked,
        Some(holder) if holder.id == claim.id => Loss::Expired,
        Some(holder) if claim.takes_over(holder.id, Mode::Exclusive, holder.owner.as_ref()) => {
            Loss::TakenOver
        }
        _ => Loss::Removed,
    }
}
