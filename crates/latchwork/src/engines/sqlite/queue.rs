//! What happens inside one transaction on a contended lock: enrol, settle, hand over.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, params};

use super::entry::{
    CONTENDED_BETWEEN, Entry, QUIET_BETWEEN, delete, entry_after, entry_before, find, lease_end,
    quiet_holder, valid,
};
use super::session::{News, Peer};
use super::store::first;
use crate::clock::{self, Clock};
use crate::engine::{
    Busy, Claim, ClaimId, Filter, Grant, LockState, Mark, Released, Renewal, Revoke, Revoked, Verdict,
};
use crate::engines::rule::Admission;
use crate::{LockName, Loss};

/// Who acts, in which transaction, and whom to ring once it is committed.
pub(super) struct Queue<'a> {
    pub(super) db: &'a Connection,
    pub(super) session: u64,
    pub(super) sessions: &'a Path,
    pub(super) now: i64,
    pub(super) rings: Rings,
}

/// Whom to ring, and with what.
pub(super) type Rings = Vec<(Peer, News)>;

/// What a look at all claims of a lock came to.
#[derive(Default)]
struct Settled {
    /// The first holder.
    holder: Option<Entry>,
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
        Self { db, session, sessions, now: now(), rings: Rings::new() }
    }

    fn sees(&self, session: u64) -> bool {
        session == self.session || Peer::open(self.sessions, session).is_some()
    }

    /// A holder whose lease or process ended.
    fn is_gone(&self, holder: &Entry) -> bool {
        holder.expires <= self.now || !self.sees(holder.session)
    }

    /// Asks for a lock that the one-statement path did not get.
    pub(super) fn claim(&mut self, claim: &Claim) -> rusqlite::Result<Verdict> {
        let (db, name) = (self.db, claim.name.as_str());
        let mut mine = None;
        if contended(db, name)? {
            mine = find(db, name, claim.id)?;
            if let Some(slept_through) = mine.take_if(|mine| mine.holds() && self.is_gone(mine)) {
                delete(db, name, slept_through.ticket)?;
            }
        } else {
            if let Some(holder) = quiet_holder(db, name)? {
                let gone = self.is_gone(&holder);
                if !gone && holder.id == claim.id {
                    return Ok(holder.grant()); // C1: asked again after a lost reply
                }
                if !gone && claim.wait_lease.is_zero() {
                    return Ok(Verdict::Busy(self.busy(Some(&holder)))); // Only trying: nothing is written.
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
        let settled = self.settle(name, Some(claim))?;
        if let Some(grant) = settled.granted {
            return Ok(Verdict::Granted(grant));
        }
        if claim.wait_lease.is_zero() {
            delete(db, name, ticket)?;
            return Ok(Verdict::Busy(self.busy(settled.holder.as_ref())));
        }
        self.queued(claim, ticket, settled.holder.as_ref()).map(Verdict::Busy)
    }

    /// Gives back a claim that the one-statement path did not find: contended, waiting, or not there at all.
    pub(super) fn release(&mut self, claim: &Claim) -> rusqlite::Result<Released> {
        let name = claim.name.as_str();
        let Some(mine) = find(self.db, name, claim.id)? else { return Ok(Released::NotHeld) };
        delete(self.db, name, mine.ticket)?;
        if !self.settle(name, None)?.handed_over {
            self.ring_the_next(name, mine.ticket)?;
        }
        Ok(Released::Freed)
    }

    /// Whoever stood just behind a claim that left watched its session, and must now watch another.
    fn ring_the_next(&mut self, name: &str, ticket: i64) -> rusqlite::Result<()> {
        if let Some(next) = entry_after(self.db, name, ticket)?.filter(|next| !next.holds())
            && let Some(peer) = Peer::open(self.sessions, next.session)
        {
            self.rings.push((peer, News::recheck(next.id)));
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
        let mine = match quiet_holder(db, name)?.filter(|holder| holder.id == claim.id) {
            None => find(db, name, claim.id)?,
            quiet => quiet,
        };
        Ok(Renewal::Lost(match mine {
            Some(mine) if mine.revoked => Loss::Revoked,
            Some(mine) if mine.holds() => Loss::Expired,
            _ => Loss::Removed,
        }))
    }

    /// Takes the lock away from one holder.
    pub(super) fn revoke(&mut self, name: &str, id: ClaimId, how: Revoke) -> rusqlite::Result<Revoked> {
        const QUIET: &str = "UPDATE lock SET revoked = 1, id = iif(?3, NULL, id) \
             WHERE name = ?1 AND id = ?2 AND contended = 0";
        const CONTENDED: &str = "UPDATE claim SET revoked = 1, expires = iif(?3, 0, expires) \
             WHERE name = ?1 AND id = ?2 AND token <> 0";
        let mut changed = 0;
        for statement in [QUIET, CONTENDED] {
            changed += self.db.prepare_cached(statement)?.execute(params![
                name,
                id.as_bytes(),
                how == Revoke::Now
            ])?;
        }
        if changed == 0 {
            return Ok(Revoked::NotHeld);
        }
        if contended(self.db, name)? {
            self.settle(name, None)?;
        }
        Ok(Revoked::Done)
    }

    /// Every lock that `filter` names and somebody alive holds or waits for.
    pub(super) fn inspect(&self, filter: &Filter) -> rusqlite::Result<Vec<LockState>> {
        let (from, to) = match filter {
            Filter::Name(name) => (name.to_string(), name.to_string()),
            Filter::Prefix(prefix) => (prefix.clone(), format!("{prefix}\u{10FFFF}")),
        };
        let mut locks = BTreeMap::new();
        for statement in [QUIET_BETWEEN, CONTENDED_BETWEEN] {
            let mut statement = self.db.prepare_cached(statement)?;
            let mut rows = statement.query([&from, &to])?;
            while let Some(row) = rows.next()? {
                let (entry, name) = (Entry::read(row)?, row.get::<_, String>(11)?);
                let Some(name) = LockName::new(name).ok().filter(|name| filter.matches(name)) else {
                    continue;
                };
                let gone = if entry.holds() { self.is_gone(&entry) } else { !self.sees(entry.session) };
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
                if settled.holder.is_none() {
                    close_queue(self.db, name)?;
                }
                break;
            };
            ticket = entry.ticket;
            if !entry.holds() && !admission.fits(entry.mode) {
                break;
            }
            let stays = if entry.holds() {
                !self.is_gone(&entry)
            } else {
                self.grant(&entry, caller, name, &mut settled)?
            };
            if stays {
                admission.count(entry.mode);
                settled.holder.get_or_insert(entry);
            } else {
                delete(self.db, name, ticket)?;
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
            let token = grant(self.db, name, waiter.ticket, until)?;
            settled.granted = Some(Grant { token: Some(token), valid: valid(until) });
            return Ok(true);
        }
        let Some(peer) = Peer::open(self.sessions, waiter.session) else { return Ok(false) };
        // A short lease until the receiver shows that it lives: its first renewal makes it a full one.
        let until = self.now.saturating_add(waiter.hand_over);
        let token = grant(self.db, name, waiter.ticket, until)?;
        self.rings.push((peer, News { id: waiter.id, token, until }));
        settled.handed_over = true;
        Ok(true)
    }

    /// Takes a place at the end of the queue.
    fn enrol(&self, claim: &Claim) -> rusqlite::Result<i64> {
        let last = self.db.prepare_cached("SELECT coalesce(max(ticket), 0) FROM claim WHERE name = ?1")?;
        let last = first(last, [claim.name.as_str()], |row| row.get::<_, i64>(0))?.unwrap_or_default();
        let entry = Entry::waiting(claim, self.session, last + 1, clock::wall_micros() as i64);
        entry.insert(self.db, claim.name.as_str())?;
        Ok(entry.ticket)
    }

    /// The answer to a claim that stands in the queue. Its mark is the session just ahead, the only one it watches.
    fn queued(&self, claim: &Claim, ticket: i64, holder: Option<&Entry>) -> rusqlite::Result<Busy> {
        let (db, name) = (self.db, claim.name.as_str());
        let ahead = loop {
            match entry_before(db, name, ticket)? {
                Some(ahead) if !self.sees(ahead.session) => delete(db, name, ahead.ticket)?,
                ahead => break ahead,
            }
        };
        let mut busy = self.busy(holder);
        let count = db.prepare_cached("SELECT count(*) FROM claim WHERE name = ?1 AND ticket < ?2")?;
        busy.position = first(count, params![name, ticket], |row| row.get(0))?;
        if ahead.as_ref().is_some_and(|ahead| !ahead.holds()) {
            // Only the first in line looks after a holder whose lease ends; the others look after it, and less often.
            busy.again_in = claim.ttl;
        }
        busy.floor = last_token(db, name)?;
        busy.mark = Mark(ahead.map_or_else(Vec::new, |ahead| ahead.session.to_ne_bytes().to_vec()));
        Ok(busy)
    }

    fn busy(&self, holder: Option<&Entry>) -> Busy {
        const UNLEASED: Duration = Duration::from_secs(60);
        let Some(holder) = holder else { return Busy::new(Duration::ZERO) };
        let state = holder.describe(self.now);
        let mut busy = Busy::new(state.expires_in.unwrap_or(UNLEASED));
        busy.holder = Some(state);
        busy
    }
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

/// A lock that nobody holds or waits for any more goes back to the one-statement path.
fn close_queue(db: &Connection, name: &str) -> rusqlite::Result<()> {
    db.prepare_cached("UPDATE lock SET contended = 0 WHERE name = ?1")?.execute([name]).map(drop)
}

fn grant(db: &Connection, name: &str, ticket: i64, until: i64) -> rusqlite::Result<u64> {
    let wall = clock::wall_micros() as i64;
    let token = last_token(db, name)?.unwrap_or_default() as i64;
    let token = wall.max(token + 1);
    db.prepare_cached("UPDATE lock SET token = ?2 WHERE name = ?1")?.execute(params![name, token])?;
    db.prepare_cached(
        "UPDATE claim SET token = ?3, expires = ?4, since = ?5 WHERE name = ?1 AND ticket = ?2",
    )?
    .execute(params![name, ticket, token, until, wall])?;
    Ok(token as u64)
}
