//! Extends the lease of a holder.

use rusqlite::params;

use super::entry::{entry_after, find, lease_end, uncontended_holder, valid};
use super::queue::Queue;
use crate::Loss;
use crate::engine::{Claim, Renewal};

impl Queue<'_> {
    /// Extends the lease of a holder. An expired, revoked or removed claim stays lost (C8).
    pub(super) fn renew(&self, claim: &Claim) -> rusqlite::Result<Renewal> {
        const UNCONTENDED: &str = "UPDATE lock SET expires = ?3 \
             WHERE name = ?1 AND id = ?2 AND contended = 0 AND expires > ?4 AND revoked = 0";
        const CONTENDED: &str = "UPDATE claim SET expires = ?3 \
             WHERE name = ?1 AND id = ?2 AND token <> 0 AND expires > ?4 AND revoked = 0";
        let (db, name, until) = (self.db, claim.name.as_str(), lease_end(self.now, claim));
        for statement in [UNCONTENDED, CONTENDED] {
            let values = params![name, claim.id.as_bytes(), until, self.now];
            if db.prepare_cached(statement)?.execute(values)? == 1 {
                return Ok(Renewal::Kept(valid(until)));
            }
        }
        let holder = uncontended_holder(db, name)?.or(entry_after(db, name, 0)?);
        let is_taken_over = holder.as_ref().is_some_and(|holder| holder.is_taken_over_by(claim));
        let mine = holder.filter(|holder| holder.id == claim.id).or(find(db, name, claim.id)?);
        Ok(Renewal::Lost(match mine {
            Some(mine) if mine.revoked => Loss::Revoked,
            Some(mine) if mine.holds() => Loss::Expired,
            _ if is_taken_over => Loss::TakenOver,
            _ => Loss::Removed,
        }))
    }
}
