//! The kind of a lock's child node, by its name.

use crate::engine::{ClaimId, Mode};

/// The prefix of the node names of Curator.
const PREFIX: &str = "_c_";
/// The mark before the digits, and the kind that it stands for. This engine writes the first three.
const MARKS: [(&str, NodeKind); 6] = [
    ("-lock-", NodeKind::Exclusive),
    ("-__WRIT__", NodeKind::Write),
    ("-__READ__", NodeKind::Read),
    ("__rlock__", NodeKind::Read),
    ("__lock__", NodeKind::Exclusive),
    ("lock-", NodeKind::Exclusive),
];
/// The mark between the claim's id and the number of permits.
const PERMIT_MARK: &str = "-permit-";

/// The mode that a node claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NodeKind {
    Exclusive,
    Write,
    Read,
    /// One of so many permits.
    Permit {
        of: u32,
    },
    /// Another program's node. To be safe, it counts as exclusive.
    Unknown,
}

impl NodeKind {
    /// The number of permits, if the node claims one.
    pub(super) fn permits(self) -> Option<u32> {
        match self {
            Self::Permit { of } => Some(of),
            _ => None,
        }
    }

    /// The kind and the sequence number in a node's name. `None` if the node is not a claim.
    pub(super) fn parse(name: &str) -> Option<(Self, i32)> {
        let known = MARKS.iter().find_map(|(mark, kind)| {
            let (_, digits) = name.rsplit_once(mark)?;
            Some((*kind, parse_sequence(digits)?))
        });
        known.or_else(|| parse_permit(name)).or_else(|| {
            let digits = name.get(name.len().checked_sub(10)?..)?;
            Some((Self::Unknown, parse_sequence(digits)?))
        })
    }
}

fn parse_permit(name: &str) -> Option<(NodeKind, i32)> {
    let (of, digits) = name.rsplit_once(PERMIT_MARK)?.1.split_once('-')?;
    Some((NodeKind::Permit { of: of.parse().ok()? }, parse_sequence(digits)?))
}

/// Ten digits. After 2^31 nodes the server's counter overflows, and the number is negative.
fn parse_sequence(digits: &str) -> Option<i32> {
    let plain = digits.strip_prefix('-').unwrap_or(digits);
    let fits = digits.len() == 10 || (digits.len() == 11 && digits.starts_with('-'));
    (fits && plain.bytes().all(|byte| byte.is_ascii_digit())).then(|| digits.parse().ok())?
}

/// The name of a claim's node, before the server adds its digits. `None` for an unknown mode.
pub(super) fn name_of(id: ClaimId, mode: Mode) -> Option<String> {
    let wanted = match mode {
        Mode::Exclusive => NodeKind::Exclusive,
        Mode::Write => NodeKind::Write,
        Mode::Read => NodeKind::Read,
        Mode::Permit { of } => return Some(format!("{}{PERMIT_MARK}{of}-", prefix_of(id))),
    };
    let (mark, _) = MARKS.iter().find(|(_, kind)| *kind == wanted)?;
    Some(format!("{}{mark}", prefix_of(id)))
}

/// The prefix of the names of a claim's nodes, whatever their kind. A claim with a lost reply is found by it.
pub(super) fn prefix_of(id: ClaimId) -> String {
    let digits = id.to_string();
    let parts = [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]];
    format!("{PREFIX}{}", parts.join("-"))
}

/// The claim's id in a node's name, as this engine and Curator write it, or as kazoo does.
pub(super) fn parse_id(name: &str) -> Option<ClaimId> {
    let name = name.strip_prefix(PREFIX).unwrap_or(name);
    let digits: String = name.chars().filter(|c| *c != '-').take(32).collect();
    if digits.len() != 32 || !digits.is_ascii() {
        return None;
    }
    let byte = |at: usize| u8::from_str_radix(digits.get(2 * at..2 * at + 2)?, 16).ok();
    let bytes = (0..16).map(byte).collect::<Option<Vec<_>>>()?;
    Some(ClaimId::from_bytes(bytes.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const UUID: &str = "_c_00112233-4455-6677-8899-aabbccddeeff";

    #[test]
    fn nodes_are_named_as_curator_names_them_and_known_by_any_client_s_name() {
        let id = ClaimId::from_bytes([
            0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff,
        ]);
        assert_eq!(name_of(id, Mode::Exclusive).unwrap(), format!("{UUID}-lock-"));
        assert_eq!(name_of(id, Mode::Write).unwrap(), format!("{UUID}-__WRIT__"));
        assert_eq!(name_of(id, Mode::Read).unwrap(), format!("{UUID}-__READ__"));
        assert_eq!(name_of(id, Mode::Permit { of: 2 }).unwrap(), format!("{UUID}-permit-2-"));
        for (name, kind, sequence) in [
            ("_c_x-lock-0000000007", NodeKind::Exclusive, 7),
            ("lock-0000000007", NodeKind::Exclusive, 7),
            ("00112233445566778899aabbccddeeff__lock__0000000012", NodeKind::Exclusive, 12),
            ("x__rlock__0000000012", NodeKind::Read, 12),
            ("x-__READ__2147483647", NodeKind::Read, i32::MAX),
            ("x-__WRIT__-2147483648", NodeKind::Write, i32::MIN),
            ("_c_x-lock--000000005", NodeKind::Exclusive, -5),
            ("_c_x-permit-12-0000000007", NodeKind::Permit { of: 12 }, 7),
            ("_c_x-permit-1--000000007", NodeKind::Permit { of: 1 }, -7),
            ("member_0000000001", NodeKind::Unknown, 1),
        ] {
            assert_eq!(NodeKind::parse(name), Some((kind, sequence)), "{name}");
        }
        for other in ["b", "leases", "x-lock-", "x-lock-123", "x-lock-000000000%30", "é000000000"] {
            assert_eq!(NodeKind::parse(other), None, "{other}");
        }
        for name in
            [format!("{UUID}-lock-0000000001"), "00112233445566778899aabbccddeeff__lock__0000000012".into()]
        {
            assert_eq!(parse_id(&name), Some(id), "{name}");
        }
        assert_eq!(parse_id("lock-0000000007"), None);
    }
}
