//! The verbs `inspect` and `revoke` of `scheme=insert`.

use super::inserted_row::InsertedRow;
use super::{InsertEngine, name, row_holder};
use crate::engine::{Filter, LockState, Revoke, Revoked};
use crate::engines::sql::row_store::RowStore;
use crate::engines::sql::statement::Statement;
use crate::engines::sql::value::SqlValue;
use crate::{LockName, Result};

impl<S: RowStore> InsertEngine<S> {
    pub(super) async fn inspect_locks(&self, filter: &Filter) -> Result<Vec<LockState>> {
        let answer = match filter {
            Filter::Name(lock) => self.run(Statement::ReadInserted, [name(lock), self.max_age()]).await?,
            Filter::Prefix(prefix) => {
                let values = [SqlValue::Text(prefix.clone()), self.max_age()];
                self.run(Statement::ListInserted, values).await?
            }
        };
        let mut states = Vec::new();
        for row in &answer.rows {
            let row = InsertedRow::read(row)?;
            // Other programs may use names that Latchwork refuses.
            if let (Ok(name), false) = (LockName::new(&row.name), row.is_expired()) {
                let mut state = LockState::new(name);
                state.holders.push(row.describe());
                states.push(state);
            }
        }
        Ok(states)
    }

    pub(super) async fn revoke_holder(&self, lock: &LockState, how: Revoke) -> Result<Revoked> {
        let Some(row) = self.row(&lock.name).await? else { return Ok(Revoked::NotHeld) };
        if !lock.holders.iter().any(|holder| holder.id == row.holder.id) {
            return Ok(Revoked::NotHeld);
        }
        how.check(&row.describe()).map_err(|error| error.about(&lock.name))?;
        // Only the holder that was read, and not one that has replaced it meanwhile. A foreign holder has
        // only the name that was read.
        let revoked = if row.is_foreign() { row.text.clone() } else { row_holder::revoked(&row.text) };
        let [holder, revoked] = [row.text.clone(), revoked].map(SqlValue::Text);
        let statement = if how.is_now() { Statement::DeleteInserted } else { Statement::RevokeInserted };
        let is_done = row.holder.is_revoked && !how.is_now()
            || self.run(statement, [name(&lock.name), holder, revoked]).await?.changed > 0;
        Ok(if is_done { Revoked::Done } else { Revoked::NotHeld })
    }
}
