//! One holder or waiter as a row.

use std::time::{Duration, SystemTime};

use super::value::{SqlValue, corrupt_table};
use crate::engine::{Claim, ClaimId, ClaimState, Grant, Mode, Note, Valid, Verdict};
use crate::{OwnerId, Result};

/// An entry of the queue, or the holder of an uncontended lock.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) ticket: i64,
    pub(super) id: ClaimId,
    /// The channel on which its client receives notifications; empty if the client polls.
    pub(super) channel: Vec<u8>,
    pub(super) mode: Mode,
    /// Zero for a waiter.
    pub(super) token: i64,
    /// The length of the lease in microseconds, if the lock is handed over to this waiter.
    pub(super) hand_over: i64,
    /// The end of a holder's lease, or of a waiter's entry, on the database's clock.
    pub(super) expires: i64,
    pub(super) since: i64,
    pub(super) revoked: bool,
    pub(super) note: Vec<u8>,
    pub(super) owner: Option<OwnerId>,
}

impl Entry {
    /// The entry of a claim that joins the queue.
    pub(super) fn waiting(claim: &Claim, channel: Vec<u8>, ticket: i64, now: i64) -> Self {
        Self {
            ticket,
            id: claim.id,
            channel,
            mode: claim.mode,
            token: 0,
            hand_over: micros(hand_over(claim)),
            expires: now.saturating_add(micros(claim.wait_lease)),
            since: now,
            revoked: false,
            note: claim.note.as_str().as_bytes().to_vec(),
            owner: claim.owner.clone(),
        }
    }

    /// From the columns of an entry, in the order of [`Entry::values`].
    pub(super) fn read(row: &[SqlValue]) -> Result<Self> {
        let [ticket, id, channel, mode, permits, token, hand_over, expires, since, revoked, note, owner] =
            row
        else {
            return Err(corrupt_table());
        };
        Ok(Self {
            ticket: ticket.as_int()?,
            id: read_id(id)?,
            channel: channel.as_bytes()?.to_vec(),
            mode: decode_mode(mode.as_int()?, permits.as_int()?),
            token: token.as_int()?,
            hand_over: hand_over.as_int()?,
            expires: expires.as_int()?,
            since: since.as_int()?,
            revoked: revoked.as_int()? != 0,
            note: note.as_bytes()?.to_vec(),
            owner: read_owner(owner)?,
        })
    }

    /// The holder of an uncontended lock: its token, and the columns of the lock's row from `id` on. `None`:
    /// the lock has no holder.
    pub(super) fn uncontended(token: i64, row: &[SqlValue]) -> Result<Option<Self>> {
        let [id, expires, since, revoked, note, owner] = row else { return Err(corrupt_table()) };
        if *id == SqlValue::Null {
            return Ok(None);
        }
        Ok(Some(Self {
            ticket: 0,
            id: read_id(id)?,
            channel: Vec::new(),
            mode: Mode::Exclusive,
            token,
            hand_over: 0,
            expires: expires.as_int()?,
            since: since.as_int()?,
            revoked: revoked.as_int()? != 0,
            note: note.as_bytes()?.to_vec(),
            owner: read_owner(owner)?,
        }))
    }

    pub(super) fn values(&self) -> [SqlValue; 12] {
        let (mode, permits) = encode_mode(self.mode);
        [
            SqlValue::Int(self.ticket),
            SqlValue::id(self.id),
            SqlValue::bytes(&self.channel),
            SqlValue::Int(mode),
            SqlValue::Int(permits),
            SqlValue::Int(self.token),
            SqlValue::Int(self.hand_over),
            SqlValue::Int(self.expires),
            SqlValue::Int(self.since),
            SqlValue::Int(self.revoked.into()),
            SqlValue::bytes(&self.note),
            owner_value(self.owner.as_ref()),
        ]
    }

    /// The record of a holder that was revoked at once, until its renewal has read it. Its ticket is
    /// negative, and every queue begins above zero. `hand_over` is the time at which the lease would have
    /// ended.
    pub(super) fn revocation_record(self) -> Self {
        let (ticket, hand_over) = (-self.token, self.expires);
        Self { ticket, hand_over, expires: 0, revoked: true, ..self }
    }

    /// Whether it is a [`revocation_record`](Entry::revocation_record).
    pub(super) fn is_revocation_record(&self) -> bool {
        self.ticket < 0
    }

    pub(super) fn holds(&self) -> bool {
        self.token != 0
    }

    /// Whether the holder's lease or the waiter's entry has ended.
    pub(super) fn is_expired(&self, now: i64) -> bool {
        self.expires <= now
    }

    pub(super) fn is_taken_over_by(&self, claim: &Claim) -> bool {
        self.holds() && claim.takes_over(self.id, self.mode, self.owner.as_ref())
    }

    /// The answer to a claim that already holds. The time left counts from the reply, and is less than the
    /// ttl.
    pub(super) fn grant(&self, now: i64) -> Verdict {
        let left = Duration::from_micros((self.expires - now).max(0) as u64);
        Verdict::Granted(Grant { token: Some(self.token as u64), valid: Valid::For(left) })
    }

    pub(super) fn describe(&self, now: i64) -> ClaimState {
        let mut state = ClaimState::new(self.id);
        state.permits = self.mode.permits();
        state.token = self.holds().then_some(self.token as u64);
        state.owner = self.owner.clone();
        state.note = Note::new(&String::from_utf8_lossy(&self.note));
        state.since = Some(SystemTime::UNIX_EPOCH + Duration::from_micros(self.since.max(0) as u64));
        state.expires_in = self.holds().then(|| Duration::from_micros((self.expires - now).max(0) as u64));
        state
    }
}

/// The length of a lease that is handed over: short, so that a waiter that died unnoticed costs little.
pub(super) fn hand_over(claim: &Claim) -> Duration {
    claim.wait_lease.min(claim.ttl)
}

pub(super) fn micros(span: Duration) -> i64 {
    i64::try_from(span.as_micros()).unwrap_or(i64::MAX)
}

pub(super) fn owner_value(owner: Option<&OwnerId>) -> SqlValue {
    owner.map_or(SqlValue::Null, |owner| SqlValue::bytes(owner.as_str().as_bytes()))
}

fn read_id(value: &SqlValue) -> Result<ClaimId> {
    Ok(ClaimId::from_bytes(value.as_bytes()?.try_into().map_err(|_| corrupt_table())?))
}

fn read_owner(value: &SqlValue) -> Result<Option<OwnerId>> {
    match value {
        SqlValue::Null => Ok(None),
        value => {
            let text = String::from_utf8(value.as_bytes()?.to_vec()).map_err(|_| corrupt_table())?;
            OwnerId::new(text).map(Some).map_err(|_| corrupt_table())
        }
    }
}

fn encode_mode(mode: Mode) -> (i64, i64) {
    match mode {
        Mode::Exclusive => (0, 0),
        Mode::Read => (1, 0),
        Mode::Write => (2, 0),
        Mode::Permit { of } => (3, of.into()),
    }
}

fn decode_mode(mode: i64, permits: i64) -> Mode {
    match mode {
        1 => Mode::Read,
        2 => Mode::Write,
        3 => Mode::Permit { of: u32::try_from(permits).unwrap_or(1) },
        _ => Mode::Exclusive,
    }
}
