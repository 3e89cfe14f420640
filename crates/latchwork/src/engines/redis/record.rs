//! How a claim is written on the server: `id channel mode owner LF note`, behind its token if it was granted.
//! The mode is `x`, exclusive; `w`, a writer; `r`, a reader; `p3`, one of three permits. Only exclusive
//! claims have owners. [`layout`] has the lengths.

use std::time::{Duration, SystemTime};

use super::lua::layout::{self, CHANNEL_LEN, ID_LEN, TOKEN_LEN};
use super::wire::{Arg, Command};
use crate::engine::{Claim, ClaimState, Foreign, Mode, Note};
use crate::engines::claim_id_hex::{self, foreign_id};
pub(super) use crate::engines::claim_id_hex::{encode_id, parse_id};
use crate::{OwnerId, clock};

const _: () = assert!(ID_LEN == claim_id_hex::ID_DIGITS);

/// A claim in this mode may have an owner.
const EXCLUSIVE: &[u8] = &[layout::MODE_EXCLUSIVE];
const WRITE: &[u8] = &[layout::MODE_WRITE];
const READ: &[u8] = &[layout::MODE_READ];
const PERMIT: &[u8] = &[layout::MODE_PERMIT];

/// The random id of a session's channel. It follows [`layout::CHANNEL_PREFIX`].
pub(super) fn random_channel_id() -> String {
    clock::random_bytes::<{ CHANNEL_LEN / 2 }>().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A member without its id: of this claim, for the channel with this id.
pub(super) struct Tail<'a>(pub(super) &'a Claim, pub(super) &'a str);

impl Tail<'_> {
    pub(super) fn bytes(&self) -> Vec<u8> {
        self.in_parts(|parts| parts.concat())
    }

    fn in_parts<T>(&self, read: impl FnOnce(&[&[u8]]) -> T) -> T {
        let Self(claim, channel) = self;
        let (channel, note) = (channel.as_bytes(), claim.note.as_str().as_bytes());
        match (claim.mode, &claim.owner) {
            (Mode::Exclusive, None) => read(&[channel, EXCLUSIVE, b"\n", note]),
            (Mode::Exclusive, Some(owner)) => {
                read(&[channel, EXCLUSIVE, owner.as_str().as_bytes(), b"\n", note])
            }
            (Mode::Write, _) => read(&[channel, WRITE, b"\n", note]),
            (Mode::Read, _) => read(&[channel, READ, b"\n", note]),
            (Mode::Permit { of }, _) => read(&[channel, PERMIT, of.to_string().as_bytes(), b"\n", note]),
        }
    }
}

impl Arg for Tail<'_> {
    fn write(&self, command: &mut Command) {
        self.in_parts(|parts| command.parts(parts));
    }
}

/// The claim of a member. `since`: its arrival in the queue, or its token, which is the time of its grant.
pub(super) fn parse_member(member: &[u8], since: Option<u64>) -> Option<ClaimState> {
    let (id, rest) = member.split_at_checked(ID_LEN)?;
    let (mode, tail) = rest.get(CHANNEL_LEN..)?.split_at_checked(EXCLUSIVE.len())?;
    let (owner, note) = split_tail(tail);
    let mut state = ClaimState::new(parse_id(id)?);
    state.permits = owner.as_ref().filter(|_| mode == PERMIT).and_then(|number| number.as_str().parse().ok());
    let owner = owner.filter(|_| mode == EXCLUSIVE);
    (state.owner, state.note, state.since) = (owner, note, since.map(wall));
    Some(state)
}

/// The token at the start of a fence; `None` if the fence is missing.
pub(super) fn parse_token(fence: &[u8]) -> Option<u64> {
    let digits: &[u8; TOKEN_LEN] = fence.first_chunk()?;
    digits.iter().try_fold(0, |token, digit| Some(token * 10 + u64::from(decimal(*digit)?)))
}

/// A token as scripts take it.
pub(super) fn token_digits(token: u64) -> Vec<u8> {
    format!("{token:0TOKEN_LEN$}").into_bytes()
}

fn decimal(digit: u8) -> Option<u8> {
    digit.is_ascii_digit().then(|| digit - b'0')
}

/// The owner in a fence, if its grant had one.
pub(super) fn owner(fence: &[u8]) -> Option<OwnerId> {
    fence.get(TOKEN_LEN..).and_then(|member| parse_member(member, None)).and_then(|state| state.owner)
}

/// The holder: `value` is the value of the shared key, `fence` the newest grant of ours. A value that this
/// grant does not name is another program's, whatever it looks like: the ids of others have the form of ours
/// (redis-py's are UUIDs in hex).
pub(super) fn holder(value: &[u8], fence: &[u8], free_in: i64) -> ClaimState {
    let expires_in = u64::try_from(free_in).ok().map(Duration::from_millis);
    if is_grant_of_shared(fence, value)
        && let Some(state) = shared_holder(fence, free_in)
    {
        return state;
    }
    let first_value = without_attempt(value);
    let token = parse_token(fence);
    let granted =
        is_granted_to(fence, first_value).then(|| parse_member(&fence[TOKEN_LEN..], token)).flatten();
    let mut state = granted.map_or_else(
        || ClaimState { foreign: Some(Box::new(Foreign::new("string", value))), ..stranger(first_value) },
        |state| ClaimState { token, ..state },
    );
    if value.starts_with(b"!") {
        state.note = revoked(&state.note);
    }
    state.expires_in = expires_in;
    state
}

/// A claim that holds together with others, or did. `grant` is its token and its member.
pub(super) fn shared_holder(grant: &[u8], lease_left: i64) -> Option<ClaimState> {
    let (token, member) = (parse_token(grant)?, grant.get(TOKEN_LEN..)?);
    let state = parse_member(member.strip_prefix(b"!").unwrap_or(member), Some(token))?;
    let note = if member.starts_with(b"!") { revoked(&state.note) } else { state.note };
    let expires_in = u64::try_from(lease_left).ok().map(Duration::from_millis);
    Some(ClaimState { token: Some(token), note, expires_in, ..state })
}

/// The id of a member, which may be marked as revoked, and its tail.
pub(super) fn split_member(member: &[u8]) -> (&[u8], &[u8]) {
    let member = member.strip_prefix(b"!").unwrap_or(member);
    member.split_at(ID_LEN.min(member.len()))
}

/// The kind of the holders for which this value stands in the shared key: `r`, or `p` and the number of
/// permits. `None` if it stands for one holder. The scripts read it in the same way.
pub(super) fn shared_as(value: &[u8]) -> Option<&[u8]> {
    let (kind, id) = value.split_at_checked(value.len().checked_sub(ID_LEN + 1)?)?;
    let number = kind.strip_prefix(READ).or_else(|| kind.strip_prefix(PERMIT))?;
    let is_shared = number.iter().all(u8::is_ascii_digit) && id[0] == b':' && parse_id(&id[1..]).is_some();
    is_shared.then_some(kind)
}

/// The number of permits in `p3`.
pub(super) fn permits(kind: &[u8]) -> Option<u32> {
    std::str::from_utf8(kind.strip_prefix(PERMIT)?).ok()?.parse().ok()
}

/// Whether the newest grant of ours is the one that stands in the shared key.
pub(super) fn is_granted_to(fence: &[u8], value: &[u8]) -> bool {
    fence.get(TOKEN_LEN..TOKEN_LEN + ID_LEN) == Some(value.strip_prefix(b"!").unwrap_or(value))
}

/// Whether the newest grant of ours is one of the holders for which this value stands in the shared key.
fn is_grant_of_shared(fence: &[u8], value: &[u8]) -> bool {
    let mode = fence
        .get(TOKEN_LEN + ID_LEN + CHANNEL_LEN..)
        .and_then(|rest| rest.split(|byte| *byte == b'\n').next());
    shared_as(value).is_some() && shared_as(value) == mode
}

fn revoked(note: &Note) -> Note {
    Note::new(&format!("{} (revoked)", note.as_str()))
}

/// The value of a claim that was sent to a majority more than once, `<id>-<attempt>`, as that of its first
/// attempt.
fn without_attempt(value: &[u8]) -> &[u8] {
    let at = ID_LEN + usize::from(value.starts_with(b"!"));
    let is_attempt = value.get(at) == Some(&b'-') && value[at + 1..].iter().all(u8::is_ascii_digit);
    if is_attempt { &value[..at] } else { value }
}

/// A holder of another kind. Its value is not shown, because knowing it is enough to release the lock.
fn stranger(value: &[u8]) -> ClaimState {
    let mut state = ClaimState::new(foreign_id(value));
    state.note = Note::new("a client that is not latchwork");
    state
}

fn split_tail(tail: &[u8]) -> (Option<OwnerId>, Note) {
    let text = String::from_utf8_lossy(tail);
    let (owner, note) = text.split_once('\n').unwrap_or(("", &text));
    // Most claims have no owner. An empty id would be an error, which is not free.
    let owner = if owner.is_empty() { None } else { OwnerId::new(owner).ok() };
    (owner, Note::new(note))
}

fn wall(micros: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_micros(micros)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stranger_is_not_taken_for_ours_and_its_value_is_not_shown() {
        let fence = format!("1794800386713116{}{}x\nnote", "a".repeat(32), "c".repeat(16));
        let ours = holder("a".repeat(32).as_bytes(), fence.as_bytes(), 5);
        assert_eq!((ours.token, ours.note.as_str()), (Some(1_794_800_386_713_116), "note"));
        let stranger = holder(b"secret", fence.as_bytes(), -1);
        assert_eq!((stranger.token, stranger.expires_in), (None, None));
        assert!(!format!("{stranger:?}").contains("secret"));
        assert_eq!(stranger.id, holder(b"secret", b"", 7).id, "the same id for the same value");
        let revoked = holder(format!("!{}", "a".repeat(32)).as_bytes(), fence.as_bytes(), 5);
        assert_eq!((revoked.id, revoked.note.as_str()), (ours.id, "note (revoked)"));
    }

    #[test]
    fn the_holders_of_a_shared_lock_are_read_and_no_other_value_is_taken_for_them() {
        let id = "a".repeat(32);
        assert_eq!(shared_as(format!("r:{id}").as_bytes()), Some(&b"r"[..]));
        assert_eq!(shared_as(format!("p12:{id}").as_bytes()).and_then(permits), Some(12));
        for value in
            ["", "r", "r:", "r:me", &id, &format!("x:{id}"), &format!("r:{id}a"), &format!("p-1:{id}")]
        {
            assert_eq!(shared_as(value.as_bytes()), None, "{value}");
        }
        let grant = format!("1794800386713116!{id}{}p3\nnote", "c".repeat(16));
        let revoked = shared_holder(grant.as_bytes(), 5).expect("a grant");
        assert_eq!((revoked.token, revoked.note.as_str()), (Some(1_794_800_386_713_116), "note (revoked)"));
        assert_eq!(revoked.owner, None, "a number is no owner");
    }
}
