//! The holder of a lock, as the text in the column `holder_id` of the shared table.

use std::hash::{DefaultHasher, Hasher};

use crate::OwnerId;
use crate::engine::{Claim, ClaimId};

/// Between the owner and the claim id.
const OWNER_SEPARATOR: char = '#';
/// Behind the id of a revoked claim, which must not be renewed any more.
const REVOKED: char = '!';
/// The length of a claim id in hexadecimal digits.
const ID_LENGTH: usize = 32;

/// The holder that a row names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RowHolder {
    pub(super) id: ClaimId,
    pub(super) owner: Option<OwnerId>,
    pub(super) is_revoked: bool,
    /// Whether another program wrote it, by plain SQL.
    pub(super) is_foreign: bool,
}

/// The text for a claim of Latchwork: `ID` or `OWNER#ID`, so that no two claims have the same one.
pub(super) fn text(claim: &Claim) -> String {
    match &claim.owner {
        Some(owner) => format!("{}{OWNER_SEPARATOR}{}", owner.as_str(), claim.id),
        None => claim.id.to_string(),
    }
}

/// The text for a revoked claim.
pub(super) fn revoked(text: &str) -> String {
    format!("{text}{REVOKED}")
}

impl RowHolder {
    pub(super) fn read(text: &str) -> Self {
        let (rest, is_revoked) = text.strip_suffix(REVOKED).map_or((text, false), |rest| (rest, true));
        Self::own(rest, is_revoked).unwrap_or_else(|| Self::foreign(text))
    }

    fn own(text: &str, is_revoked: bool) -> Option<Self> {
        let (before, digits) = text.split_at_checked(text.len().checked_sub(ID_LENGTH)?)?;
        let is_digit = |digit: u8| matches!(digit, b'0'..=b'9' | b'a'..=b'f');
        let id = u128::from_str_radix(digits, 16).ok().filter(|_| digits.bytes().all(is_digit))?;
        let owner = match before {
            "" => None,
            before => Some(OwnerId::new(before.strip_suffix(OWNER_SEPARATOR)?).ok()?),
        };
        Some(Self { id: ClaimId::from_bytes(id.to_be_bytes()), owner, is_revoked, is_foreign: false })
    }

    /// A name that another program chose. Its id is a hash, only used to recognize it.
    fn foreign(text: &str) -> Self {
        let half = |salt: u8| {
            let mut hasher = DefaultHasher::new();
            hasher.write_u8(salt);
            hasher.write(text.as_bytes());
            hasher.finish()
        };
        let id = u128::from(half(0)) << 64 | u128::from(half(1));
        let owner = OwnerId::new(text).ok();
        Self { id: ClaimId::from_bytes(id.to_be_bytes()), owner, is_revoked: false, is_foreign: true }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::LockName;

    fn claim(owner: Option<&str>) -> Claim {
        let mut claim = Claim::new(LockName::new("x").expect("a good name"), Duration::from_secs(1));
        claim.owner = owner.map(|owner| OwnerId::new(owner).expect("a good owner"));
        claim
    }

    #[test]
    fn a_written_holder_is_read_back() {
        for owner in
            [None, Some("a"), Some("a#b"), Some("#"), Some("!"), Some("\u{e4}"), Some(&*"f".repeat(32))]
        {
            let claim = claim(owner);
            let written = text(&claim);
            let read = RowHolder::read(&written);
            assert_eq!((read.id, &read.owner, read.is_foreign), (claim.id, &claim.owner, false), "{written}");
            assert!(RowHolder::read(&revoked(&written)).is_revoked && !read.is_revoked);
        }
    }

    #[test]
    fn names_of_other_programs_are_foreign() {
        let digits = "0123456789abcdef".repeat(2);
        for foreign in ["", "host-7", "host-7!", "\u{e4}", &digits.to_uppercase(), &format!("host{digits}")] {
            let read = RowHolder::read(foreign);
            assert!(read.is_foreign, "{foreign}");
            assert_eq!(read.id, RowHolder::read(foreign).id);
            assert_eq!(
                read.owner.as_ref().map(OwnerId::as_str),
                Some(foreign).filter(|name| !name.is_empty())
            );
        }
        assert_ne!(RowHolder::read("host-7").id, RowHolder::read("host-8").id);
    }
}
