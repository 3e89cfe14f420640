//! Releases a claim that waits, or whose lock is contended.

use rusqlite::params;

use super::doorbell::QueuePosition;
use super::entry::{entry_after, find};
use super::queue::{Queue, raise_token, remove};
use crate::engine::{Claim, Mode, Released};

impl Queue<'_> {
    /// Releases a claim that the one-statement paths did not: it waits, holds a contended lock, or is absent.
    pub(super) fn release(&mut self, claim: &Claim) -> rusqlite::Result<Released> {
        let name = claim.name.as_str();
        let Some(mine) = find(self.db, name, claim.id)? else { return Ok(Released::NotHeld) };
        remove(self.db, name, &mine)?;
        let settled = self.settle(name, None)?;
        // The waiter just behind watched this session, and must watch another now; unless it was granted the
        // lock.
        if !(mine.holds() && settled.handed_over) {
            self.recheck_behind(name, mine.ticket)?;
        }
        Ok(match mine.holds() && mine.expires <= self.now {
            true if mine.is_revocation_record() => Released::Revoked,
            true => Released::NotHeld,
            false => Released::Freed,
        })
    }

    /// Hands an exclusively held lock to the waiter behind its holder, by the holder's known place. Returns
    /// false if the claim does not hold the lock at that place.
    pub(super) fn hand_over(&mut self, claim: &Claim, position: QueuePosition) -> rusqlite::Result<bool> {
        const DELETE_OWN: &str =
            "DELETE FROM claim WHERE name = ?1 AND ticket = ?2 AND id = ?3 AND token = ?4 AND expires > ?5";
        let (db, name) = (self.db, claim.name.as_str());
        let values = params![name, position.ticket, claim.id.as_bytes(), position.token as i64, self.now];
        if db.prepare_cached(DELETE_OWN)?.execute(values)? == 0 {
            return Ok(false);
        }
        let next = entry_after(db, name, position.ticket)?;
        if let Some(next) =
            next.filter(|next| !next.holds() && matches!(next.mode, Mode::Exclusive | Mode::Write))
            && let Some(peer) = self.peer(next.session)?
        {
            // The grant of an exclusive holder is the newest. Its token is stored nowhere else, and need not
            // be: the next token is greater.
            self.hand_to(name, &next, peer, position.token)?;
        } else {
            raise_token(db, name, position.token)?;
            self.settle(name, None)?;
        }
        Ok(true)
    }
}
