//! What happens inside one transaction on a contended lock: enrol, settle, hand over.

use std::path::Path;
use std::time::{Duration, SystemTime};

use rusqlite::{Connection, Row, params};

use super::session::{News, Peer};
use super::store::first;
use crate::clock::{self, Clock, Moment};
use crate::engine::{
    Busy, Claim, ClaimId, ClaimState, Filter, Grant, Lifetime, LockState, Mark, Mode, Note, Released,
    Renewal, Revoke, Revoked, Valid, Verdict,
};
use crate::engines::rule::Admission;
use crate::{LockName, Loss};

/// Who acts: this session, and where to find the others.
pub(super) struct Actor<'a> {
    pub(super) session: u64,
    pub(super) sessions: &'a Path,
}

/// Whom to ring once the transaction is committed.
pub(super) type Rings = Vec<(Peer, News)>;

/// One row of `claim`, or the holder of an uncontended `lock`.
struct Entry {
    ticket: i64,
    id: ClaimId,
    session: u64,
    mode: Mode,
    token: u64,
    hand_over: i64,
    expires: i64,
    since: i64,
    revoked: bool,
    note: String,
}

const ENTRY: &str = "ticket, id, session, mode, permits, token, hand_over, expires, since, revoked, note";
const UNCONTENDED: &str =
    "0 AS ticket, id, session, 0 AS mode, 0 AS permits, token, 0 AS hand_over, expires, since, revoked, note";

impl Entry {
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            ticket: row.get(0)?,
            id: ClaimId::from_bytes(row.get(1)?),
            session: row.get::<_, i64>(2)? as u64,
            mode: decode_mode(row.get(3)?, row.get(4)?),
            token: row.get::<_, i64>(5)? as u64,
            hand_over: row.get(6)?,
            expires: row.get(7)?,
            since: row.get(8)?,
            revoked: row.get(9)?,
            note: row.get(10)?,
        })
    }

    fn holds(&self) -> bool {
        self.token != 0
    }

    /// A holder whose lease or process ended.
    fn is_gone(&self, now: i64, actor: &Actor<'_>) -> bool {
        self.expires <= now || !actor.sees(self.session)
    }

    fn grant(&self) -> Verdict {
        Verdict::Granted(Grant { token: Some(self.token), valid: valid(self.expires) })
    }

    fn describe(&self, now: i64) -> ClaimState {
        let mut state = ClaimState::new(self.id);
        state.token = self.holds().then_some(self.token);
        state.note = Note::new(&self.note);
        state.since = Some(SystemTime::UNIX_EPOCH + Duration::from_micros(self.since.max(0) as u64));
        let leased = self.holds() && self.expires != i64::MAX;
        state.expires_in = leased.then(|| Duration::from_micros((self.expires - now).max(0) as u64));
        state
    }
}

impl Actor<'_> {
    fn sees(&self, session: u64) -> bool {
        session == self.session || Peer::open(self.sessions, session).is_some()
    }

    /// Asks for a lock that the one-statement path did not get.
    pub(super) fn claim(
        &self,
        db: &Connection,
        claim: &Claim,
        rings: &mut Rings,
    ) -> rusqlite::Result<Verdict> {
        let (name, now) = (claim.name.as_str(), now());
        if let Some(holder) = uncontended_holder(db, name)? {
            if holder.id == claim.id {
                return Ok(holder.grant()); // C1: asked again after a lost reply
            }
            let gone = holder.is_gone(now, self);
            if !gone && claim.wait_lease.is_zero() {
                return Ok(Verdict::Busy(busy(&holder, now))); // Only trying: nothing is written.
            }
            if !gone {
                insert(db, name, &Entry { ticket: 1, ..holder })?;
            }
        }
        db.prepare_cached("INSERT INTO lock (name, token, contended) VALUES (?1, (SELECT floor FROM meta), 1) ON CONFLICT (name) DO UPDATE SET contended = 1, id = NULL")?
            .execute([name])?;
        if find(db, name, claim.id)?.is_none() {
            insert(db, name, &self.entry(db, claim)?)?;
        }
        self.settle(db, name, Some(claim), rings)?;
        let verdict = match find(db, name, claim.id)? {
            Some(mine) if mine.holds() => mine.grant(),
            Some(mine) if claim.wait_lease.is_zero() => {
                delete(db, name, mine.ticket)?;
                Verdict::Busy(
                    first_entry(db, name)?
                        .map_or_else(|| Busy::new(Duration::ZERO), |holder| busy(&holder, now)),
                )
            }
            Some(mine) => Verdict::Busy(self.queued(db, claim, &mine, now)?),
            None => Verdict::Busy(Busy::new(Duration::ZERO)),
        };
        close_if_empty(db, name)?;
        Ok(verdict)
    }

    /// Gives back a claim that the one-statement path did not find: contended, waiting, or not there at all.
    pub(super) fn release(
        &self,
        db: &Connection,
        claim: &Claim,
        rings: &mut Rings,
    ) -> rusqlite::Result<Released> {
        let name = claim.name.as_str();
        let Some(mine) = find(db, name, claim.id)? else { return Ok(Released::NotHeld) };
        delete(db, name, mine.ticket)?;
        self.settle(db, name, None, rings)?;
        // Whoever stood just behind watched this session, and must now watch another.
        if let Some(next) = entry_after(db, name, mine.ticket)?.filter(|next| !next.holds())
            && let Some(peer) = Peer::open(self.sessions, next.session)
        {
            rings.push((peer, News::recheck(next.id)));
        }
        close_if_empty(db, name)?;
        Ok(Released::Freed)
    }

    /// Extends a held claim; never brings an expired, revoked or removed one back (C8).
    pub(super) fn renew(&self, db: &Connection, claim: &Claim) -> rusqlite::Result<Renewal> {
        const QUIET: &str = "UPDATE lock SET expires = ?3 WHERE name = ?1 AND id = ?2 AND contended = 0 AND expires > ?4 AND revoked = 0";
        const CONTENDED: &str = "UPDATE claim SET expires = ?3 WHERE name = ?1 AND id = ?2 AND token <> 0 AND expires > ?4 AND revoked = 0";
        let (name, now) = (claim.name.as_str(), now());
        let until = lease_end(now, claim);
        for statement in [QUIET, CONTENDED] {
            if db.prepare_cached(statement)?.execute(params![name, claim.id.as_bytes(), until, now])? == 1 {
                return Ok(Renewal::Kept(valid(until)));
            }
        }
        let quiet = uncontended_holder(db, name)?.filter(|holder| holder.id == claim.id);
        let mine = match quiet {
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
    pub(super) fn revoke(
        &self,
        db: &Connection,
        name: &str,
        id: ClaimId,
        how: Revoke,
        rings: &mut Rings,
    ) -> rusqlite::Result<Revoked> {
        let quiet = "UPDATE lock SET revoked = 1, id = iif(?3, NULL, id) WHERE name = ?1 AND id = ?2 AND contended = 0";
        let contended = "UPDATE claim SET revoked = 1, expires = iif(?3, 0, expires) WHERE name = ?1 AND id = ?2 AND token <> 0";
        let mut changed = 0;
        for statement in [quiet, contended] {
            changed +=
                db.prepare_cached(statement)?.execute(params![name, id.as_bytes(), how == Revoke::Now])?;
        }
        self.settle(db, name, None, rings)?;
        close_if_empty(db, name)?;
        Ok(if changed == 0 { Revoked::NotHeld } else { Revoked::Done })
    }

    /// Every lock that `filter` names and somebody alive holds or waits for.
    pub(super) fn inspect(&self, db: &Connection, filter: &Filter) -> rusqlite::Result<Vec<LockState>> {
        let (from, to) = match filter {
            Filter::Name(name) => (name.to_string(), name.to_string()),
            Filter::Prefix(prefix) => (prefix.clone(), format!("{prefix}\u{10FFFF}")),
        };
        let quiet = format!(
            "SELECT {UNCONTENDED}, name FROM lock WHERE name BETWEEN ?1 AND ?2 AND id IS NOT NULL AND contended = 0"
        );
        let contended =
            format!("SELECT {ENTRY}, name FROM claim WHERE name BETWEEN ?1 AND ?2 ORDER BY name, ticket");
        let (now, mut locks) = (now(), std::collections::BTreeMap::new());
        for statement in [quiet, contended] {
            let mut statement = db.prepare_cached(&statement)?;
            let mut rows = statement.query([&from, &to])?;
            while let Some(row) = rows.next()? {
                let (entry, name) = (Entry::read(row)?, row.get::<_, String>(11)?);
                let Some(name) = LockName::new(name).ok().filter(|name| filter.matches(name)) else {
                    continue;
                };
                let gone = if entry.holds() { entry.is_gone(now, self) } else { !self.sees(entry.session) };
                if gone {
                    continue;
                }
                let state = locks.entry(name.clone()).or_insert_with(|| LockState::new(name));
                let list = if entry.holds() { &mut state.holders } else { &mut state.waiters };
                list.push(entry.describe(now));
            }
        }
        Ok(locks.into_values().collect())
    }

    /// Clears away holders that are gone and grants the lock to whom the rule admits, in the order of arrival. Only
    /// those about to be granted are probed: the dead never receive the lock, and the cost does not grow with the queue.
    fn settle(
        &self,
        db: &Connection,
        name: &str,
        caller: Option<&Claim>,
        rings: &mut Rings,
    ) -> rusqlite::Result<()> {
        let (now, mut admission, mut ticket) = (now(), Admission::default(), 0);
        while let Some(entry) = entry_after(db, name, ticket)? {
            ticket = entry.ticket;
            if entry.holds() {
                if entry.is_gone(now, self) {
                    delete(db, name, ticket)?
                } else {
                    admission.count(entry.mode)
                }
                continue;
            }
            if !admission.fits(entry.mode) {
                break;
            }
            if let Some(claim) = caller.filter(|claim| claim.id == entry.id) {
                admission.count(entry.mode);
                grant(db, name, ticket, lease_end(now, claim))?;
            } else if let Some(peer) = Peer::open(self.sessions, entry.session) {
                admission.count(entry.mode);
                // A short lease until the receiver shows that it lives: its first renewal makes it a full one.
                let until = now.saturating_add(entry.hand_over);
                let token = grant(db, name, ticket, until)?;
                rings.push((peer, News { id: entry.id, token, until }));
            } else {
                delete(db, name, ticket)?;
            }
        }
        Ok(())
    }

    fn entry(&self, db: &Connection, claim: &Claim) -> rusqlite::Result<Entry> {
        let last = db.prepare_cached("SELECT coalesce(max(ticket), 0) FROM claim WHERE name = ?1")?;
        let last = first(last, [claim.name.as_str()], |row| row.get::<_, i64>(0))?.unwrap_or_default();
        let hand_over = match claim.lifetime {
            Lifetime::Lease => micros(claim.wait_lease.min(claim.ttl)),
            Lifetime::Session => i64::MAX,
        };
        Ok(Entry {
            ticket: last + 1,
            id: claim.id,
            session: self.session,
            mode: claim.mode,
            token: 0,
            hand_over,
            expires: 0,
            since: clock::wall_micros() as i64,
            revoked: false,
            note: claim.note.as_str().to_owned(),
        })
    }

    /// The answer to a claim that stands in the queue. Its mark is the session just ahead, the only one it watches.
    fn queued(&self, db: &Connection, claim: &Claim, mine: &Entry, now: i64) -> rusqlite::Result<Busy> {
        let name = claim.name.as_str();
        let before =
            format!("SELECT {ENTRY} FROM claim WHERE name = ?1 AND ticket < ?2 ORDER BY ticket DESC LIMIT 1");
        let ahead = loop {
            match first(db.prepare_cached(&before)?, params![name, mine.ticket], Entry::read)? {
                Some(ahead) if !self.sees(ahead.session) => delete(db, name, ahead.ticket)?,
                ahead => break ahead,
            }
        };
        let mut answer =
            first_entry(db, name)?.map_or_else(|| Busy::new(Duration::ZERO), |holder| busy(&holder, now));
        let count = db.prepare_cached("SELECT count(*) FROM claim WHERE name = ?1 AND ticket < ?2")?;
        answer.position = first(count, params![name, mine.ticket], |row| row.get(0))?;
        if answer.position != Some(1) {
            // Only the first in line looks after a holder whose lease ends; the others look after the first, and less often.
            answer.again_in = claim.ttl;
        }
        answer.floor = last_token(db, name)?;
        answer.mark = Mark(ahead.map_or_else(Vec::new, |ahead| ahead.session.to_ne_bytes().to_vec()));
        Ok(answer)
    }
}

fn now() -> i64 {
    Clock::boottime().now().as_micros() as i64
}

fn micros(span: Duration) -> i64 {
    i64::try_from(span.as_micros()).unwrap_or(i64::MAX)
}

pub(super) fn lease_end(now: i64, claim: &Claim) -> i64 {
    match claim.lifetime {
        Lifetime::Lease => now.saturating_add(micros(claim.ttl)),
        Lifetime::Session => i64::MAX,
    }
}

/// All on one clock, so an instant can be told instead of a span.
pub(super) fn valid(expires: i64) -> Valid {
    Valid::Until(if expires == i64::MAX { Moment::NEVER } else { Moment::from_micros(expires as u64) })
}

fn busy(holder: &Entry, now: i64) -> Busy {
    let state = holder.describe(now);
    let mut busy = Busy::new(state.expires_in.unwrap_or(Duration::from_secs(60)));
    busy.holder = Some(state);
    busy
}

fn uncontended_holder(db: &Connection, name: &str) -> rusqlite::Result<Option<Entry>> {
    let select =
        format!("SELECT {UNCONTENDED} FROM lock WHERE name = ?1 AND id IS NOT NULL AND contended = 0");
    first(db.prepare_cached(&select)?, [name], Entry::read)
}

fn last_token(db: &Connection, name: &str) -> rusqlite::Result<Option<u64>> {
    let select = db.prepare_cached("SELECT token FROM lock WHERE name = ?1")?;
    first(select, [name], |row| Ok(row.get::<_, i64>(0)? as u64))
}

fn find(db: &Connection, name: &str, id: ClaimId) -> rusqlite::Result<Option<Entry>> {
    let select = format!("SELECT {ENTRY} FROM claim WHERE id = ?2 AND name = ?1");
    first(db.prepare_cached(&select)?, params![name, id.as_bytes()], Entry::read)
}

fn entry_after(db: &Connection, name: &str, ticket: i64) -> rusqlite::Result<Option<Entry>> {
    let select = format!("SELECT {ENTRY} FROM claim WHERE name = ?1 AND ticket > ?2 ORDER BY ticket LIMIT 1");
    first(db.prepare_cached(&select)?, params![name, ticket], Entry::read)
}

fn first_entry(db: &Connection, name: &str) -> rusqlite::Result<Option<Entry>> {
    entry_after(db, name, 0)
}

fn insert(db: &Connection, name: &str, entry: &Entry) -> rusqlite::Result<()> {
    let (mode, permits) = encode_mode(entry.mode);
    db.prepare_cached("INSERT INTO claim (name, ticket, id, session, mode, permits, token, hand_over, expires, since, revoked, note) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)")?
        .execute(params![
            name, entry.ticket, entry.id.as_bytes(), entry.session as i64, mode, permits, entry.token as i64,
            entry.hand_over, entry.expires, entry.since, entry.revoked, entry.note
        ])
        .map(drop)
}

fn delete(db: &Connection, name: &str, ticket: i64) -> rusqlite::Result<()> {
    db.prepare_cached("DELETE FROM claim WHERE name = ?1 AND ticket = ?2")?
        .execute(params![name, ticket])
        .map(drop)
}

fn grant(db: &Connection, name: &str, ticket: i64, until: i64) -> rusqlite::Result<u64> {
    let next =
        db.prepare_cached("UPDATE lock SET token = max(token + 1, ?2) WHERE name = ?1 RETURNING token")?;
    let token = first(next, params![name, clock::wall_micros() as i64], |row| row.get::<_, i64>(0))?
        .ok_or(rusqlite::Error::QueryReturnedNoRows)?;
    db.prepare_cached(
        "UPDATE claim SET token = ?3, expires = ?4, since = ?5 WHERE name = ?1 AND ticket = ?2",
    )?
    .execute(params![name, ticket, token, until, clock::wall_micros() as i64])?;
    Ok(token as u64)
}

/// A lock that nobody holds or waits for any more goes back to the one-statement path.
fn close_if_empty(db: &Connection, name: &str) -> rusqlite::Result<()> {
    db.prepare_cached("UPDATE lock SET contended = 0 WHERE name = ?1 AND contended = 1 AND NOT EXISTS (SELECT 1 FROM claim WHERE name = ?1)")?
        .execute([name])
        .map(drop)
}

fn encode_mode(mode: Mode) -> (u8, u32) {
    match mode {
        Mode::Exclusive => (0, 0),
        Mode::Read => (1, 0),
        Mode::Write => (2, 0),
        Mode::Permit { of } => (3, of),
    }
}

fn decode_mode(mode: u8, permits: u32) -> Mode {
    match mode {
        1 => Mode::Read,
        2 => Mode::Write,
        3 => Mode::Permit { of: permits },
        _ => Mode::Exclusive,
    }
}
