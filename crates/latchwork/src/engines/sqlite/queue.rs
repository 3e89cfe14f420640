//! What happens inside one transaction on a contended lock: enrol, settle, hand over.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, params};

use super::doorbell::Place;
use super::entry::{
    CONTENDED_FROM, Entry, QUIET_FROM, delete, entry_after, entry_before, find, lease_end, leave_word,
    other_number, quiet_holder, valid,
};
use super::session::{News, Peer};
use super::store::first;
use crate::clock::{self, Clock};
use crate::engine::{
    Busy, Claim, ClaimId, Filter, Grant, LockState, Mark, Mode, Released, Renewal, Revoke, Revoked, Verdict,
};
use crate::engines::admission::Admission;
use crate::{LockName, Loss};

/// Who acts, in which transaction, and whom to ring once it is committed.
pub(super) struct Queue<'a> {
    pub(super) db: &'a Connection,
    pub(super) session: u64,
    pub(super) sessions: &'a Path,
    pub(super) now: i64,
    pub(super) rings: Rings,
    /// Where the claim that asked stands.
    pub(super) place: Place,
}

/// A waiter asks again after this long, whatever it knows: its news may have been lost on a full FIFO.
const LOOK_AGAIN: Duration = Duration::from_secs(10);

/// Whom to ring, and with what.
pub(super) type Rings = Vec<(Peer, News)>;

/// What a look at all claims of a lock came to.
#[derive(Default)]
struct Settled {
    /// Who holds.
    holders: Vec<Entry>,
    /// The grant of the claim that asked.
    granted: Option<Grant>,
    /// Whether a waiter was handed the lock.
    handed_over: bool,
}

/// Microseconds on the clock that leases are counted on.
pub(super) fn now() -> i64 {
    Clock::boottime().now().as_micros() as i64
}

impl<'a> Queue<'a> {
    pub(super) fn new(db: &'a Connection, session: u64, sessions: &'a Path) -> Self {
        Self { db, session, sessions, now: now(), rings: Rings::new(), place: Place::default() }
    }

    /// `None` if the session is dead. An error ends the transaction: to guess would be to take a living holder's lock.
    fn peer(&self, session: u64) -> rusqlite::Result<Option<Peer>> {
        Peer::open(self.sessions, session)
            .map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))
    }

    fn is_dead(&self, session: u64) -> rusqlite::Result<bool> {
        Ok(session != self.session && self.peer(session)?.is_none())
    }

    /// A holder whose lease or process ended.
    fn is_gone(&self, holder: &Entry) -> rusqlite::Result<bool> {
        Ok(holder.expires <= self.now || self.is_dead(holder.session)?)
    }

    /// Asks for a lock that the one-statement path did not get.
    pub(super) fn claim(&mut self, claim: &Claim) -> rusqlite::Result<Verdict> {
        let (db, name) = (self.db, claim.name.as_str());
        let mut mine = None;
        if contended(db, name)? {
            self.check_number(claim)?;
            mine = find(db, name, claim.id)?;
            if let Some(expired) = mine.take_if(|mine| mine.holds() && mine.expires <= self.now) {
                bury(db, name, &expired)?; // A grant that this claim slept through.
            }
            let holder = entry_after(db, name, 0)?.filter(|holder| holder.is_taken_over_by(claim));
            if let Some(holder) = holder
                && !self.is_gone(&holder)?
            {
                return self.take_over(claim, holder, mine);
            }
        } else {
            if let Some(holder) = quiet_holder(db, name)? {
                let gone = self.is_gone(&holder)?;
                if !gone && holder.is_taken_over_by(claim) {
                    return self.take_over_quietly(claim);
                }
                if !gone && holder.id == claim.id {
                    return Ok(holder.grant()); // C1: asked again after a lost reply
                }
                if !gone && claim.wait_lease.is_zero() {
                    return Ok(Verdict::Busy(
                        self.busy(&Settled { holders: vec![holder], ..Settled::default() }),
                    )); // Only trying: nothing is written.
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
            None => self.enrol(claim)?,
        };
        self.place.ticket = ticket;
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
                // A dead waiter stood between this claim and the lock: look again without it.
                Some(ahead) if self.is_dead(ahead.session)? => bury(db, name, &ahead)?,
                ahead => return self.queued(claim, ticket, ahead, &settled).map(Verdict::Busy),
            }
        }
    }

    /// Refuses a claim that names another number of permits than somebody alive.
    fn check_number(&self, claim: &Claim) -> rusqlite::Result<()> {
        let (db, name) = (self.db, claim.name.as_str());
        while let Some(other) = other_number(db, claim)? {
            let gone = if other.holds() { self.is_gone(&other)? } else { self.is_dead(other.session)? };
            if !gone {
                let refused = claim.mode.same_number([other.mode]);
                return refused.map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()));
            }
            bury(db, name, &other)?;
        }
        Ok(())
    }

    /// Takes the place of a holder with the same owner (C13). `waiting`: where this claim stood until now.
    fn take_over(
        &mut self,
        claim: &Claim,
        holder: Entry,
        waiting: Option<Entry>,
    ) -> rusqlite::Result<Verdict> {
        let (db, name, ticket) = (self.db, claim.name.as_str(), holder.ticket);
        bury(db, name, &holder)?;
        Entry::waiting(claim, self.session, ticket, clock::wall_micros() as i64).insert(db, name)?;
        let until = lease_end(self.now, claim);
        let token = write_grant(db, name, ticket, last_token(db, name)?.unwrap_or_default(), until)?;
        remember(db, name, token)?;
        self.place = Place { ticket, token };
        if let Some(waiting) = waiting {
            delete(db, name, waiting.ticket)?;
            self.look_again_behind(name, waiting.ticket)?;
        }
        self.look_again_behind(name, ticket)?;
        Ok(Verdict::Granted(Grant { token: Some(token), valid: valid(until) }))
    }

    /// The same where nobody waits.
    fn take_over_quietly(&self, claim: &Claim) -> rusqlite::Result<Verdict> {
        const REPLACE: &str = "UPDATE lock SET token = max(token + 1, ?2), id = ?3, session = ?4, expires = ?5, \
             since = ?2, note = ?6, revoked = 0 WHERE name = ?1";
        let (wall, until) = (clock::wall_micros() as i64, lease_end(self.now, claim));
        let (name, note) = (claim.name.as_str(), claim.note.as_str());
        let values = params![name, wall, claim.id.as_bytes(), self.session as i64, until, note];
        self.db.prepare_cached(REPLACE)?.execute(values)?;
        let token = last_token(self.db, name)?;
        Ok(Verdict::Granted(Grant { token, valid: valid(until) }))
    }

    /// Gives back a claim that the one-statement paths did not: waiting, holding beside others, or not there at all.
    pub(super) fn release(&mut self, claim: &Claim) -> rusqlite::Result<Released> {
        let name = claim.name.as_str();
        let Some(mine) = find(self.db, name, claim.id)? else { return Ok(Released::NotHeld) };
        bury(self.db, name, &mine)?;
        let settled = self.settle(name, None)?;
        // Whoever stood just behind watched this session, and must now watch another; unless it was handed the lock.
        if !(mine.holds() && settled.handed_over) {
            self.look_again_behind(name, mine.ticket)?;
        }
        Ok(match mine.holds() && mine.expires <= self.now {
            true if mine.is_word() => Released::Revoked,
            true => Released::NotHeld,
            false => Released::Freed,
        })
    }

    /// Gives an exclusively held lock to the waiter behind it: the short way, for a claim that knows its place. False if
    /// that is not where it is.
    pub(super) fn hand_over(&mut self, claim: &Claim, place: Place) -> rusqlite::Result<bool> {
        const LEAVE: &str =
            "DELETE FROM claim WHERE name = ?1 AND ticket = ?2 AND id = ?3 AND token = ?4 AND expires > ?5";
        let (db, name) = (self.db, claim.name.as_str());
        let values = params![name, place.ticket, claim.id.as_bytes(), place.token as i64, self.now];
        if db.prepare_cached(LEAVE)?.execute(values)? == 0 {
            return Ok(false);
        }
        let next = entry_after(db, name, place.ticket)?;
        if let Some(next) =
            next.filter(|next| !next.holds() && matches!(next.mode, Mode::Exclusive | Mode::Write))
            && let Some(peer) = self.peer(next.session)?
        {
            // Whoever holds alone holds by the newest grant. Its own token stands nowhere else, and need not: this is greater.
            self.hand_to(name, &next, peer, place.token)?;
        } else {
            remember(db, name, place.token)?;
            self.settle(name, None)?;
        }
        Ok(true)
    }

    /// Clears away what is gone of a lock that nobody has used for long.
    pub(super) fn tidy(&mut self, name: &str) -> rusqlite::Result<()> {
        self.settle(name, None).map(drop)
    }

    /// Tells whoever waits just behind this place to ask again: it watched a session that is no longer there.
    fn look_again_behind(&mut self, name: &str, ticket: i64) -> rusqlite::Result<()> {
        match entry_after(self.db, name, ticket)?.filter(|next| !next.holds()) {
            Some(next) => self.look_again(&next),
            None => Ok(()),
        }
    }

    /// Tells a waiter to ask again.
    fn look_again(&mut self, waiter: &Entry) -> rusqlite::Result<()> {
        if let Some(peer) = self.peer(waiter.session)? {
            self.rings.push((peer, News::recheck(waiter.id)));
        }
        Ok(())
    }

    /// Extends a held claim; never brings an expired, revoked or removed one back (C8).
    pub(super) fn renew(&self, claim: &Claim) -> rusqlite::Result<Renewal> {
        const QUIET: &str = "UPDATE lock SET expires = ?3 \
             WHERE name = ?1 AND id = ?2 AND contended = 0 AND expires > ?4 AND revoked = 0";
        const CONTENDED: &str = "UPDATE claim SET expires = ?3 \
             WHERE name = ?1 AND id = ?2 AND token <> 0 AND expires > ?4 AND revoked = 0";
        let (db, name, until) = (self.db, claim.name.as_str(), lease_end(self.now, claim));
        for statement in [QUIET, CONTENDED] {
            let values = params![name, claim.id.as_bytes(), until, self.now];
            if db.prepare_cached(statement)?.execute(values)? == 1 {
                return Ok(Renewal::Kept(valid(until)));
            }
        }
        let holder = quiet_holder(db, name)?.or(entry_after(db, name, 0)?);
        let is_taken_over = holder.as_ref().is_some_and(|holder| holder.is_taken_over_by(claim));
        let mine = holder.filter(|holder| holder.id == claim.id).or(find(db, name, claim.id)?);
        Ok(Renewal::Lost(match mine {
            Some(mine) if mine.revoked => Loss::Revoked,
            Some(mine) if mine.holds() => Loss::Expired,
            _ if is_taken_over => Loss::TakenOver,
            _ => Loss::Removed,
        }))
    }

    /// Takes the lock away from one holder.
    pub(super) fn revoke(&mut self, name: &str, id: ClaimId, how: Revoke) -> rusqlite::Result<Revoked> {
        const QUIET: &str = "UPDATE lock SET revoked = 1, id = iif(?3, NULL, id) \
             WHERE name = ?1 AND id = ?2 AND contended = 0";
        const CONTENDED: &str = "UPDATE claim SET revoked = 1, expires = iif(?3, 0, expires) \
             WHERE name = ?1 AND id = ?2 AND token <> 0";
        let holder =
            quiet_holder(self.db, name)?.filter(|holder| holder.id == id).or(find(self.db, name, id)?);
        let mut changed = 0;
        for statement in [QUIET, CONTENDED] {
            changed +=
                self.db.prepare_cached(statement)?.execute(params![name, id.as_bytes(), how.is_now()])?;
        }
        if changed == 0 {
            return Ok(Revoked::NotHeld);
        }
        if let Some(holder) = holder.filter(|holder| how.is_now() && holder.holds()) {
            // A dead process need not be told.
            match self.is_dead(holder.session)? {
                true => bury(self.db, name, &holder)?,
                false => leave_word(self.db, name, holder)?,
            }
        }
        if contended(self.db, name)? {
            self.settle(name, None)?;
        }
        Ok(Revoked::Done)
    }

    /// Every lock that `filter` names and somebody alive holds or waits for.
    pub(super) fn inspect(&self, filter: &Filter) -> rusqlite::Result<Vec<LockState>> {
        let from = match filter {
            Filter::Name(name) => name.as_str(),
            Filter::Prefix(prefix) => prefix,
        };
        let mut locks = BTreeMap::new();
        for statement in [QUIET_FROM, CONTENDED_FROM] {
            let mut statement = self.db.prepare_cached(statement)?;
            let mut rows = statement.query([from])?;
            while let Some(row) = rows.next()? {
                let (entry, name) = (Entry::read(row)?, row.get::<_, String>(12)?);
                let Some(name) = LockName::new(name).ok().filter(|name| filter.matches(name)) else { break };
                let gone = if entry.holds() { self.is_gone(&entry)? } else { self.is_dead(entry.session)? };
                if !gone {
                    let state = locks.entry(name.clone()).or_insert_with(|| LockState::new(name));
                    let list = if entry.holds() { &mut state.holders } else { &mut state.waiters };
                    list.push(entry.describe(self.now));
                }
            }
        }
        Ok(locks.into_values().collect())
    }

    /// Clears away holders that are gone and grants the lock to whom the rule admits, in the order of arrival. Only
    /// those about to be granted are probed: the dead never receive the lock, and the cost does not grow with the queue.
    fn settle(&mut self, name: &str, caller: Option<&Claim>) -> rusqlite::Result<Settled> {
        let (mut settled, mut admission, mut ticket) = (Settled::default(), Admission::default(), 0);
        while !admission.is_full() {
            let Some(entry) = entry_after(self.db, name, ticket)? else {
                if settled.holders.is_empty() {
                    close_queue(self.db, name)?;
                }
                break;
            };
            ticket = entry.ticket;
            if !entry.holds() && !admission.fits(entry.mode) {
                if settled.handed_over || settled.granted.is_some() {
                    self.look_again(&entry)?; // It watched one that now holds beside others, and must watch them all.
                }
                break;
            }
            let stays = if entry.holds() {
                !self.is_gone(&entry)?
            } else {
                self.grant(&entry, caller, name, &mut settled)?
            };
            if stays {
                admission.count(entry.mode);
                settled.holders.push(entry);
            } else {
                bury(self.db, name, &entry)?;
            }
        }
        Ok(settled)
    }

    /// Grants the lock to a waiter, unless it is dead.
    fn grant(
        &mut self,
        waiter: &Entry,
        caller: Option<&Claim>,
        name: &str,
        settled: &mut Settled,
    ) -> rusqlite::Result<bool> {
        if let Some(claim) = caller.filter(|claim| claim.id == waiter.id) {
            let until = lease_end(self.now, claim);
            let last = last_token(self.db, name)?.unwrap_or_default();
            let token = write_grant(self.db, name, waiter.ticket, last, until)?;
            remember(self.db, name, token)?;
            self.place.token = token;
            settled.granted = Some(Grant { token: Some(token), valid: valid(until) });
            return Ok(true);
        }
        let Some(peer) = self.peer(waiter.session)? else { return Ok(false) };
        let last = last_token(self.db, name)?.unwrap_or_default();
        let token = self.hand_to(name, waiter, peer, last)?;
        remember(self.db, name, token)?;
        settled.handed_over = true;
        Ok(true)
    }

    fn hand_to(&mut self, name: &str, waiter: &Entry, peer: Peer, last: u64) -> rusqlite::Result<u64> {
        // A short lease until the receiver shows that it lives: its first renewal makes it a full one.
        let until = self.now.saturating_add(waiter.hand_over);
        let token = write_grant(self.db, name, waiter.ticket, last, until)?;
        self.rings.push((peer, News { id: waiter.id, token, until }));
        Ok(token)
    }

    /// Takes a place at the end of the queue.
    fn enrol(&self, claim: &Claim) -> rusqlite::Result<i64> {
        let last = self.db.prepare_cached("SELECT coalesce(max(ticket), 0) FROM claim WHERE name = ?1")?;
        let last = first(last, [claim.name.as_str()], |row| row.get::<_, i64>(0))?.unwrap_or_default();
        let entry = Entry::waiting(claim, self.session, last + 1, clock::wall_micros() as i64);
        entry.insert(self.db, claim.name.as_str())?;
        Ok(entry.ticket)
    }

    /// The answer to a claim that stands in the queue. Its mark names the sessions it watches: the one just ahead, or
    /// all holders if no waiter is ahead.
    fn queued(
        &self,
        claim: &Claim,
        ticket: i64,
        ahead: Option<Entry>,
        settled: &Settled,
    ) -> rusqlite::Result<Busy> {
        let (db, name) = (self.db, claim.name.as_str());
        let mut busy = self.busy(settled);
        let count = db.prepare_cached(
            "SELECT count(*) FROM claim WHERE name = ?1 AND ticket < ?2 AND NOT (revoked AND expires = 0)",
        )?;
        let position = first(count, params![name, ticket], |row| row.get::<_, u32>(0))?.unwrap_or_default();
        let watched: Vec<u64> = match ahead {
            Some(waiter) if !waiter.holds() => {
                // A stopped process ahead is not dead. The further behind, the less often it is worth a look.
                busy.again_in = LOOK_AGAIN.min(Duration::from_secs(3) * position);
                vec![waiter.session]
            }
            _ => settled.holders.iter().map(|holder| holder.session).collect(),
        };
        busy.again_in = busy.again_in.min(LOOK_AGAIN);
        busy.position = Some(position);
        let newest = settled.holders.iter().map(|holder| holder.token).max();
        busy.floor = last_token(db, name)?.max(newest);
        busy.mark = Mark(watched.iter().flat_map(|session| session.to_ne_bytes()).collect());
        Ok(busy)
    }

    fn busy(&self, settled: &Settled) -> Busy {
        let holders: Vec<_> = settled.holders.iter().map(|holder| holder.describe(self.now)).collect();
        let first_end = holders.iter().filter_map(|holder| holder.expires_in).min();
        let mut busy = Busy::new(first_end.unwrap_or(LOOK_AGAIN));
        busy.holder = holders.into_iter().next();
        busy
    }
}

/// Rings whom a transaction named; only once it is committed.
pub(super) fn ring(rings: Rings) {
    rings.into_iter().for_each(|(peer, news)| peer.ring(news));
}

fn contended(db: &Connection, name: &str) -> rusqlite::Result<bool> {
    let select = db.prepare_cached("SELECT contended FROM lock WHERE name = ?1")?;
    Ok(first(select, [name], |row| row.get(0))?.unwrap_or(false))
}

fn last_token(db: &Connection, name: &str) -> rusqlite::Result<Option<u64>> {
    let select = db.prepare_cached("SELECT token FROM lock WHERE name = ?1")?;
    first(select, [name], |row| Ok(row.get::<_, i64>(0)? as u64))
}

/// From here on `claim` says who holds and who waits.
fn open_queue(db: &Connection, name: &str) -> rusqlite::Result<()> {
    const OPEN: &str = "INSERT INTO lock (name, token, contended) VALUES (?1, (SELECT floor FROM meta), 1) \
         ON CONFLICT (name) DO UPDATE SET contended = 1, id = NULL";
    db.prepare_cached(OPEN)?.execute([name]).map(drop)
}

/// Writes a grant down, with a token above the last.
fn write_grant(db: &Connection, name: &str, ticket: i64, last: u64, until: i64) -> rusqlite::Result<u64> {
    const GRANT: &str =
        "UPDATE claim SET token = ?3, expires = ?4, since = ?5 WHERE name = ?1 AND ticket = ?2";
    let wall = clock::wall_micros();
    let token = wall.max(last + 1);
    db.prepare_cached(GRANT)?.execute(params![name, ticket, token as i64, until, wall as i64])?;
    Ok(token)
}

/// The lock remembers a token that no row will tell any more.
fn remember(db: &Connection, name: &str, token: u64) -> rusqlite::Result<()> {
    let remember = db.prepare_cached("UPDATE lock SET token = max(token, ?2) WHERE name = ?1");
    remember?.execute(params![name, token as i64]).map(drop)
}

/// Clears a row away.
fn bury(db: &Connection, name: &str, entry: &Entry) -> rusqlite::Result<()> {
    if entry.holds() {
        remember(db, name, entry.token)?;
    }
    delete(db, name, entry.ticket)
}

/// A lock that nobody holds or waits for any more goes back to the one-statement path.
fn close_queue(db: &Connection, name: &str) -> rusqlite::Result<()> {
    db.prepare_cached("UPDATE lock SET contended = 0 WHERE name = ?1")?.execute([name]).map(drop)
}
