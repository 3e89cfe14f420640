//! One holder or waiter as a row.

use std::time::{Duration, SystemTime};

use super::database::Value;
use crate::engine::{Claim, ClaimId, ClaimState, Grant, Mode, Note, Valid, Verdict};
use crate::{Error, ErrorKind, OwnerId, Result};

/// An entry of the queue, or the holder of a lock that nobody waits for.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) ticket: i64,
    pub(super) id: ClaimId,
    /// Where its client hears of it; empty if it must ask.
    pub(super) channel: Vec<u8>,
    pub(super) mode: Mode,
    /// Zero: waiting.
    pub(super) token: i64,
    /// How long the lease runs, in microseconds, if the lock is handed over.
    pub(super) hand_over: i64,
    /// A holder's lease, or a waiter's place, on the database's clock.
    pub(super) expires: i64,
    pub(super) since: i64,
    pub(super) revoked: bool,
    pub(super) note: Vec<u8>,
    pub(super) owner: Option<OwnerId>,
}

impl Entry {
    /// A claim that queues.
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

    /// The columns of an entry, in the order of [`Entry::values`].
    pub(super) fn read(row: &[Value]) -> Result<Self> {
        let [ticket, id, channel, mode, permits, token, hand_over, expires, since, revoked, note, owner] =
            row
        else {
            return Err(protocol_error());
        };
        Ok(Self {
            ticket: int(ticket)?,
            id: read_id(id)?,
            channel: bytes(channel)?.to_vec(),
            mode: decode_mode(int(mode)?, int(permits)?),
            token: int(token)?,
            hand_over: int(hand_over)?,
            expires: int(expires)?,
            since: int(since)?,
            revoked: int(revoked)? != 0,
            note: bytes(note)?.to_vec(),
            owner: read_owner(owner)?,
        })
    }

    /// The holder of a lock that nobody waits for: its token, and the columns of the lock's row from `id` on.
    pub(super) fn quiet(token: i64, row: &[Value]) -> Result<Option<Self>> {
        let [id, expires, since, revoked, note, owner] = row else { return Err(protocol_error()) };
        if *id == Value::Null {
            return Ok(None);
        }
        Ok(Some(Self {
            ticket: 0,
            id: read_id(id)?,
            channel: Vec::new(),
            mode: Mode::Exclusive,
            token,
            hand_over: 0,
            expires: int(expires)?,
            since: int(since)?,
            revoked: int(revoked)? != 0,
            note: bytes(note)?.to_vec(),
            owner: read_owner(owner)?,
        }))
    }

    pub(super) fn values(&self) -> [Value; 12] {
        let (mode, permits) = encode_mode(self.mode);
        [
            Value::Int(self.ticket),
            Value::id(self.id),
            Value::bytes(&self.channel),
            Value::Int(mode),
            Value::Int(permits),
            Value::Int(self.token),
            Value::Int(self.hand_over),
            Value::Int(self.expires),
            Value::Int(self.since),
            Value::Int(self.revoked.into()),
            Value::bytes(&self.note),
            owner_value(self.owner.as_ref()),
        ]
    }

    /// The rest of a holder whose lock was taken away at once, until its renewal has read it. It stands before all
    /// tickets, where no queue begins, and `hand_over` says until when its lease would have lasted.
    pub(super) fn revoked_at_once(self) -> Self {
        let (ticket, hand_over) = (-self.token, self.expires);
        Self { ticket, hand_over, expires: 0, revoked: true, ..self }
    }

    /// Whether it is only what was left by [`Entry::revoked_at_once`].
    pub(super) fn is_word(&self) -> bool {
        self.ticket < 0
    }

    pub(super) fn holds(&self) -> bool {
        self.token != 0
    }

    /// Its lease or its place is over.
    pub(super) fn is_over(&self, now: i64) -> bool {
        self.expires <= now
    }

    pub(super) fn is_taken_over_by(&self, claim: &Claim) -> bool {
        self.holds() && claim.takes_over(self.id, self.mode, self.owner.as_ref())
    }

    /// The answer to a claim that holds already. What is left of it counts from when it is told, less than what was asked for.
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

/// How long a lease runs that was handed over: short, so that a waiter that died unseen costs little.
pub(super) fn hand_over(claim: &Claim) -> Duration {
    claim.wait_lease.min(claim.ttl)
}

pub(super) fn micros(span: Duration) -> i64 {
    i64::try_from(span.as_micros()).unwrap_or(i64::MAX)
}

pub(super) fn owner_value(owner: Option<&OwnerId>) -> Value {
    owner.map_or(Value::Null, |owner| Value::bytes(owner.as_str().as_bytes()))
}

pub(super) fn int(value: &Value) -> Result<i64> {
    match value {
        Value::Int(number) => Ok(*number),
        _ => Err(protocol_error()),
    }
}

pub(super) fn bytes(value: &Value) -> Result<&[u8]> {
    match value {
        Value::Bytes(bytes) => Ok(bytes),
        _ => Err(protocol_error()),
    }
}

fn read_id(value: &Value) -> Result<ClaimId> {
    Ok(ClaimId::from_bytes(bytes(value)?.try_into().map_err(|_| protocol_error())?))
}

fn read_owner(value: &Value) -> Result<Option<OwnerId>> {
    match value {
        Value::Null => Ok(None),
        value => {
            let text = String::from_utf8(bytes(value)?.to_vec()).map_err(|_| protocol_error())?;
            OwnerId::new(text).map(Some).map_err(|_| protocol_error())
        }
    }
}

pub(super) fn protocol_error() -> Error {
    Error::new(ErrorKind::Corrupt, "the lock tables hold something that Latchwork did not write")
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
