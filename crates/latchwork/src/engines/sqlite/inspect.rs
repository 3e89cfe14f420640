//! Lists holders and waiters, and revokes a holder's claim for an operator.

use std::collections::BTreeMap;

use rusqlite::params;

use super::entry::{CONTENDED_FROM, Entry, UNCONTENDED_FROM, find, record_revocation, uncontended_holder};
use super::queue::{Queue, contended, remove};
use crate::LockName;
use crate::engine::{ClaimId, Filter, LockState, Revoke, Revoked};

impl Queue<'_> {
    /// The locks that `filter` matches, with their living holders and waiters.
    pub(super) fn inspect(&self, filter: &Filter) -> rusqlite::Result<Vec<LockState>> {
        let from = match filter {
            Filter::Name(name) => name.as_str(),
            Filter::Prefix(prefix) => prefix,
        };
        let mut locks = BTreeMap::new();
        for statement in [UNCONTENDED_FROM, CONTENDED_FROM] {
            let mut statement = self.db.prepare_cached(statement)?;
            let mut rows = statement.query([from])?;
            while let Some(row) = rows.next()? {
                let (entry, name) = (Entry::read(row)?, row.get::<_, String>(12)?);
                let Some(name) = LockName::new(name).ok().filter(|name| filter.matches(name)) else { break };
                let gone = if entry.holds() { self.is_gone(&entry)? } else { self.is_dead(entry.session)? };
                if !gone {
                    let state = locks.entry(name.clone()).or_insert_with(|| LockState::new(name));
                    let list = if entry.holds() { &mut state.holders } else { &mut state.waiters };
                    list.push(entry.state(self.now));
                }
            }
        }
        Ok(locks.into_values().collect())
    }

    /// Revokes the claim of one holder.
    pub(super) fn revoke(&mut self, name: &str, id: ClaimId, how: Revoke) -> rusqlite::Result<Revoked> {
        const UNCONTENDED: &str = "UPDATE lock SET revoked = 1, id = iif(?3, NULL, id) \
             WHERE name = ?1 AND id = ?2 AND contended = 0";
        const CONTENDED: &str = "UPDATE claim SET revoked = 1, expires = iif(?3, 0, expires) \
             WHERE name = ?1 AND id = ?2 AND token <> 0";
        let holder =
            uncontended_holder(self.db, name)?.filter(|holder| holder.id == id).or(find(self.db, name, id)?);
        let mut changed = 0;
        for statement in [UNCONTENDED, CONTENDED] {
            changed +=
                self.db.prepare_cached(statement)?.execute(params![name, id.as_bytes(), how.is_now()])?;
        }
        if changed == 0 {
            return Ok(Revoked::NotHeld);
        }
        if let Some(holder) = holder.filter(|holder| how.is_now() && holder.holds()) {
            // A dead process reads no record.
            match self.is_dead(holder.session)? {
                true => remove(self.db, name, &holder)?,
                false => record_revocation(self.db, name, holder)?,
            }
        }
        if contended(self.db, name)? {
            self.settle(name, None)?;
        }
        Ok(Revoked::Done)
    }
}
