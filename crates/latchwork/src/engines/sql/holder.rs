//! Who holds a lock, as the one text that the shared table has room for.

use std::hash::{DefaultHasher, Hasher};

use crate::OwnerId;
use crate::engine::{Claim, ClaimId};

/// Stands between an owner and the claim.
const OF: char = '#';
/// Stands behind a claim that must not be renewed any more.
const REVOKED: char = '!';
const DIGITS: usize = 32;

/// The holder that a row names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Holder {
    pub(super) id: ClaimId,
    pub(super) owner: Option<OwnerId>,
    pub(super) is_revoked: bool,
    /// Whether somebody else wrote it, by plain SQL.
    pub(super) is_foreign: bool,
}

/// What a claim of ours writes: `ID` or `OWNER#ID`, so that no two claims are the same holder.
pub(super) fn text(claim: &Claim) -> String {
    match &claim.owner {
        Some(owner) => format!("{}{OF}{}", owner.as_str(), claim.id),
        None => claim.id.to_string(),
    }
}

/// The same, once it was revoked.
pub(super) fn revoked(text: &str) -> String {
    format!("{text}{REVOKED}")
}

impl Holder {
    pub(super) fn read(text: &str) -> Self {
        let (rest, is_revoked) = text.strip_suffix(REVOKED).map_or((text, false), |rest| (rest, true));
        Self::ours(rest, is_revoked).unwrap_or_else(|| Self::foreign(text))
    }

    fn ours(text: &str, is_revoked: bool) -> Option<Self> {
        let (before, digits) = text.split_at_checked(text.len().checked_sub(DIGITS)?)?;
        let is_digit = |digit: u8| matches!(digit, b'0'..=b'9' | b'a'..=b'f');
        let id = u128::from_str_radix(digits, 16).ok().filter(|_| digits.bytes().all(is_digit))?;
        let owner = match before {
            "" => None,
            before => Some(OwnerId::new(before.strip_suffix(OF)?).ok()?),
        };
        Some(Self { id: ClaimId::from_bytes(id.to_be_bytes()), owner, is_revoked, is_foreign: false })
    }

    /// A name that others chose. Its id only serves to know it again.
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
    fn what_is_written_is_read() {
        for owner in
            [None, Some("a"), Some("a#b"), Some("#"), Some("!"), Some("\u{e4}"), Some(&*"f".repeat(32))]
        {
            let claim = claim(owner);
            let written = text(&claim);
            let read = Holder::read(&written);
            assert_eq!((read.id, &read.owner, read.is_foreign), (claim.id, &claim.owner, false), "{written}");
            assert!(Holder::read(&revoked(&written)).is_revoked && !read.is_revoked);
        }
    }

    #[test]
    fn what_others_write_is_theirs() {
        let digits = "0123456789abcdef".repeat(2);
        for foreign in ["", "host-7", "host-7!", "\u{e4}", &digits.to_uppercase(), &format!("host{digits}")] {
            let read = Holder::read(foreign);
            assert!(read.is_foreign, "{foreign}");
            assert_eq!(read.id, Holder::read(foreign).id);
            assert_eq!(
                read.owner.as_ref().map(OwnerId::as_str),
                Some(foreign).filter(|name| !name.is_empty())
            );
        }
        assert_ne!(Holder::read("host-7").id, Holder::read("host-8").id);
    }
}
