//! Where a claim stands: `<namespace><lock name>/<lease>-<mode><32 digits>`, and what stands there: `<claim id>`, and in the
//! next line what it says of itself.
//!
//! The digits are the id of the first claim that stood there: names are used again.
//!
//! etcd's own lock (`etcdctl lock`, Go's `concurrency.Mutex`) writes `<lock name>/<lease>` and waits for every key below
//! `<lock name>/` that was created before its own; so do we. One segment more, which begins with the digits of a lease,
//! makes a contender: what else stands below belongs to locks with longer names.

use crate::engine::{Claim, ClaimId, Mode};
use crate::{LockName, Result};

use super::failure::unsupported;
use super::wire::KeyValue;

/// Before the value of a claim that an operator took away.
pub(super) const REVOKED: u8 = b'!';

/// One who holds or waits.
#[derive(Clone, Debug)]
pub(super) struct Contender {
    pub(super) key: Vec<u8>,
    pub(super) id: ClaimId,
    pub(super) is_reader: bool,
    /// Whether it is a claim of ours, and not another client's.
    pub(super) is_ours: bool,
    pub(super) is_revoked: bool,
    pub(super) revision: i64,
    pub(super) lease: i64,
    /// What it says of itself.
    pub(super) note: String,
}

/// From which key to which the contenders of a lock stand, the last one excluded. Leases are written in digits and
/// letters up to f, so that few others stand among them.
pub(super) fn contenders(namespace: &str, name: &LockName) -> (Vec<u8>, Vec<u8>) {
    let key = |end: &str| format!("{namespace}{}/{end}", name.as_str()).into_bytes();
    (key("0"), key("g"))
}

/// A new key for a claim under a lease.
///
/// # Errors
/// For a mode that this engine does not have.
pub(super) fn key(namespace: &str, claim: &Claim, lease: i64) -> Result<Vec<u8>> {
    let mode = match claim.mode {
        Mode::Exclusive => 'x',
        Mode::Write => 'w',
        Mode::Read => 'r',
        Mode::Permit { .. } => return Err(unsupported("etcd: permits")),
    };
    Ok(format!("{namespace}{}/{lease:x}-{mode}{}", claim.name.as_str(), claim.id).into_bytes())
}

/// How many digits end a key.
const DIGITS: usize = 32;

/// What a claim's key has in common with those of other claims of the same mode, for the same lock, under the same lease.
pub(super) fn stem(key: &[u8]) -> &[u8] {
    &key[..key.len().saturating_sub(DIGITS)]
}

/// What stands at the key of a claim.
pub(super) fn value(id: ClaimId, note: &str) -> Vec<u8> {
    format!("{id}\n{note}").into_bytes()
}

/// The claim that wrote this value, also if it was taken away since.
pub(super) fn writer(value: &[u8]) -> Option<ClaimId> {
    let value = value.strip_prefix(&[REVOKED]).unwrap_or(value);
    parse_id(std::str::from_utf8(value.get(..DIGITS)?).ok()?).filter(|_| value.get(DIGITS) == Some(&b'\n'))
}

/// The name of the lock that a key belongs to, if it is a contender's.
pub(super) fn lock_of(namespace: &str, key: &[u8]) -> Option<LockName> {
    let path = std::str::from_utf8(key.strip_prefix(namespace.as_bytes())?).ok()?;
    LockName::new(path.rsplit_once('/')?.0).ok()
}

impl Contender {
    /// The contender for `name` at this key, if it is one.
    pub(super) fn of(namespace: &str, name: &LockName, kv: KeyValue) -> Option<Self> {
        let rest = kv.key.strip_prefix(namespace.as_bytes())?.strip_prefix(name.as_str().as_bytes())?;
        let segment = std::str::from_utf8(rest.strip_prefix(b"/")?).ok()?;
        let (lease, tail) =
            segment.split_once('-').map_or((segment, None), |(lease, tail)| (lease, Some(tail)));
        let is_hex = |text: &str| text.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
        // Without a lease it would never go away by itself: whatever it is, it is no lock.
        if kv.lease == 0 || lease.is_empty() || lease.len() > 16 || !is_hex(lease) || segment.contains('/') {
            return None;
        }
        let ours = tail.and_then(|tail| Some((tail.get(..1)?, parse_id(tail.get(1..)?)?)));
        let is_revoked = ours.is_some() && kv.value.first() == Some(&REVOKED);
        let writer = writer(&kv.value);
        let before_note = usize::from(is_revoked) + writer.map_or(0, |_| DIGITS + 1);
        let note = kv.value.get(before_note..).unwrap_or_default();
        Some(Self {
            id: ours.map_or_else(|| foreign_id(&kv), |(_, first)| writer.unwrap_or(first)),
            is_reader: matches!(ours, Some(("r", _))),
            is_ours: ours.is_some(),
            is_revoked,
            revision: kv.create_revision,
            lease: kv.lease,
            note: match ours {
                Some(_) => String::from_utf8_lossy(note).into_owned(),
                None => "another kind of client".to_owned(),
            },
            key: kv.key,
        })
    }

    /// Whether a claim of this mode that came after it has to wait for it.
    pub(super) fn blocks(&self, mode: Mode) -> bool {
        !(self.is_reader && mode == Mode::Read)
    }
}

fn parse_id(text: &str) -> Option<ClaimId> {
    let mut bytes = [0; 16];
    if text.len() != DIGITS || !text.is_ascii() {
        return None;
    }
    for (byte, at) in bytes.iter_mut().zip((0..DIGITS).step_by(2)) {
        *byte = u8::from_str_radix(&text[at..at + 2], 16).ok()?;
    }
    Some(ClaimId::from_bytes(bytes))
}

/// Others draw no ids; a lease has one key of a lock at a time.
fn foreign_id(kv: &KeyValue) -> ClaimId {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&kv.lease.to_be_bytes());
    bytes[8..].copy_from_slice(&kv.create_revision.to_be_bytes());
    ClaimId::from_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn contender(name: &str, key: &str, lease: i64) -> Option<Contender> {
        let kv = KeyValue {
            key: key.into(),
            create_revision: 7,
            value: b"web1".into(),
            lease,
            ..KeyValue::default()
        };
        Contender::of("app/", &LockName::new(name).unwrap(), kv)
    }

    #[test]
    fn a_claim_is_found_at_its_key() {
        for (mode, is_reader) in [(Mode::Exclusive, false), (Mode::Write, false), (Mode::Read, true)] {
            let mut claim = Claim::new(LockName::new("a/b").unwrap(), Duration::from_secs(1));
            claim.mode = mode;
            let key = String::from_utf8(key("app/", &claim, 0x7f).unwrap()).unwrap();
            let found = contender("a/b", &key, 0x7f).expect("its own");
            assert_eq!((found.id, found.is_reader, found.is_ours), (claim.id, is_reader, true));
            assert_eq!(lock_of("app/", key.as_bytes()).unwrap(), claim.name);
            let (from, end) = contenders("app/", &claim.name);
            assert!(from.as_slice() <= key.as_bytes() && key.as_bytes() < end.as_slice());
        }
    }

    #[test]
    fn what_etcdctl_writes_counts_and_what_is_below_longer_names_does_not() {
        assert!(!contender("a", "app/a/694d8", 1).expect("etcdctl's").is_ours);
        for (key, lease) in [
            ("app/a/b/694d8", 1),
            ("app/a/", 1),
            ("app/a/694d8", 0),
            ("app/a/xyz", 1),
            ("app/ab/1", 1),
            ("app/a/1/2", 1),
        ] {
            assert!(contender("a", key, lease).is_none(), "{key}");
        }
    }
}
