//! The verbs `inspect` and `revoke`.

use std::collections::BTreeMap;

use super::conflict::retry_on_conflict;
use super::entry::Entry;
use super::operations::RevokeOperation;
use super::row_engine::RowEngine;
use super::row_store::RowStore;
use super::statement::{Query, Statement};
use super::value::{SqlValue, corrupt_table};
use crate::engine::{Filter, LockState, Revoke, Revoked};
use crate::{LockName, Result};

impl<S: RowStore> RowEngine<S> {
    pub(super) async fn inspect_locks(&self, filter: &Filter) -> Result<Vec<LockState>> {
        let (from, to) = match filter {
            Filter::Name(name) => (name.as_str().as_bytes(), name.as_str().as_bytes().to_vec()),
            // No name contains this byte.
            Filter::Prefix(prefix) => (prefix.as_bytes(), [prefix.as_bytes(), &[0xff]].concat()),
        };
        let mut states = Vec::new();
        for (name, entries) in self.list(from, &to).await? {
            let name = String::from_utf8(name).map_err(|_| corrupt_table())?;
            let mut state = LockState::new(LockName::new(name).map_err(|_| corrupt_table())?);
            for (entry, now) in entries.iter().filter(|(entry, now)| !entry.is_expired(*now)) {
                let claims = if entry.holds() { &mut state.holders } else { &mut state.waiters };
                claims.push(entry.describe(*now));
            }
            if !(state.holders.is_empty() && state.waiters.is_empty()) {
                states.push(state);
            }
        }
        Ok(states)
    }

    pub(super) async fn revoke_holders(&self, lock: &LockState, how: Revoke) -> Result<Revoked> {
        let mut done = Revoked::NotHeld;
        for holder in &lock.holders {
            let operation = RevokeOperation { lock: &lock.name, id: holder.id, how };
            if retry_on_conflict(|| self.in_transaction(&operation)).await? == Revoked::Done {
                done = Revoked::Done;
            }
        }
        Ok(done)
    }

    /// All holders and waiters of the locks between two names, each with the time it was read.
    pub(super) async fn list(&self, from: &[u8], to: &[u8]) -> Result<BTreeMap<Vec<u8>, Vec<(Entry, i64)>>> {
        let query = |statement| Query::new(statement, [SqlValue::bytes(from), SqlValue::bytes(to)]);
        let queries = vec![query(Statement::ListUncontended), query(Statement::ListQueued)];
        let answers = self.store.run(queries).await?;
        let [uncontended, queued] = &answers[..] else { return Err(corrupt_table()) };
        let mut locks = BTreeMap::<_, Vec<_>>::new();
        for row in &uncontended.rows {
            let [now, name, token, holder @ ..] = &row[..] else { return Err(corrupt_table()) };
            if let Some(entry) = Entry::uncontended(token.as_int()?, holder)? {
                locks.entry(name.as_bytes()?.to_vec()).or_default().push((entry, now.as_int()?));
            }
        }
        for row in &queued.rows {
            let [now, name, entry @ ..] = &row[..] else { return Err(corrupt_table()) };
            locks.entry(name.as_bytes()?.to_vec()).or_default().push((Entry::read(entry)?, now.as_int()?));
        }
        Ok(locks)
    }
}
