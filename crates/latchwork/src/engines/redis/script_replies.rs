//! The replies of the scripts. Any other reply is an error, never a panic.

use std::sync::Arc;

use super::record;
use super::wire::Reply;
use crate::engine::{Claim, ClaimId, ClaimState, Foreign, Renewal, Valid};
use crate::{Effect, Error, ErrorKind, Loss, Result};

/// The reply to a claim.
#[derive(Debug)]
pub(super) enum ClaimReply {
    Granted(u64),
    Busy(KeyState),
    /// The queue is full.
    Full,
    /// Other claims use the lock with this number of permits.
    OtherPermits(u32),
}

/// The keys of a lock, as a script found them.
#[derive(Debug)]
pub(super) struct KeyState {
    /// The place of the claim in the queue, from 0 on; `None` if it does not wait.
    pub(super) place: Option<u32>,
    /// Milliseconds until the lock may be granted; negative if the key never expires.
    pub(super) free_in: i64,
    /// The newest grant: its token, and its member.
    pub(super) fence: Vec<u8>,
    /// The value of the shared key; empty if the key is free, `?` if it has an empty string or no string.
    pub(super) value: Vec<u8>,
    /// The type of the shared key, if the script read it: then the key is not a lock of ours.
    pub(super) kind: Option<String>,
    /// The number of claims that hold together, and the grant of one of them, if the script read them.
    pub(super) shared: Option<(u32, Vec<u8>)>,
}

impl KeyState {
    /// The holder, or one of several.
    pub(super) fn holder(&self) -> Option<ClaimState> {
        if let Some((_, grant)) = &self.shared {
            return record::shared_holder(grant, self.free_in);
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

    /// The number of holders.
    pub(super) fn holders(&self) -> u32 {
        self.shared.as_ref().map_or(u32::from(!self.value.is_empty()), |(count, _)| *count)
    }

    /// Whether the key is free, so that a client of another kind may take it.
    pub(super) fn is_free(&self) -> bool {
        self.value.is_empty()
    }

    /// Whether the holder is a client of another kind, which announces no release.
    pub(super) fn has_silent_holder(&self) -> bool {
        !self.value.is_empty()
            && !record::is_granted_to(&self.fence, &self.value)
            && record::shared_as(&self.value).is_none()
    }
}

/// A lock as INSPECT found it.
#[derive(Debug)]
pub(super) struct InspectedLock {
    pub(super) state: KeyState,
    pub(super) waiters: Vec<ClaimState>,
    pub(super) shared: Vec<SharedHolder>,
}

impl InspectedLock {
    pub(super) fn holders(&self) -> Vec<ClaimState> {
        match &self.shared[..] {
            [] => self.state.holder().into_iter().collect(),
            shared => shared.iter().map(|holder| holder.state.clone()).collect(),
        }
    }

    /// The value of the shared key; empty if it is not a string.
    pub(super) fn value(&self) -> &[u8] {
        if self.state.kind.is_some() { b"" } else { &self.state.value }
    }

    /// The member of this claim, if it holds together with others.
    pub(super) fn shared_member(&self, id: ClaimId) -> Option<&[u8]> {
        let found = self.shared.iter().find(|holder| holder.state.id == id)?;
        Some(&found.member)
    }
}

/// One of the claims that hold a lock together.
#[derive(Debug)]
pub(super) struct SharedHolder {
    pub(super) member: Vec<u8>,
    pub(super) state: ClaimState,
}

pub(super) fn protocol_error() -> Error {
    let message = "redis: unexpected reply to a script; is there a proxy in between?";
    Error::new(ErrorKind::Corrupt, message).with_effect(Effect::Unknown)
}

pub(super) fn claim(reply: Reply) -> Result<ClaimReply> {
    match reply {
        Reply::BulkString(word) if word == b"full" => Ok(ClaimReply::Full),
        Reply::BulkString(kind) if kind.starts_with(b"p") => {
            record::permits(&kind).map(ClaimReply::OtherPermits).ok_or_else(protocol_error)
        }
        Reply::BulkString(token) => {
            record::parse_token(&token).map(ClaimReply::Granted).ok_or_else(protocol_error)
        }
        Reply::Array(parts) => key_state(parts).map(ClaimReply::Busy),
        _ => Err(protocol_error()),
    }
}

/// `None` for a claim that has more to do than wait.
pub(super) fn heartbeats(reply: Reply, claims: usize) -> Result<Vec<Option<KeyState>>> {
    let Reply::Array(answers) = reply else { return Err(protocol_error()) };
    if answers.len() != claims {
        return Err(protocol_error());
    }
    let read = |answer| match answer {
        Reply::Array(parts) => key_state(parts).map(Some),
        Reply::Int(_) => Ok(None),
        _ => Err(protocol_error()),
    };
    answers.into_iter().map(read).collect()
}

fn key_state(mut parts: Vec<Reply>) -> Result<KeyState> {
    let shared = match parts.len() {
        6 => parts.pop().zip(parts.pop()),
        _ => None,
    };
    let shared =
        shared.map(|(grant, count)| Ok::<_, Error>((unsigned(&count)?, bytes(grant)?))).transpose()?;
    let [place, free_in, fence, value] = <[Reply; 4]>::try_from(parts).map_err(|_| protocol_error())?;
    let place = u32::try_from(int(&place)?).ok();
    Ok(KeyState {
        place,
        free_in: int(&free_in)?,
        fence: bytes(fence)?,
        value: bytes(value)?,
        kind: None,
        shared,
    })
}

pub(super) fn renewals(reply: Reply, claims: &[Arc<Claim>]) -> Result<Vec<Renewal>> {
    let Reply::Array(answers) = reply else { return Err(protocol_error()) };
    if answers.len() != claims.len() {
        return Err(protocol_error());
    }
    let read = |(answer, claim): (Reply, &Arc<Claim>)| match answer {
        Reply::Int(1) => Ok(Renewal::Kept(Valid::For(claim.ttl))),
        Reply::Int(2) => Ok(Renewal::Lost(Loss::Revoked)),
        Reply::Int(_) => Ok(Renewal::Lost(Loss::Removed)),
        Reply::BulkString(fence) => {
            let is_taken_over = claim.owner.is_some() && record::owner(&fence) == claim.owner;
            Ok(Renewal::Lost(if is_taken_over { Loss::TakenOver } else { Loss::Removed }))
        }
        _ => Err(protocol_error()),
    };
    answers.into_iter().zip(claims).map(read).collect()
}

pub(super) fn inspected(reply: Reply, locks: usize) -> Result<Vec<InspectedLock>> {
    let Reply::Array(inspected) = reply else { return Err(protocol_error()) };
    if inspected.len() != locks {
        return Err(protocol_error());
    }
    inspected.into_iter().map(inspected_lock).collect()
}

fn inspected_lock(reply: Reply) -> Result<InspectedLock> {
    let Reply::Array(parts) = reply else { return Err(protocol_error()) };
    let [value, free_in, fence, waiters, shared, kind] =
        <[Reply; 6]>::try_from(parts).map_err(|_| protocol_error())?;
    let kind = String::from_utf8(bytes(kind)?).map_err(|_| protocol_error())?;
    let kind = (!kind.is_empty()).then_some(kind);
    let (free_in, fence, value) = (int(&free_in)?, bytes(fence)?, bytes(value)?);
    let state = KeyState { place: None, free_in, fence, value, kind, shared: None };
    let (Reply::Array(pairs), Reply::Array(triples)) = (waiters, shared) else {
        return Err(protocol_error());
    };
    let mut waiters = Vec::with_capacity(pairs.len() / 2);
    let mut pairs = pairs.into_iter();
    while let (Some(member), Some(arrived)) = (pairs.next(), pairs.next()) {
        let arrived = String::from_utf8(bytes(arrived)?).ok().and_then(|text| text.parse::<f64>().ok());
        waiters.push(
            record::parse_member(&bytes(member)?, arrived.map(|micros| micros as u64))
                .ok_or_else(protocol_error)?,
        );
    }
    let mut shared = Vec::with_capacity(triples.len() / 3);
    let mut triples = triples.into_iter();
    while let (Some(member), Some(token), Some(left)) = (triples.next(), triples.next(), triples.next()) {
        let (member, token) = (bytes(member)?, bytes(token)?);
        let state = record::shared_holder(&[token, member.clone()].concat(), int(&left)?)
            .ok_or_else(protocol_error)?;
        shared.push(SharedHolder { member, state });
    }
    Ok(InspectedLock { state, waiters, shared })
}

/// The next cursor of SCAN, and the keys found.
pub(super) fn scanned(reply: Reply) -> Result<(String, Vec<Vec<u8>>)> {
    let Reply::Array(parts) = reply else { return Err(protocol_error()) };
    let [cursor, keys] = <[Reply; 2]>::try_from(parts).map_err(|_| protocol_error())?;
    let Reply::Array(keys) = keys else { return Err(protocol_error()) };
    let cursor = String::from_utf8(bytes(cursor)?).map_err(|_| protocol_error())?;
    Ok((cursor, keys.into_iter().map(bytes).collect::<Result<_>>()?))
}

fn int(value: &Reply) -> Result<i64> {
    match value {
        Reply::Int(number) => Ok(*number),
        _ => Err(protocol_error()),
    }
}

fn unsigned(value: &Reply) -> Result<u32> {
    u32::try_from(int(value)?).map_err(|_| protocol_error())
}

fn bytes(value: Reply) -> Result<Vec<u8>> {
    match value {
        Reply::BulkString(bytes) => Ok(bytes),
        _ => Err(protocol_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_of_other_shapes_are_errors() {
        let text = |text: &str| Reply::BulkString(text.as_bytes().to_vec());
        for reply in [
            Reply::Nil,
            Reply::Int(3),
            text("12"),
            text("x23456789012345"),
            Reply::Array(vec![]),
            Reply::Array(vec![Reply::Int(0), text("x"), text(""), text("")]),
            Reply::Array(vec![Reply::Int(0), Reply::Int(1), Reply::Nil, text("")]),
        ] {
            let shown = format!("{reply:?}");
            assert!(super::claim(reply.clone()).is_err(), "{shown}");
            assert!(inspected(reply.clone(), 1).is_err() && scanned(reply.clone()).is_err(), "{shown}");
            assert!(renewals(reply, &[Arc::new(sent())]).is_err(), "{shown}");
        }
        let huge =
            Reply::Array(vec![Reply::Int(i64::MAX), Reply::Int(i64::MIN), text("9"), text("\u{1f512}")]);
        assert!(matches!(
            super::claim(huge),
            Ok(ClaimReply::Busy(KeyState { place: None, free_in: i64::MIN, .. }))
        ));
        let short = Reply::Array(vec![
            text(""),
            Reply::Int(-2),
            text(""),
            Reply::Array(vec![text("short"), text("1")]),
            Reply::Array(vec![]),
            text(""),
        ]);
        assert!(inspected(Reply::Array(vec![short]), 1).is_err());
    }

    fn sent() -> Claim {
        Claim::new(crate::LockName::new("a").unwrap(), std::time::Duration::from_secs(1))
    }
}
