//! How a claim is written down on the server: `id channel owner LF note`, behind its token if it was granted.

use std::time::{Duration, SystemTime};

use crate::engine::{Claim, ClaimId, ClaimState, Note};
use crate::{OwnerId, clock};

/// Digits of a token, and of an id.
const TOKEN: usize = 16;
const ID: usize = 32;
const CHANNEL: usize = 16;

/// The session's own channel, without its prefix.
pub(super) fn draw_channel() -> String {
    clock::random_bytes::<8>().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What follows the id.
pub(super) fn tail(claim: &Claim, channel: &str) -> String {
    [channel, claim.owner.as_ref().map_or("", OwnerId::as_str), "\n", claim.note.as_str()].concat()
}

/// The id in hexadecimal digits.
pub(super) fn parse_id(digits: &[u8]) -> Option<ClaimId> {
    let digits: &[u8; ID] = digits.try_into().ok()?;
    let value = |digit: u8| (digit as char).to_digit(16).filter(|_| !digit.is_ascii_uppercase());
    let mut bytes = [0; ID / 2];
    for (byte, pair) in bytes.iter_mut().zip(digits.as_chunks::<2>().0) {
        *byte = (value(pair[0])? * 16 + value(pair[1])?) as u8;
    }
    Some(ClaimId::from_bytes(bytes))
}

/// A waiting claim as it stands in the queue.
pub(super) fn waiter(member: &[u8], arrived: Option<u64>) -> Option<ClaimState> {
    let (id, rest) = member.split_at_checked(ID)?;
    let (owner, note) = split_tail(rest.get(CHANNEL..)?);
    let mut state = ClaimState::new(parse_id(id)?);
    (state.owner, state.note, state.since) = (owner, note, arrived.map(wall));
    Some(state)
}

/// The newest token, if the fence is there.
pub(super) fn token(fence: &[u8]) -> Option<u64> {
    std::str::from_utf8(fence.get(..TOKEN)?).ok()?.parse().ok()
}

/// The owner in a fence, if its grant had one.
pub(super) fn owner(fence: &[u8]) -> Option<OwnerId> {
    fence.get(TOKEN..).and_then(|member| waiter(member, None)).and_then(|state| state.owner)
}

/// Who holds: `value` is what stands in the shared key, `fence` the newest grant of ours.
pub(super) fn holder(value: &[u8], fence: &[u8], free_in: i64) -> ClaimState {
    let expires_in = u64::try_from(free_in).ok().map(Duration::from_millis);
    let granted = is_granted_to(fence, value).then(|| waiter(&fence[TOKEN..], token(fence))).flatten();
    let mut state =
        granted.map_or_else(|| stranger(value), |state| ClaimState { token: token(fence), ..state });
    if value.starts_with(b"!") {
        state.note = Note::new(&format!("{} (revoked)", state.note.as_str()));
    }
    state.expires_in = expires_in;
    state
}

/// Whether the newest grant of ours is the one that stands in the shared key.
pub(super) fn is_granted_to(fence: &[u8], value: &[u8]) -> bool {
    fence.get(TOKEN..TOKEN + ID) == Some(value.strip_prefix(b"!").unwrap_or(value))
}

/// A holder of another kind. Its value is not shown: who knows it can release the lock.
fn stranger(value: &[u8]) -> ClaimState {
    let mut state = ClaimState::new(stranger_id(value));
    state.note = Note::new("a client that is not latchwork");
    state
}

/// The same id for the same value, for an operator to name it by.
pub(super) fn stranger_id(value: &[u8]) -> ClaimId {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let half = |salt: u8| {
        let mut hasher = DefaultHasher::new();
        (salt, value).hash(&mut hasher);
        hasher.finish().to_be_bytes()
    };
    let mut id = [0; 16];
    id[..8].copy_from_slice(&half(0));
    id[8..].copy_from_slice(&half(1));
    parse_id(value).unwrap_or(ClaimId::from_bytes(id))
}

fn split_tail(tail: &[u8]) -> (Option<OwnerId>, Note) {
    let text = String::from_utf8_lossy(tail);
    let (owner, note) = text.split_once('\n').unwrap_or(("", &text));
    (OwnerId::new(owner).ok(), Note::new(note))
}

fn wall(micros: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_micros(micros)
}
