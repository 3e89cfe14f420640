//! Claims a contended lock, or makes an uncontended one contended.

use std::time::Duration;

use rusqlite::params;

use super::doorbell::QueuePosition;
use super::entry::{
    Entry, delete, entry_after, entry_before, find, lease_end, other_permit_count, uncontended_holder, valid,
};
use super::queue::{
    Queue, SettledQueue, contended, last_token, open_queue, raise_token, remove, write_grant,
};
use super::store::first;
use crate::clock;
use crate::engine::{Busy, Claim, Grant, Mark, Verdict};

/// A waiter claims again after this long at the latest, because a message for it may have been lost on a full
/// FIFO.
const RECHECK_AFTER: Duration = Duration::from_secs(10);

impl Queue<'_> {
    /// Claims a lock that the one-statement path did not get.
    pub(super) fn claim(&mut self, claim: &Claim) -> rusqlite::Result<Verdict> {
        let (db, name) = (self.db, claim.name.as_str());
        let mut mine = None;
        if contended(db, name)? {
            self.check_permit_count(claim)?;
            mine = find(db, name, claim.id)?;
            if let Some(expired) = mine.take_if(|mine| mine.holds() && mine.expires <= self.now) {
                remove(db, name, &expired)?; // A grant whose lease ended unnoticed.
            }
            let holder = entry_after(db, name, 0)?.filter(|holder| holder.is_taken_over_by(claim));
            if let Some(holder) = holder
                && !self.is_gone(&holder)?
            {
                return self.take_over(claim, holder, mine);
            }
        } else {
            if let Some(holder) = uncontended_holder(db, name)? {
                let gone = self.is_gone(&holder)?;
                if !gone && holder.is_taken_over_by(claim) {
                    return self.take_over_uncontended(claim);
                }
                if !gone && holder.id == claim.id {
                    return Ok(holder.grant()); // C1: repeated after a lost reply
                }
                if !gone && claim.wait_lease.is_zero() {
                    // Only a try: nothing is written.
                    let settled = SettledQueue { holders: vec![holder], ..SettledQueue::default() };
                    return Ok(Verdict::Busy(self.busy(&settled)));
                }
                if !gone {
                    Entry { ticket: 1, ..holder }.insert(db, name)?;
                }
            }
            open_queue(db, name)?;
        }
        let ticket = match mine {
            Some(mine) if mine.holds() => return Ok(mine.grant()),
            Some(mine) => mine.ticket,
            None => self.enqueue(claim)?,
        };
        self.position.ticket = ticket;
        loop {
            let settled = self.settle(name, Some(claim))?;
            if let Some(grant) = settled.granted {
                return Ok(Verdict::Granted(grant));
            }
            if claim.wait_lease.is_zero() {
                delete(db, name, ticket)?;
                return Ok(Verdict::Busy(self.busy(&settled)));
            }
            match entry_before(db, name, ticket)? {
                // A dead waiter stood between this claim and the lock: settle again without it.
                Some(ahead) if self.is_dead(ahead.session)? => remove(db, name, &ahead)?,
                ahead => return self.queued(claim, ticket, ahead, &settled).map(Verdict::Busy),
            }
        }
    }

    /// Refuses a claim that names another number of permits than the claims of living sessions.
    fn check_permit_count(&self, claim: &Claim) -> rusqlite::Result<()> {
        let (db, name) = (self.db, claim.name.as_str());
        while let Some(other) = other_permit_count(db, claim)? {
            let gone = if other.holds() { self.is_gone(&other)? } else { self.is_dead(other.session)? };
            if !gone {
                let refused = claim.mode.same_number([other.mode]);
                return refused.map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()));
            }
            remove(db, name, &other)?;
        }
        Ok(())
    }

    /// Takes the place of a holder with the same owner (C13). `waiting`: the former place of this claim.
    fn take_over(
        &mut self,
        claim: &Claim,
        holder: Entry,
        waiting: Option<Entry>,
    ) -> rusqlite::Result<Verdict> {
        let (db, name, ticket) = (self.db, claim.name.as_str(), holder.ticket);
        remove(db, name, &holder)?;
        Entry::waiting(claim, self.session, ticket, clock::wall_micros() as i64).insert(db, name)?;
        let until = lease_end(self.now, claim);
        let token = write_grant(db, name, ticket, last_token(db, name)?.unwrap_or_default(), until)?;
        raise_token(db, name, token)?;
        self.position = QueuePosition { ticket, token };
        if let Some(waiting) = waiting {
            delete(db, name, waiting.ticket)?;
            self.recheck_behind(name, waiting.ticket)?;
        }
        self.recheck_behind(name, ticket)?;
        Ok(Verdict::Granted(Grant { token: Some(token), valid: valid(until) }))
    }

    /// Takes an uncontended lock over from a holder with the same owner (C13).
    fn take_over_uncontended(&self, claim: &Claim) -> rusqlite::Result<Verdict> {
        const REPLACE: &str = "UPDATE lock SET token = max(token + 1, ?2), id = ?3, session = ?4, expires = ?5, \
             since = ?2, note = ?6, revoked = 0 WHERE name = ?1";
        let (wall, until) = (clock::wall_micros() as i64, lease_end(self.now, claim));
        let (name, note) = (claim.name.as_str(), claim.note.as_str());
        let values = params![name, wall, claim.id.as_bytes(), self.session as i64, until, note];
        self.db.prepare_cached(REPLACE)?.execute(values)?;
        let token = last_token(self.db, name)?;
        Ok(Verdict::Granted(Grant { token, valid: valid(until) }))
    }

    /// Appends a claim to the queue, and returns its ticket.
    fn enqueue(&self, claim: &Claim) -> rusqlite::Result<i64> {
        let last = self.db.prepare_cached("SELECT coalesce(max(ticket), 0) FROM claim WHERE name = ?1")?;
        let last = first(last, [claim.name.as_str()], |row| row.get::<_, i64>(0))?.unwrap_or_default();
        let entry = Entry::waiting(claim, self.session, last + 1, clock::wall_micros() as i64);
        entry.insert(self.db, claim.name.as_str())?;
        Ok(entry.ticket)
    }

    /// The verdict for a claim in the queue. Its mark lists the sessions to watch: that of the waiter just
    /// ahead, or those of all holders if no waiter is ahead.
    fn queued(
        &self,
        claim: &Claim,
        ticket: i64,
        ahead: Option<Entry>,
        settled: &SettledQueue,
    ) -> rusqlite::Result<Busy> {
        let (db, name) = (self.db, claim.name.as_str());
        let mut busy = self.busy(settled);
        let count = db.prepare_cached(
            "SELECT count(*) FROM claim WHERE name = ?1 AND ticket < ?2 AND NOT (revoked AND expires = 0)",
        )?;
        let position = first(count, params![name, ticket], |row| row.get::<_, u32>(0))?.unwrap_or_default();
        let watched: Vec<u64> = match ahead {
            Some(waiter) if !waiter.holds() => {
                // A stopped process ahead is not dead. The further behind a claim is, the less often it is
                // repeated.
                busy.again_in = RECHECK_AFTER.min(Duration::from_secs(3) * position);
                vec![waiter.session]
            }
            _ => settled.holders.iter().map(|holder| holder.session).collect(),
        };
        busy.again_in = busy.again_in.min(RECHECK_AFTER);
        busy.position = Some(position);
        let newest = settled.holders.iter().map(|holder| holder.token).max();
        busy.floor = last_token(db, name)?.max(newest);
        busy.mark = Mark(watched.iter().flat_map(|session| session.to_ne_bytes()).collect());
        Ok(busy)
    }

    fn busy(&self, settled: &SettledQueue) -> Busy {
        let holders: Vec<_> = settled.holders.iter().map(|holder| holder.state(self.now)).collect();
        let first_end = holders.iter().filter_map(|holder| holder.expires_in).min();
        let mut busy = Busy::new(first_end.unwrap_or(RECHECK_AFTER));
        busy.holder = holders.into_iter().next();
        busy
    }
}
