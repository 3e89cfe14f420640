//! The value at a lock's key: the claim's id, LF, its note; with `!` before it if an operator revoked the
//! lock.

use std::time::Duration;

use super::wire::EXTRA_SECONDS;
use crate::engine::{Claim, ClaimId, ClaimState, Foreign, Note};
use crate::engines::claim_id_hex::{ID_DIGITS, encode_id, foreign_id, parse_id};

/// Marks a claim whose lease must not be renewed. It precedes the id.
const REVOKED: u8 = b'!';

/// The value of a claim.
pub(super) fn of(claim: &Claim) -> Vec<u8> {
    [&encode_id(claim.id)[..], b"\n", claim.note.as_str().as_bytes()].concat()
}

/// The value of a claim after an operator revoked it.
pub(super) fn revoked(value: &[u8]) -> Vec<u8> {
    [&[REVOKED], value].concat()
}

/// The owner of a value, as a claim sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// The claim itself.
    Claim,
    /// The claim itself, and an operator revoked the lock.
    RevokedClaim,
    /// Another claim, or a client that is not latchwork.
    Another,
}

pub(super) fn owner(value: &[u8], id: ClaimId) -> Owner {
    match read(value) {
        Some((found, _, false)) if found == id => Owner::Claim,
        Some((found, _, true)) if found == id => Owner::RevokedClaim,
        _ => Owner::Another,
    }
}

/// Whether this is the value of a claim, and an operator revoked the lock.
pub(super) fn is_revoked(value: &[u8]) -> bool {
    read(value).is_some_and(|(_, _, is_revoked)| is_revoked)
}

/// The holder as operators and waiters see it. The server keeps the value for `left` seconds.
pub(super) fn holder(value: &[u8], mut left: Option<u64>) -> ClaimState {
    let mut holder = match read(value) {
        Some((id, note, is_revoked)) => {
            // The client asked for more than the lease.
            left = left.map(|left| left.saturating_sub(EXTRA_SECONDS));
            let mut holder = ClaimState::new(id);
            let note = String::from_utf8_lossy(note);
            holder.note = if is_revoked { Note::new(&format!("{note} (revoked)")) } else { Note::new(&note) };
            holder
        }
        None => {
            let mut stranger = ClaimState::new(foreign_id(value));
            stranger.note = Note::new("a client that is not latchwork");
            stranger.foreign = Some(Box::new(Foreign::new("item", value)));
            stranger
        }
    };
    holder.expires_in = left.map(Duration::from_secs);
    holder
}

/// Id, note, and whether it is revoked. `None` if this is not the value of a claim.
fn read(value: &[u8]) -> Option<(ClaimId, &[u8], bool)> {
    let (is_revoked, value) = match value.strip_prefix(&[REVOKED]) {
        Some(rest) => (true, rest),
        None => (false, value),
    };
    let (id, rest) = value.split_at_checked(ID_DIGITS)?;
    Some((parse_id(id)?, rest.strip_prefix(b"\n")?, is_revoked))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LockName;

    #[test]
    fn a_value_names_its_owner() {
        let mut claim = Claim::new(LockName::new("a").unwrap(), Duration::from_secs(1));
        claim.note = Note::new("two words");
        let value = of(&claim);
        assert_eq!(owner(&value, claim.id), Owner::Claim);
        assert_eq!(owner(&revoked(&value), claim.id), Owner::RevokedClaim);
        assert_eq!(owner(&value, ClaimId::random()), Owner::Another);
        assert_eq!(
            [&value, &revoked(&value), &vec![b'x']].map(|value| is_revoked(value)),
            [false, true, false]
        );
        assert_eq!(holder(&value, None).note.as_str(), "two words");
        assert_eq!(holder(&revoked(&value), None).note.as_str(), "two words (revoked)");
        for unexpected in [&b""[..], b"!", b"1", &encode_id(claim.id), &value[1..], b"\xff\n", &[b'!'; 33]] {
            assert_eq!(owner(unexpected, claim.id), Owner::Another);
            assert_eq!(holder(unexpected, None).note.as_str(), "a client that is not latchwork");
        }
        assert_eq!(holder(b"secret", None).id, holder(b"secret", None).id);
    }
}
