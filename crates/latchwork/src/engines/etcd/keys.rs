//! The keys of claims.
//!
//! A claim's key is `<namespace><lock name>/<lease>-<mode><32 digits>`. Its value is `<claim id>`, and the
//! claim's description in the next line. The digits are the id of the first claim with this key: keys are
//! used again.
//!
//! The key of an election's candidate has the mode `e`, and its value is the leader's value, as with `etcdctl
//! elect`. So the claim's id must be in the key, and such a key is not used again.
//!
//! A permit's key is `<namespace><lock name>/0<tab><total>-<lease>-<32 digits>`. Permits with the same total
//! are adjacent, so one comparison shows whether a claim has named another total. No lock's name has a tab,
//! so no other key lies among them.
//!
//! The fence of a lease is beside all locks, at `<namespace><tab><lease>`. It is created when it is first
//! needed: see `fence.rs`.
//!
//! etcd's own lock (`etcdctl lock`, Go's `concurrency.Mutex`) writes `<lock name>/<lease>`. It waits for
//! every key below `<lock name>/` that was created before its own; so does this engine. A contender's key has
//! exactly one more segment, which begins with the digits of a lease. All other keys below belong to locks
//! with longer names.

use crate::LockName;
use crate::engine::{Claim, ClaimId, Mode};

use super::wire::KeyValue;

/// The number of digits at the end of a key.
const DIGITS: usize = 32;
/// The prefix of the number of permits.
const PERMIT: &str = "0\t";
/// The mode of a claim whose value is proclaimed.
const ELECTION: char = 'e';

/// The range of the contenders' keys of a lock, without its end. Leases are hexadecimal, so few other keys
/// lie in the range.
pub(super) fn contenders(namespace: &str, name: &LockName) -> (Vec<u8>, Vec<u8>) {
    let key = |end: &str| format!("{namespace}{}/{end}", name.as_str()).into_bytes();
    (key("0"), key("g"))
}

/// The ranges of the keys of permits with another total: those with a smaller one, and those with a greater
/// one.
pub(super) fn permits_of_other_totals(namespace: &str, name: &LockName, of: u32) -> [(Vec<u8>, Vec<u8>); 2] {
    let key = |end: &str| format!("{namespace}{}/{end}", name.as_str()).into_bytes();
    let same = permit_prefix(of);
    // The full stop is the character after the dash: it follows all keys that continue with a dash.
    [(key(PERMIT), key(&same)), (key(&same.replace('-', ".")), key("0\n"))]
}

/// The common prefix of all permits with this total.
fn permit_prefix(of: u32) -> String {
    format!("{PERMIT}{of:010}-")
}

/// A new key for a claim under a lease.
pub(super) fn key(namespace: &str, claim: &Claim, lease: i64) -> Vec<u8> {
    let stem = match claim.mode {
        Mode::Exclusive if claim.tells.is_some() => format!("{lease:x}-{ELECTION}"),
        Mode::Exclusive => format!("{lease:x}-x"),
        Mode::Write => format!("{lease:x}-w"),
        Mode::Read => format!("{lease:x}-r"),
        Mode::Permit { of } => format!("{}{lease:x}-", permit_prefix(of)),
    };
    format!("{namespace}{}/{stem}{}", claim.name.as_str(), claim.id).into_bytes()
}

/// The key of a lease's fence. No lock's name begins with a tab, and no key lies below it, so no lock waits
/// for it.
pub(super) fn fence(namespace: &str, lease: i64) -> Vec<u8> {
    format!("{namespace}\t{lease:x}").into_bytes()
}

/// Parses the last segment of a contender's key. Returns the mode and the first claim with this key;
/// `Some(None)` for the key of another program.
pub(super) fn parse_segment(segment: &str) -> Option<Option<(Mode, ClaimId)>> {
    if let Some(permit) = segment.strip_prefix(PERMIT) {
        let mut parts = permit.splitn(3, '-');
        let [total, lease, id] = std::array::from_fn(|_| parts.next().unwrap_or_default());
        let of = total.parse().ok().filter(|of| permit_prefix(*of) == format!("{PERMIT}{total}-"))?;
        return Some(Some((Mode::Permit { of }, parse_id(id)?))).filter(|_| is_lease(lease));
    }
    let (lease, tail) = segment.split_once('-').map_or((segment, None), |(lease, tail)| (lease, Some(tail)));
    if !is_lease(lease) || segment.contains('/') {
        return None;
    }
    let mode = |tail: &str| match tail.chars().next()? {
        'x' | ELECTION => Some(Mode::Exclusive),
        'w' => Some(Mode::Write),
        'r' => Some(Mode::Read),
        _ => None,
    };
    Some(tail.and_then(|tail| Some((mode(tail)?, parse_id(tail.get(1..)?)?))))
}

fn is_lease(text: &str) -> bool {
    let is_hex = text.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
    is_hex && (1..=16).contains(&text.len())
}

/// The part of a claim's key that all claims of the same lock, lease and mode share.
pub(super) fn stem(key: &[u8]) -> &[u8] {
    &key[..key.len().saturating_sub(DIGITS)]
}

/// Whether the digits of a claim's key are its own id, and not that of an earlier claim.
pub(super) fn has_claim_id(key: &[u8]) -> bool {
    stem(key).last() == Some(&(ELECTION as u8))
}

/// The value of a claim's key.
pub(super) fn value(claim: &Claim) -> Vec<u8> {
    match &claim.tells {
        Some(proclaimed) => proclaimed.to_vec(),
        None => format!("{}\n{}", claim.id, claim.note.as_str()).into_bytes(),
    }
}

/// Splits the value of a claim's key into the claim's id and its note.
pub(super) fn parse_value(value: &[u8]) -> Option<(ClaimId, &[u8])> {
    let id = parse_id(std::str::from_utf8(value.get(..DIGITS)?).ok()?)?;
    Some((id, value[DIGITS..].strip_prefix(b"\n")?))
}

/// The name of the lock that a contender's key belongs to.
pub(super) fn lock_of(namespace: &str, key: &[u8]) -> Option<LockName> {
    let path = std::str::from_utf8(key.strip_prefix(namespace.as_bytes())?).ok()?;
    LockName::new(path.rsplit_once('/')?.0).ok()
}

/// Whether an operator revoked the claim with this key: the key was written again, which the claim's client
/// never does.
pub(super) fn is_revoked(kv: &KeyValue) -> bool {
    kv.mod_revision != kv.create_revision
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn only_permits_of_other_totals_are_in_their_ranges() {
        let name = LockName::new("a").unwrap();
        let key_of = |mode| {
            let claim = Claim { mode, ..Claim::new(name.clone(), Duration::from_secs(1)) };
            key("app/", &claim, i64::MAX)
        };
        let others = permits_of_other_totals("app/", &name, 10);
        let is_other = |key: &Vec<u8>| others.iter().any(|(from, end)| from <= key && key < end);
        for of in [1, 2, 9, 11, 100, u32::MAX] {
            assert!(is_other(&key_of(Mode::Permit { of })), "{of}");
        }
        for mode in [Mode::Permit { of: 10 }, Mode::Exclusive, Mode::Write, Mode::Read] {
            assert!(!is_other(&key_of(mode)), "{mode:?}");
        }
        assert!(!is_other(&b"app/a/694d8".to_vec()), "etcdctl's");
    }

    #[test]
    fn a_fence_belongs_to_no_lock() {
        for namespace in ["", "app", "app/"] {
            assert_eq!(lock_of(namespace, &fence(namespace, 0x7f)), None);
        }
    }
}
