//! What a node of ours holds: a word, the claim's id, and who it is for people to read, a line each.

use crate::engine::{Claim, ClaimId, Note};

const WORD: &str = "latchwork1";
const REVOKED: &str = "latchwork1 revoked";

/// The data of a node of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Data {
    pub(super) id: ClaimId,
    pub(super) note: Note,
    /// An operator takes the lock away: its holder reads it here, and lets go.
    pub(super) is_revoked: bool,
}

impl Data {
    pub(super) fn of(claim: &Claim) -> Vec<u8> {
        Self { id: claim.id, note: claim.note.clone(), is_revoked: false }.bytes()
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        let word = if self.is_revoked { REVOKED } else { WORD };
        format!("{word}\n{}\n{}", self.id, self.note.as_str()).into_bytes()
    }

    /// `None` if another client wrote it.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let mut lines = std::str::from_utf8(bytes).ok()?.splitn(3, '\n');
        let is_revoked = match lines.next()? {
            WORD => false,
            REVOKED => true,
            _ => return None,
        };
        let digits = lines.next()?.as_bytes();
        let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
        let id = digits.chunks(2).map(byte).collect::<Option<Vec<_>>>()?;
        let id = ClaimId::from_bytes(id.try_into().ok()?);
        Some(Self { id, note: Note::new(lines.next()?), is_revoked })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_back_and_nothing_else() {
        let data = Data { id: ClaimId::random(), note: Note::new("pid 7 on web1"), is_revoked: false };
        assert_eq!(Data::read(&data.bytes()), Some(data.clone()));
        let revoked = Data { is_revoked: true, ..data };
        assert_eq!(Data::read(&revoked.bytes()), Some(revoked));
        for foreign in [&b"10.0.0.1"[..], b"", b"latchwork1\n00\nx", b"latchwork1\nxyz", &[0xff, 0xfe]] {
            assert_eq!(Data::read(foreign), None);
        }
    }
}
