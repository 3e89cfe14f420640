//! How a claim is written down on the server: `id channel mode owner LF note`, behind its token if it was granted.

use std::time::{Duration, SystemTime};

use redis::{RedisWrite, ToRedisArgs};

use super::keys::write_parts;
use crate::engine::{Claim, ClaimState, Note};
use crate::engines::digits::{ID, stranger_id};
pub(super) use crate::engines::digits::{digits, parse_id};
use crate::{OwnerId, clock};

/// Digits of a token.
const TOKEN: usize = 16;
const CHANNEL: usize = 16;
/// The mode: exclusive. Other letters are kept free for other modes.
const MODE: &str = "x";

/// The session's own channel, without its prefix.
pub(super) fn draw_channel() -> String {
    clock::random_bytes::<8>().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What follows the id of a claim; with the channel of its session.
pub(super) struct Tail<'a>(pub(super) &'a Claim, pub(super) &'a str);

impl ToRedisArgs for Tail<'_> {
    fn write_redis_args<W: ?Sized + RedisWrite>(&self, out: &mut W) {
        let Self(claim, channel) = self;
        let note = claim.note.as_str();
        match &claim.owner {
            None => write_parts(out, &[channel, "x\n", note]),
            Some(owner) => write_parts(out, &[channel, MODE, owner.as_str(), "\n", note]),
        }
    }
}

/// A waiting claim as it stands in the queue.
pub(super) fn waiter(member: &[u8], arrived: Option<u64>) -> Option<ClaimState> {
    let (id, rest) = member.split_at_checked(ID)?;
    let (owner, note) = split_tail(rest.get(CHANNEL + MODE.len()..)?);
    let mut state = ClaimState::new(parse_id(id)?);
    (state.owner, state.note, state.since) = (owner, note, arrived.map(wall));
    Some(state)
}

/// The newest token, if the fence is there.
pub(super) fn token(fence: &[u8]) -> Option<u64> {
    let digits: &[u8; TOKEN] = fence.first_chunk()?;
    digits.iter().try_fold(0, |token, digit| Some(token * 10 + u64::from(decimal(*digit)?)))
}

fn decimal(digit: u8) -> Option<u8> {
    digit.is_ascii_digit().then(|| digit - b'0')
}

/// The owner in a fence, if its grant had one.
pub(super) fn owner(fence: &[u8]) -> Option<OwnerId> {
    fence.get(TOKEN..).and_then(|member| waiter(member, None)).and_then(|state| state.owner)
}

/// Who holds: `value` is what stands in the shared key, `fence` the newest grant of ours.
pub(super) fn holder(value: &[u8], fence: &[u8], free_in: i64) -> ClaimState {
    let expires_in = u64::try_from(free_in).ok().map(Duration::from_millis);
    let value = without_attempt(value);
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

/// The value of a claim that asked a majority more than once, `<id>-<attempt>`, as that of its first attempt.
fn without_attempt(value: &[u8]) -> &[u8] {
    let at = ID + usize::from(value.starts_with(b"!"));
    let is_attempt = value.get(at) == Some(&b'-') && value[at + 1..].iter().all(u8::is_ascii_digit);
    if is_attempt { &value[..at] } else { value }
}

/// A holder of another kind. Its value is not shown: who knows it can release the lock.
fn stranger(value: &[u8]) -> ClaimState {
    let mut state = ClaimState::new(stranger_id(value));
    state.note = Note::new("a client that is not latchwork");
    state
}

fn split_tail(tail: &[u8]) -> (Option<OwnerId>, Note) {
    let text = String::from_utf8_lossy(tail);
    let (owner, note) = text.split_once('\n').unwrap_or(("", &text));
    (OwnerId::new(owner).ok(), Note::new(note))
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
}
