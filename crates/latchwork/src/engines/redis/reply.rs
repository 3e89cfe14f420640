//! What the scripts answer. A reply that is none of theirs is an error, never a panic.

use std::sync::Arc;

use super::record;
use super::wire::Value;
use crate::engine::{Claim, ClaimId, ClaimState, Foreign, Renewal, Valid};
use crate::{Effect, Error, ErrorKind, Loss, Result};

/// The answer to a claim.
#[derive(Debug)]
pub(super) enum Claimed {
    Granted(u64),
    Busy(State),
    /// Too many wait already.
    Full,
    /// Others use the lock with this number of permits.
    OtherNumber(u32),
}

/// How a lock stands.
#[derive(Debug)]
pub(super) struct State {
    /// The asking claim's place in the queue, from 0 on.
    pub(super) place: Option<u32>,
    /// Milliseconds until the key is free by itself; negative if it never is.
    pub(super) free_in: i64,
    /// The newest grant: its token, and its member.
    pub(super) fence: Vec<u8>,
    /// The value of the shared key; empty if the key is free, `?` if it has an empty string or no string.
    pub(super) value: Vec<u8>,
    /// Of which type that is, if it was asked.
    pub(super) kind: Option<String>,
    /// How many hold together, and the grant of one of them, if the script looked.
    pub(super) sharers: Option<(u32, Vec<u8>)>,
}

impl State {
    /// Who holds the lock.
    pub(super) fn holder(&self) -> Option<ClaimState> {
        if let Some((_, grant)) = &self.sharers {
            return record::sharer(grant, self.free_in);
        }
        let mut holder =
            (!self.value.is_empty()).then(|| record::holder(&self.value, &self.fence, self.free_in))?;
        match self.kind.as_deref() {
            None => {}
            Some("string") => holder.foreign = Some(Box::new(Foreign::new("string", b""))),
            Some(kind) => holder.foreign = Some(Box::new(Foreign::not_a_lock(kind.to_owned()))),
        }
        Some(holder)
    }

    /// How many hold the lock.
    pub(super) fn holders(&self) -> u32 {
        self.sharers.as_ref().map_or(u32::from(!self.value.is_empty()), |(count, _)| *count)
    }

    /// Whether nobody has it now, and clients of another kind may take it.
    pub(super) fn is_left_to_others(&self) -> bool {
        self.value.is_empty()
    }

    /// Whether it is held by somebody who will tell nobody of its release.
    pub(super) fn has_silent_holder(&self) -> bool {
        !self.value.is_empty()
            && !record::is_granted_to(&self.fence, &self.value)
            && record::shared_as(&self.value).is_none()
    }
}

/// A lock that was looked at.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) state: State,
    pub(super) waiters: Vec<ClaimState>,
    pub(super) sharers: Vec<Sharer>,
}

impl Seen {
    /// Who holds the lock.
    pub(super) fn holders(&self) -> Vec<ClaimState> {
        match &self.sharers[..] {
            [] => self.state.holder().into_iter().collect(),
            sharers => sharers.iter().map(|sharer| sharer.state.clone()).collect(),
        }
    }

    /// The value of the shared key, as it is written there.
    pub(super) fn value(&self) -> &[u8] {
        if self.state.kind.is_some() { b"" } else { &self.state.value }
    }

    /// The member of this claim, if it holds together with others.
    pub(super) fn sharer(&self, id: ClaimId) -> Option<&[u8]> {
        let found = self.sharers.iter().find(|sharer| sharer.state.id == id)?;
        Some(&found.member)
    }
}

/// One of those who hold a lock together.
#[derive(Debug)]
pub(super) struct Sharer {
    pub(super) member: Vec<u8>,
    pub(super) state: ClaimState,
}

pub(super) fn protocol_error() -> Error {
    let message = "redis: unexpected reply to a script; is there a proxy in between?";
    Error::new(ErrorKind::Corrupt, message).with_effect(Effect::Unknown)
}

pub(super) fn claimed(reply: Value) -> Result<Claimed> {
    match reply {
        Value::BulkString(word) if word == b"full" => Ok(Claimed::Full),
        Value::BulkString(kind) if kind.starts_with(b"p") => {
            record::permits(&kind).map(Claimed::OtherNumber).ok_or_else(protocol_error)
        }
        Value::BulkString(token) => record::token(&token).map(Claimed::Granted).ok_or_else(protocol_error),
        Value::Array(parts) => state(parts).map(Claimed::Busy),
        _ => Err(protocol_error()),
    }
}

/// `None` for a claim that has more to do than to wait.
pub(super) fn heartbeats(reply: Value, claims: usize) -> Result<Vec<Option<State>>> {
    let Value::Array(answers) = reply else { return Err(protocol_error()) };
    if answers.len() != claims {
        return Err(protocol_error());
    }
    let read = |answer| match answer {
        Value::Array(parts) => state(parts).map(Some),
        Value::Int(_) => Ok(None),
        _ => Err(protocol_error()),
    };
    answers.into_iter().map(read).collect()
}

fn state(mut parts: Vec<Value>) -> Result<State> {
    let sharers = match parts.len() {
        6 => parts.pop().zip(parts.pop()),
        _ => None,
    };
    let sharers =
        sharers.map(|(grant, count)| Ok::<_, Error>((unsigned(&count)?, bytes(grant)?))).transpose()?;
    let [place, free_in, fence, value] = <[Value; 4]>::try_from(parts).map_err(|_| protocol_error())?;
    let place = u32::try_from(int(&place)?).ok();
    Ok(State {
        place,
        free_in: int(&free_in)?,
        fence: bytes(fence)?,
        value: bytes(value)?,
        kind: None,
        sharers,
    })
}

pub(super) fn renewed(reply: Value, claims: &[Arc<Claim>]) -> Result<Vec<Renewal>> {
    let Value::Array(answers) = reply else { return Err(protocol_error()) };
    if answers.len() != claims.len() {
        return Err(protocol_error());
    }
    let read = |(answer, claim): (Value, &Arc<Claim>)| match answer {
        Value::Int(1) => Ok(Renewal::Kept(Valid::For(claim.ttl))),
        Value::Int(2) => Ok(Renewal::Lost(Loss::Revoked)),
        Value::Int(_) => Ok(Renewal::Lost(Loss::Removed)),
        Value::BulkString(fence) => {
            let is_taken_over = claim.owner.is_some() && record::owner(&fence) == claim.owner;
            Ok(Renewal::Lost(if is_taken_over { Loss::TakenOver } else { Loss::Removed }))
        }
        _ => Err(protocol_error()),
    };
    answers.into_iter().zip(claims).map(read).collect()
}

pub(super) fn inspected(reply: Value, locks: usize) -> Result<Vec<Seen>> {
    let Value::Array(seen) = reply else { return Err(protocol_error()) };
    if seen.len() != locks {
        return Err(protocol_error());
    }
    seen.into_iter().map(seen_lock).collect()
}

fn seen_lock(reply: Value) -> Result<Seen> {
    let Value::Array(parts) = reply else { return Err(protocol_error()) };
    let [value, free_in, fence, waiters, sharers, kind] =
        <[Value; 6]>::try_from(parts).map_err(|_| protocol_error())?;
    let kind = String::from_utf8(bytes(kind)?).map_err(|_| protocol_error())?;
    let kind = (!kind.is_empty()).then_some(kind);
    let (free_in, fence, value) = (int(&free_in)?, bytes(fence)?, bytes(value)?);
    let state = State { place: None, free_in, fence, value, kind, sharers: None };
    let (Value::Array(pairs), Value::Array(triples)) = (waiters, sharers) else {
        return Err(protocol_error());
    };
    let mut waiters = Vec::with_capacity(pairs.len() / 2);
    let mut pairs = pairs.into_iter();
    while let (Some(member), Some(arrived)) = (pairs.next(), pairs.next()) {
        let arrived = String::from_utf8(bytes(arrived)?).ok().and_then(|text| text.parse::<f64>().ok());
        waiters.push(
            record::waiter(&bytes(member)?, arrived.map(|micros| micros as u64))
                .ok_or_else(protocol_error)?,
        );
    }
    let mut sharers = Vec::with_capacity(triples.len() / 3);
    let mut triples = triples.into_iter();
    while let (Some(member), Some(token), Some(left)) = (triples.next(), triples.next(), triples.next()) {
        let (member, token) = (bytes(member)?, bytes(token)?);
        let state =
            record::sharer(&[token, member.clone()].concat(), int(&left)?).ok_or_else(protocol_error)?;
        sharers.push(Sharer { member, state });
    }
    Ok(Seen { state, waiters, sharers })
}

/// The next cursor, and the keys found.
pub(super) fn scanned(reply: Value) -> Result<(String, Vec<Vec<u8>>)> {
    let Value::Array(parts) = reply else { return Err(protocol_error()) };
    let [cursor, keys] = <[Value; 2]>::try_from(parts).map_err(|_| protocol_error())?;
    let Value::Array(keys) = keys else { return Err(protocol_error()) };
    let cursor = String::from_utf8(bytes(cursor)?).map_err(|_| protocol_error())?;
    Ok((cursor, keys.into_iter().map(bytes).collect::<Result<_>>()?))
}

fn int(value: &Value) -> Result<i64> {
    match value {
        Value::Int(number) => Ok(*number),
        _ => Err(protocol_error()),
    }
}

fn unsigned(value: &Value) -> Result<u32> {
    u32::try_from(int(value)?).map_err(|_| protocol_error())
}

fn bytes(value: Value) -> Result<Vec<u8>> {
    match value {
        Value::BulkString(bytes) => Ok(bytes),
        _ => Err(protocol_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strange_replies_are_errors() {
        let text = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        for reply in [
            Value::Nil,
            Value::Int(3),
            text("12"),
            text("x23456789012345"),
            Value::Array(vec![]),
            Value::Array(vec![Value::Int(0), text("x"), text(""), text("")]),
            Value::Array(vec![Value::Int(0), Value::Int(1), Value::Nil, text("")]),
        ] {
            let shown = format!("{reply:?}");
            assert!(claimed(reply.clone()).is_err(), "{shown}");
            assert!(inspected(reply.clone(), 1).is_err() && scanned(reply.clone()).is_err(), "{shown}");
            assert!(renewed(reply, &[Arc::new(claim())]).is_err(), "{shown}");
        }
        let huge =
            Value::Array(vec![Value::Int(i64::MAX), Value::Int(i64::MIN), text("9"), text("\u{1f512}")]);
        assert!(matches!(claimed(huge), Ok(Claimed::Busy(State { place: None, free_in: i64::MIN, .. }))));
        let short = Value::Array(vec![
            text(""),
            Value::Int(-2),
            text(""),
            Value::Array(vec![text("short"), text("1")]),
            Value::Array(vec![]),
            text(""),
        ]);
        assert!(inspected(Value::Array(vec![short]), 1).is_err());
    }

    fn claim() -> Claim {
        Claim::new(crate::LockName::new("a").unwrap(), std::time::Duration::from_secs(1))
    }
}
