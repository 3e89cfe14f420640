//! The data of a claim's node: a format mark, the claim's id, and the holder's description, one line each.

use crate::engine::{Claim, ClaimId, Note};

const MARK: &str = "latchwork1";
const REVOKED_MARK: &str = "latchwork1 revoked";

/// The data of a node that this engine has created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NodeData {
    pub(super) id: ClaimId,
    pub(super) note: Note,
    /// An operator has revoked the claim. Its holder reads this, and releases the lock.
    pub(super) is_revoked: bool,
}

impl NodeData {
    pub(super) fn encode_claim(claim: &Claim) -> Vec<u8> {
        Self { id: claim.id, note: claim.note.clone(), is_revoked: false }.encode()
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mark = if self.is_revoked { REVOKED_MARK } else { MARK };
        format!("{mark}\n{}\n{}", self.id, self.note.as_str()).into_bytes()
    }

    /// `None` if another program wrote the data.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let mut lines = std::str::from_utf8(bytes).ok()?.splitn(3, '\n');
        let is_revoked = match lines.next()? {
            MARK => false,
            REVOKED_MARK => true,
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
        let data = NodeData { id: ClaimId::random(), note: Note::new("pid 7 on web1"), is_revoked: false };
        assert_eq!(NodeData::parse(&data.encode()), Some(data.clone()));
        let revoked = NodeData { is_revoked: true, ..data };
        assert_eq!(NodeData::parse(&revoked.encode()), Some(revoked));
        for foreign in [&b"10.0.0.1"[..], b"", b"latchwork1\n00\nx", b"latchwork1\nxyz", &[0xff, 0xfe]] {
            assert_eq!(NodeData::parse(foreign), None);
        }
    }
}
