//! The verb `renew`.

use std::sync::Arc;

use super::conflict::retry_on_passed_conflict;
use super::entry::micros;
use super::row_engine::{RowEngine, name};
use super::row_store::{RowStore, Transaction};
use super::statement::{Query, QueryResult, Statement};
use super::value::SqlValue;
use super::waiting_renewals::{RenewalCaller, row_is_locked};
use crate::engine::{Claim, Renewal, Valid};
use crate::{Loss, Result};

/// How many claims are renewed in one transaction.
const BATCH: usize = 256;

fn renewal_query(statement: Statement, claim: &Claim) -> Query {
    Query::new(statement, [name(claim), SqlValue::id(claim.id), SqlValue::Int(micros(claim.ttl))])
}

impl<S: RowStore> RowEngine<S> {
    pub(super) async fn renew_claims(&self, claims: &[Arc<Claim>]) -> Vec<Result<Renewal>> {
        if let [claim] = claims {
            let (engine, claim) = (self.clone(), claim.clone());
            let renewal = |caller| async move { engine.renew_waiting(&claim, &caller).await };
            if let Some(renewed) = self.waiting_renewals.wait(renewal).await {
                return vec![renewed];
            }
        }
        let mut answers = Vec::with_capacity(claims.len());
        for batch in claims.chunks(BATCH) {
            match self.renew_batch(batch).await {
                Ok(renewals) => answers.extend(renewals),
                Err(error) => answers.extend(batch.iter().map(|_| Err(error.again()))),
            }
        }
        answers
    }

    /// Renews a claim, and waits for its row if another transaction has locked it.
    async fn renew_waiting(&self, claim: &Claim, caller: &RenewalCaller) -> Result<Renewal> {
        // The queue comes second: a holder can move from the row of the lock into the queue, and not back.
        let queries = [Statement::RenewUncontended, Statement::RenewQueued]
            .map(|statement| renewal_query(statement, claim));
        let renew = || async {
            let (transaction, answers) = self.store.begin(queries.to_vec()).await?;
            caller.commit(transaction).await?;
            Ok(answers.iter().map(|answer| answer.changed).sum::<u64>())
        };
        match retry_on_passed_conflict(renew).await? {
            0 => Ok(Renewal::Lost(self.loss(claim).await?.unwrap_or(Loss::Expired))),
            _ => Ok(Renewal::Kept(Valid::For(claim.ttl))),
        }
    }

    /// Renews the claims whose rows are not locked by another transaction. Waits for no row: one locked row
    /// would cost all the others their leases.
    async fn renew_batch(&self, claims: &[Arc<Claim>]) -> Result<Vec<Result<Renewal>>> {
        let own = |statement| {
            move |claim: &Arc<Claim>| Query::new(statement, [name(claim), SqlValue::id(claim.id)])
        };
        let rows = claims.iter().map(own(Statement::OwnRow));
        let entries = claims.iter().map(own(Statement::OwnEntry));
        let queries: Vec<_> = rows.chain(entries).collect();
        let renew = || async {
            let (transaction, own) = self.store.begin(queries.clone()).await?;
            let (rows, entries) = own.split_at(claims.len());
            let renewal =
                |(row, entry): (&QueryResult, &QueryResult)| match (row.rows.len(), entry.rows.len()) {
                    (0, 0) => None,
                    (0, _) => Some(Statement::RenewQueued),
                    _ => Some(Statement::RenewUncontended),
                };
            let statements: Vec<_> = rows.iter().zip(entries).map(renewal).collect();
            let writes = claims
                .iter()
                .zip(&statements)
                .filter_map(|(claim, statement)| Some(renewal_query((*statement)?, claim)));
            let written = transaction.commit(writes.collect()).await?;
            Ok((statements, written))
        };
        let (statements, written) = retry_on_passed_conflict(renew).await?;
        let (mut written, mut renewals) = (written.into_iter(), Vec::with_capacity(claims.len()));
        for (claim, statement) in claims.iter().zip(statements) {
            let is_renewed = statement.and_then(|_| written.next()).is_some_and(|answer| answer.changed > 0);
            renewals.push(match is_renewed {
                true => Ok(Renewal::Kept(Valid::For(claim.ttl))),
                false => match self.loss(claim).await {
                    Ok(loss) => loss.map(Renewal::Lost).ok_or_else(row_is_locked),
                    Err(error) => Err(error),
                },
            });
        }
        Ok(renewals)
    }

    /// Why a claim is lost. `None`: it is not lost, as far as can be seen without waiting for another
    /// transaction.
    async fn loss(&self, claim: &Claim) -> Result<Option<Loss>> {
        let locks = self.list(claim.name.as_str().as_bytes(), claim.name.as_str().as_bytes()).await?;
        let Some((_, entries)) = locks.into_iter().next() else { return Ok(Some(Loss::Removed)) };
        let own = entries.iter().find(|(entry, _)| entry.id == claim.id);
        Ok(match own {
            Some((own, _)) if own.revoked => Some(Loss::Revoked),
            Some((own, now)) if own.holds() => own.is_expired(*now).then_some(Loss::Expired),
            _ if entries.iter().any(|(entry, _)| entry.is_taken_over_by(claim)) => Some(Loss::TakenOver),
            _ => Some(Loss::Removed),
        })
    }
}
