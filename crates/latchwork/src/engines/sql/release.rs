//! The verb `release`: one statement for an uncontended lock, and a transaction on the queue otherwise.

use super::conflict::retry_on_conflict;
use super::operations::ReleaseOperation;
use super::row_engine::{RowEngine, name};
use super::row_store::RowStore;
use super::statement::{Query, Statement};
use super::value::SqlValue;
use crate::Result;
use crate::engine::{Claim, Released};

impl<S: RowStore> RowEngine<S> {
    pub(super) async fn release_lock(&self, claim: &Claim) -> Result<Released> {
        self.store.forget(claim.id);
        let uncontended = Query::new(Statement::ReleaseUncontended, [name(claim), SqlValue::id(claim.id)]);
        if retry_on_conflict(|| self.run_once(&uncontended)).await?.changed > 0 {
            return Ok(Released::Freed);
        }
        let operation = ReleaseOperation(claim);
        retry_on_conflict(|| self.in_transaction(&operation)).await
    }
}
