//! The keys of claims.
//!
//! A claim's key is `<namespace><lock name>/<lease>-<mode><32 digits>`. Its value is `<claim id>`, and the
//! claim's description in the next line. The digits are the id of the first claim with this key: keys are
//! used again.
//!
//! The key of an election's holder has the mode `e`, and its value is the leader's value, as with `etcdctl
//! elect`. So the claim's id must be in the key, and such a key is not used again.
//!
//! A permit's key is `<namespace><lock name>/0<tab><how many there are>-<lease>-<32 digits>`. Permits with
//! the same total are adjacent, so one comparison shows whether a claim has named another total. No lock's
//! name has a tab, so no other key lies among them.
//!
//! The fence of a lease is beside all locks, at `<namespace><tab><lease>`. It exists once it was needed: see
//! `fence.rs`.
//!
//! etcd's own lock (`etcdctl lock`, Go's `concurrency.Mutex`) writes `<lock name>/<lease>` and waits for
//! every key below `<lock name>/` that was created before its own; so do we. A contender's key has exactly
//! one more segment, which begins with the digits of a lease. All other keys below belong to locks with
//! longer names.

use crate::LockName;
use crate::engine::{Claim, ClaimId, Mode};

use super::wire::KeyValue;

/// Whether an operator took the claim at this key of ours away: it was written again, which its client never does.
pub(super) fn is_revoked(kv: &KeyValue) -> bool {
    kv.mod_revision != kv.create_revision
}

/// One who holds or waits.
#[derive(Clone, Debug)]
pub(super) struct Contender {
    pub(super) key: Vec<u8>,
    pub(super) id: ClaimId,
    /// Who may hold beside it; nobody, if it is another client's.
    pub(super) mode: Mode,
    /// Whether it is a claim of ours, and not another client's.
    pub(super) is_ours: bool,
    pub(super) is_revoked: bool,
    pub(super) revision: i64,
    pub(super) lease: i64,
    /// What it says of itself.
    pub(super) note: String,
    /// What it tells everybody, if it leads or wants to; or may, if it is another client's.
    pub(super) tells: Option<Vec<u8>>,
}

/// From which key to which the contenders of a lock stand, the last one excluded. Leases are written in digits and
/// letters up to f, so that few others stand among them.
pub(super) fn contenders(namespace: &str, name: &LockName) -> (Vec<u8>, Vec<u8>) {
    let key = |end: &str| format!("{namespace}{}/{end}", name.as_str()).into_bytes();
    (key("0"), key("g"))
}

/// From which key to which those stand who want one of another number of permits: those who name less, and those who name
/// more.
pub(super) fn other_permits(namespace: &str, name: &LockName, of: u32) -> [(Vec<u8>, Vec<u8>); 2] {
    let key = |end: &str| format!("{namespace}{}/{end}", name.as_str()).into_bytes();
    let same = permits(of);
    // After all that go on with a dash come those that go on with a full stop.
    [(key(PERMIT), key(&same)), (key(&same.replace('-', ".")), key("0\n"))]
}

/// Before the number of permits.
const PERMIT: &str = "0\t";

/// What the keys of all who want one of so many permits begin with.
fn permits(of: u32) -> String {
    format!("{PERMIT}{of:010}-")
}

/// A new key for a claim under a lease.
pub(super) fn key(namespace: &str, claim: &Claim, lease: i64) -> Vec<u8> {
    let stem = match claim.mode {
        Mode::Exclusive if claim.tells.is_some() => format!("{lease:x}-{TELLS}"),
        Mode::Exclusive => format!("{lease:x}-x"),
        Mode::Write => format!("{lease:x}-w"),
        Mode::Read => format!("{lease:x}-r"),
        Mode::Permit { of } => format!("{}{lease:x}-", permits(of)),
    };
    format!("{namespace}{}/{stem}{}", claim.name.as_str(), claim.id).into_bytes()
}

/// The key of a lease's fence. No lock's name begins with a tab, and no key lies below it, so no lock waits
/// for it.
pub(super) fn fence(namespace: &str, lease: i64) -> Vec<u8> {
    format!("{namespace}\t{lease:x}").into_bytes()
}

/// What the last part of a key says, if it is a contender's: the mode and the first claim that stood there, if it is one of
/// ours.
fn parse(segment: &str) -> Option<Option<(Mode, ClaimId)>> {
    if let Some(permit) = segment.strip_prefix(PERMIT) {
        let mut parts = permit.splitn(3, '-');
        let [number, lease, id] = std::array::from_fn(|_| parts.next().unwrap_or_default());
        let of = number.parse().ok().filter(|of| permits(*of) == format!("{PERMIT}{number}-"))?;
        return Some(Some((Mode::Permit { of }, parse_id(id)?))).filter(|_| is_lease(lease));
    }
    let (lease, tail) = segment.split_once('-').map_or((segment, None), |(lease, tail)| (lease, Some(tail)));
    if !is_lease(lease) || segment.contains('/') {
        return None;
    }
    let mode = |tail: &str| match tail.chars().next()? {
        'x' | TELLS => Some(Mode::Exclusive),
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

/// How many digits end a key.
const DIGITS: usize = 32;

/// What a claim's key has in common with those of other claims of the same mode, for the same lock, under the same lease.
pub(super) fn stem(key: &[u8]) -> &[u8] {
    &key[..key.len().saturating_sub(DIGITS)]
}

/// Before the digits of a claim that tells something.
const TELLS: char = 'e';

/// Whether the digits of a claim's key are its own id, and not that of an earlier one.
pub(super) fn names_its_claim(key: &[u8]) -> bool {
    stem(key).last() == Some(&(TELLS as u8))
}

/// What stands at the key of a claim.
pub(super) fn value(claim: &Claim) -> Vec<u8> {
    match &claim.tells {
        Some(tells) => tells.to_vec(),
        None => format!("{}\n{}", claim.id, claim.note.as_str()).into_bytes(),
    }
}

/// The claim that wrote this value.
fn writer(value: &[u8]) -> Option<ClaimId> {
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
        // Without a lease it would never go away by itself: whatever it is, it is no lock.
        let ours = parse(segment).filter(|_| kv.lease != 0)?;
        let tells = names_its_claim(&kv.key);
        let writer = writer(&kv.value).filter(|_| !tells);
        let note = &kv.value[writer.map_or(0, |_| DIGITS + 1)..];
        Some(Self {
            id: ours.map_or_else(|| foreign_id(&kv), |(_, first)| writer.unwrap_or(first)),
            mode: ours.map_or(Mode::Exclusive, |(mode, _)| mode),
            is_ours: ours.is_some(),
            is_revoked: ours.is_some() && is_revoked(&kv),
            revision: kv.create_revision,
            lease: kv.lease,
            note: match ours {
                Some(_) => String::from_utf8_lossy(note).into_owned(),
                None => "a client that is not latchwork".to_owned(),
            },
            tells: (tells || ours.is_none()).then_some(kv.value),
            key: kv.key,
        })
    }

    /// Whether a claim of this mode that came after it has to wait for it.
    pub(super) fn blocks(&self, mode: Mode) -> bool {
        (self.mode, mode) != (Mode::Read, Mode::Read)
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
        for mode in
            [Mode::Exclusive, Mode::Write, Mode::Read, Mode::Permit { of: 1 }, Mode::Permit { of: u32::MAX }]
        {
            let mut claim = Claim::new(LockName::new("a/b").unwrap(), Duration::from_secs(1));
            claim.mode = mode;
            let key = String::from_utf8(key("app/", &claim, 0x7f)).unwrap();
            let found = contender("a/b", &key, 0x7f).expect("its own");
            assert_eq!((found.id, found.mode, found.is_ours), (claim.id, mode, true));
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
            ("app/a/0\t0000000002-7f-1", 1),
            ("app/a/0\t2-7f-00112233445566778899aabbccddeeff", 1),
            ("app/a/0\t0000000002--00112233445566778899aabbccddeeff", 1),
        ] {
            assert!(contender("a", key, lease).is_none(), "{key}");
        }
    }

    #[test]
    fn those_who_name_another_number_of_permits_and_only_they_stand_apart() {
        let name = LockName::new("a").unwrap();
        let key_of = |mode| {
            let claim = Claim { mode, ..Claim::new(name.clone(), Duration::from_secs(1)) };
            key("app/", &claim, i64::MAX)
        };
        let others = other_permits("app/", &name, 10);
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
