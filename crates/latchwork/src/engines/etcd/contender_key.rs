//! One contender for a lock, as its key describes it.

use super::keys;
use super::wire::KeyValue;
use crate::LockName;
use crate::engine::{ClaimId, ClaimState, Foreign, Mode, Note};

/// The key of a claim that holds a lock or waits for it: this client's, another client's, or another
/// program's.
#[derive(Clone, Debug)]
pub(super) struct ContenderKey {
    pub(super) key: Vec<u8>,
    pub(super) id: ClaimId,
    /// Exclusive, if the key is another program's.
    pub(super) mode: Mode,
    /// Whether the key was written by another program.
    pub(super) is_foreign: bool,
    pub(super) is_revoked: bool,
    /// The revision in which the key was created.
    pub(super) revision: i64,
    pub(super) lease: i64,
    /// The description of the holder.
    pub(super) note: String,
    /// The value that a candidate of an election proclaims. A key of another program may be a candidate's, so
    /// its whole value counts.
    pub(super) proclaimed: Option<Vec<u8>>,
}

impl ContenderKey {
    /// The contender for `name` at this key. `None` if the key is not a contender's.
    pub(super) fn parse(namespace: &str, name: &LockName, kv: KeyValue) -> Option<Self> {
        let rest = kv.key.strip_prefix(namespace.as_bytes())?.strip_prefix(name.as_str().as_bytes())?;
        let segment = std::str::from_utf8(rest.strip_prefix(b"/")?).ok()?;
        // A key without a lease never expires, so it cannot be a lock.
        let ours = keys::parse_segment(segment).filter(|_| kv.lease != 0)?;
        let is_candidate = keys::has_claim_id(&kv.key);
        let written = keys::parse_value(&kv.value).filter(|_| !is_candidate);
        let note = written.map_or(&kv.value[..], |(_, note)| note);
        Some(Self {
            id: ours.map_or_else(|| foreign_id(&kv), |(_, first)| written.map_or(first, |(id, _)| id)),
            mode: ours.map_or(Mode::Exclusive, |(mode, _)| mode),
            is_foreign: ours.is_none(),
            is_revoked: ours.is_some() && keys::is_revoked(&kv),
            revision: kv.create_revision,
            lease: kv.lease,
            note: match ours {
                Some(_) => String::from_utf8_lossy(note).into_owned(),
                None => "a client that is not latchwork".to_owned(),
            },
            proclaimed: (is_candidate || ours.is_none()).then_some(kv.value),
            key: kv.key,
        })
    }

    /// Whether a later claim of this mode has to wait for this contender.
    pub(super) fn blocks(&self, mode: Mode) -> bool {
        (self.mode, mode) != (Mode::Read, Mode::Read)
    }

    /// The state of the claim, as far as its key describes it.
    pub(super) fn state(&self) -> ClaimState {
        let mut state = ClaimState::new(self.id);
        state.permits = self.mode.permits();
        state.token = u64::try_from(self.revision).ok();
        state.note = Note::new(&self.note);
        let value = self.proclaimed.as_deref().unwrap_or_default();
        state.foreign = self.is_foreign.then(|| Box::new(Foreign::new("key", value)));
        state
    }
}

/// An id for a key of another program, which has none. A lease has at most one key of a lock at a time.
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
    use crate::engine::Claim;

    fn contender(name: &str, key: &str, lease: i64) -> Option<ContenderKey> {
        let kv = KeyValue {
            key: key.into(),
            create_revision: 7,
            value: b"web1".into(),
            lease,
            ..KeyValue::default()
        };
        ContenderKey::parse("app/", &LockName::new(name).unwrap(), kv)
    }

    #[test]
    fn a_claim_is_found_at_its_key() {
        for mode in
            [Mode::Exclusive, Mode::Write, Mode::Read, Mode::Permit { of: 1 }, Mode::Permit { of: u32::MAX }]
        {
            let mut claim = Claim::new(LockName::new("a/b").unwrap(), Duration::from_secs(1));
            claim.mode = mode;
            let key = String::from_utf8(keys::key("app/", &claim, 0x7f)).unwrap();
            let found = contender("a/b", &key, 0x7f).expect("its own");
            assert_eq!((found.id, found.mode, found.is_foreign), (claim.id, mode, false));
            assert_eq!(keys::lock_of("app/", key.as_bytes()).unwrap(), claim.name);
            let (from, end) = keys::contenders("app/", &claim.name);
            assert!(from.as_slice() <= key.as_bytes() && key.as_bytes() < end.as_slice());
        }
    }

    #[test]
    fn what_etcdctl_writes_counts_and_what_is_below_longer_names_does_not() {
        assert!(contender("a", "app/a/694d8", 1).expect("etcdctl's").is_foreign);
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
}
