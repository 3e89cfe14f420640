//! One holder or waiter as a row, and the statements that read and write the row.

use std::time::{Duration, SystemTime};

use rusqlite::{Connection, Row, params};

use super::store::first;
use crate::OwnerId;
use crate::clock::Moment;
use crate::engine::{Claim, ClaimId, ClaimState, Grant, Lifetime, Mode, Note, Valid, Verdict};

/// One row of `claim`, or the holder of an uncontended lock.
pub(super) struct Entry {
    pub(super) ticket: i64,
    pub(super) id: ClaimId,
    pub(super) session: u64,
    pub(super) mode: Mode,
    /// Zero: waiting.
    pub(super) token: u64,
    /// The length of the first lease if the lock is handed over, in microseconds.
    pub(super) hand_over: i64,
    pub(super) expires: i64,
    pub(super) since: i64,
    pub(super) revoked: bool,
    pub(super) note: String,
    pub(super) owner: Option<OwnerId>,
}

/// `SELECT` of an entry from `claim`.
macro_rules! select_entry {
    ($rest:literal) => {
        concat!("SELECT ticket, id, session, mode, permits, token, hand_over, expires, since, revoked, note, owner, name ", $rest)
    };
}

/// `SELECT` of an entry from `lock`, for the holder of an uncontended lock.
macro_rules! select_uncontended {
    ($rest:literal) => {
        concat!("SELECT 0, id, session, 0, 0, token, 0, expires, since, revoked, note, owner, name ", $rest)
    };
}

pub(super) const UNCONTENDED_FROM: &str =
    select_uncontended!("FROM lock WHERE name >= ?1 AND id IS NOT NULL AND contended = 0 ORDER BY name");
pub(super) const CONTENDED_FROM: &str = select_entry!("FROM claim WHERE name >= ?1 ORDER BY name, ticket");

impl Entry {
    /// A claim that is about to be queued.
    pub(super) fn waiting(claim: &Claim, session: u64, ticket: i64, since: i64) -> Self {
        let hand_over = match claim.lifetime {
            Lifetime::Lease => micros(claim.wait_lease.min(claim.ttl)),
            Lifetime::Session => i64::MAX,
        };
        let (id, mode, note) = (claim.id, claim.mode, claim.note.as_str().to_owned());
        let (token, expires, revoked, owner) = (0, 0, false, claim.owner.clone());
        Self { ticket, id, session, mode, token, hand_over, expires, since, revoked, note, owner }
    }

    pub(super) fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
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
            owner: row.get::<_, Option<String>>(11)?.and_then(|owner| OwnerId::new(owner).ok()),
        })
    }

    pub(super) fn holds(&self) -> bool {
        self.token != 0
    }

    /// Whether the row is only the record that [`record_revocation`] wrote.
    pub(super) fn is_revocation_record(&self) -> bool {
        self.revoked && self.expires == 0
    }

    pub(super) fn is_taken_over_by(&self, claim: &Claim) -> bool {
        self.holds() && claim.takes_over(self.id, self.mode, self.owner.as_ref())
    }

    pub(super) fn grant(&self) -> Verdict {
        Verdict::Granted(Grant { token: Some(self.token), valid: valid(self.expires) })
    }

    pub(super) fn state(&self, now: i64) -> ClaimState {
        let mut state = ClaimState::new(self.id);
        state.permits = self.mode.permits();
        state.token = self.holds().then_some(self.token);
        state.owner = self.owner.clone();
        state.note = Note::new(&self.note);
        state.since = Some(SystemTime::UNIX_EPOCH + Duration::from_micros(self.since.max(0) as u64));
        let leased = self.holds() && self.expires != i64::MAX;
        state.expires_in = leased.then(|| Duration::from_micros((self.expires - now).max(0) as u64));
        state
    }

    pub(super) fn insert(&self, db: &Connection, name: &str) -> rusqlite::Result<()> {
        const INSERT: &str = "INSERT INTO claim (name, ticket, id, session, mode, permits, token, hand_over, \
             expires, since, revoked, note, owner) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)";
        let (mode, permits) = encode_mode(self.mode);
        let (session, token) = (self.session as i64, self.token as i64);
        let values = params![
            name,
            self.ticket,
            self.id.as_bytes(),
            session,
            mode,
            permits,
            token,
            self.hand_over,
            self.expires,
            self.since,
            self.revoked,
            self.note,
            self.owner.as_ref().map(OwnerId::as_str)
        ];
        db.prepare_cached(INSERT)?.execute(values).map(drop)
    }
}

/// The holder of an uncontended lock.
pub(super) fn uncontended_holder(db: &Connection, name: &str) -> rusqlite::Result<Option<Entry>> {
    const SELECT: &str =
        select_uncontended!("FROM lock WHERE name = ?1 AND id IS NOT NULL AND contended = 0");
    first(db.prepare_cached(SELECT)?, [name], Entry::read)
}

pub(super) fn find(db: &Connection, name: &str, id: ClaimId) -> rusqlite::Result<Option<Entry>> {
    const SELECT: &str = select_entry!("FROM claim WHERE name = ?1 AND id = ?2 ORDER BY ticket LIMIT 1");
    first(db.prepare_cached(SELECT)?, params![name, id.as_bytes()], Entry::read)
}

/// The first entry with another number of permits than this claim.
pub(super) fn other_permit_count(db: &Connection, claim: &Claim) -> rusqlite::Result<Option<Entry>> {
    const SELECT: &str = select_entry!(
        "FROM claim WHERE name = ?1 AND mode = ?2 AND permits <> ?3 AND id <> ?4 ORDER BY ticket LIMIT 1"
    );
    let Mode::Permit { .. } = claim.mode else { return Ok(None) };
    let (mode, permits) = encode_mode(claim.mode);
    let values = params![claim.name.as_str(), mode, permits, claim.id.as_bytes()];
    first(db.prepare_cached(SELECT)?, values, Entry::read)
}

/// Records that the lock was taken away from a holder at once: the row stays behind all others until its
/// release. It holds nothing, and the statements that read the queue skip it.
pub(super) fn record_revocation(db: &Connection, name: &str, holder: Entry) -> rusqlite::Result<()> {
    const LAST: &str = "SELECT max(coalesce(max(ticket), 0), 1) FROM claim WHERE name = ?1";
    let last = first(db.prepare_cached(LAST)?, [name], |row| row.get::<_, i64>(0))?.unwrap_or(1);
    if holder.ticket > 0 {
        delete(db, name, holder.ticket)?;
    }
    Entry { ticket: last + 1, expires: 0, revoked: true, ..holder }.insert(db, name)
}

pub(super) fn entry_after(db: &Connection, name: &str, ticket: i64) -> rusqlite::Result<Option<Entry>> {
    const SELECT: &str = select_entry!(
        "FROM claim WHERE name = ?1 AND ticket > ?2 AND NOT (revoked AND expires = 0) ORDER BY ticket LIMIT 1"
    );
    first(db.prepare_cached(SELECT)?, params![name, ticket], Entry::read)
}

pub(super) fn entry_before(db: &Connection, name: &str, ticket: i64) -> rusqlite::Result<Option<Entry>> {
    const SELECT: &str = select_entry!(
        "FROM claim WHERE name = ?1 AND ticket < ?2 AND NOT (revoked AND expires = 0) ORDER BY ticket DESC LIMIT 1"
    );
    first(db.prepare_cached(SELECT)?, params![name, ticket], Entry::read)
}

pub(super) fn delete(db: &Connection, name: &str, ticket: i64) -> rusqlite::Result<()> {
    db.prepare_cached("DELETE FROM claim WHERE name = ?1 AND ticket = ?2")?
        .execute(params![name, ticket])
        .map(drop)
}

pub(super) fn micros(span: Duration) -> i64 {
    i64::try_from(span.as_micros()).unwrap_or(i64::MAX)
}

/// The end of the lease of a claim that is granted or renewed now.
pub(super) fn lease_end(now: i64, claim: &Claim) -> i64 {
    match claim.lifetime {
        Lifetime::Lease => now.saturating_add(micros(claim.ttl)),
        Lifetime::Session => i64::MAX,
    }
}

/// An instant instead of a duration, because all processes read one clock.
pub(super) fn valid(expires: i64) -> Valid {
    Valid::Until(if expires == i64::MAX { Moment::NEVER } else { Moment::from_micros(expires as u64) })
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
