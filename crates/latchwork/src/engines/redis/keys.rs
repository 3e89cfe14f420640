//! The keys of a lock: the one that other clients share, and those beside it that only this library uses.

use super::wire::Command;
use crate::{Error, ErrorKind, LockName, Result};

/// Part of every key beside the shared one. The number is the version of the layout.
const MARK: &str = ":latchwork1:";

/// The keys of one lock. They are written straight into a command, because most are needed once.
#[derive(Clone, Copy)]
pub(super) struct Keys<'a> {
    prefix: &'a str,
    name: &'a str,
    /// Whether a cluster hashes only a part of the shared key.
    is_tagged: bool,
}

/// The keys beside the shared one. For claims that hold together, scripts derive two more from the queue's:
/// they end with h and l instead of q.
#[derive(Clone, Copy)]
enum Side {
    Queue,
    Waiters,
    Fence,
    Cell,
}

impl Side {
    /// The suffixes of a shared key without and with a hash tag. They differ, or "{a}" and "a" would share a
    /// queue.
    fn suffixes(self) -> (&'static str, &'static str) {
        match self {
            Self::Queue => ("}:latchwork1:q", ":latchwork1:tq"),
            Self::Waiters => ("}:latchwork1:w", ":latchwork1:tw"),
            Self::Cell => ("}:latchwork1:c", ":latchwork1:tc"),
            Self::Fence => ("}:latchwork1:f", ":latchwork1:tf"),
        }
    }
}

impl<'a> Keys<'a> {
    /// # Errors
    /// [`ErrorKind::Invalid`] for a name that would be one of the keys beside another lock.
    pub(super) fn of(prefix: &'a str, name: &'a LockName) -> Result<Self> {
        let mut keys = Self { prefix, name: name.as_str(), is_tagged: false };
        if prefix.is_empty() && !name.as_str().bytes().any(|byte| matches!(byte, b':' | b'{')) {
            return Ok(keys); // Neither the mark nor a hash tag can be in it. Most names are so plain.
        }
        let holder = keys.holder();
        if holder.contains(MARK) {
            let message = format!("{MARK:?} is reserved for the queue's own keys; choose another name");
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        keys.is_tagged = has_hash_tag(&holder);
        Ok(keys)
    }

    /// The key that other clients set as well, a plain string.
    pub(super) fn holder(&self) -> String {
        [self.prefix, self.name].concat()
    }

    /// Writes [`Self::holder`].
    pub(super) fn write_holder(&self, command: &mut Command) {
        command.parts(&[self.prefix.as_bytes(), self.name.as_bytes()]);
    }

    /// Writes all four, in the order in which the scripts take them: holder, queue, waiters by the end of
    /// their wait lease, fence.
    pub(super) fn write(&self, command: &mut Command) {
        self.write_holder(command);
        for key in [Side::Queue, Side::Waiters, Side::Fence] {
            command.parts(&self.side(key).map(str::as_bytes));
        }
    }

    /// Writes the key of the waiters by the end of their wait lease.
    pub(super) fn write_waiters(&self, command: &mut Command) {
        command.parts(&self.side(Side::Waiters).map(str::as_bytes));
    }

    /// Writes the key of the newest token and the member it was granted to.
    pub(super) fn write_fence(&self, command: &mut Command) {
        command.parts(&self.side(Side::Fence).map(str::as_bytes));
    }

    /// The key of the cell with this name, which is independent of the lock.
    pub(super) fn cell(&self) -> String {
        self.side(Side::Cell).concat()
    }

    /// The approximate length of all four.
    pub(super) fn bytes(&self) -> usize {
        4 * (self.prefix.len() + self.name.len() + 16)
    }

    /// A key beside the shared one, in parts.
    fn side(&self, key: Side) -> [&'a str; 4] {
        let (whole, tagged) = key.suffixes();
        match self.is_tagged {
            true => ["", self.prefix, self.name, tagged],
            false => ["{", self.prefix, self.name, whole],
        }
    }

    /// Matches every fence, and few other keys.
    pub(super) fn fence_pattern() -> String {
        ["*", MARK, "*f"].concat()
    }

    /// The lock to which a fence belongs.
    pub(super) fn name_of(prefix: &str, fence: &[u8]) -> Option<LockName> {
        let side = std::str::from_utf8(fence).ok()?.strip_suffix('f')?;
        let holder = match side.strip_suffix('t') {
            Some(tagged) => tagged.strip_suffix(MARK)?,
            None => side.strip_suffix(MARK)?.strip_prefix('{')?.strip_suffix('}')?,
        };
        LockName::new(holder.strip_prefix(prefix)?).ok()
    }
}

/// Whether a cluster hashes only the text in the first braces.
fn has_hash_tag(key: &str) -> bool {
    key.split_once('{').and_then(|(_, rest)| rest.find('}')).is_some_and(|length| length > 0)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const NAMES: [&str; 12] =
        ["a", "{a}", "{{a}}", "a}", "{a", "{}a", "{}{a}", "x{a}y", "a:f", "{a}:f", "t", "{a}t"];

    /// Holder, queue and fence.
    fn keys(name: &str) -> [String; 3] {
        let name = LockName::new(name).unwrap();
        let keys = Keys::of("app:", &name).unwrap();
        [keys.holder(), keys.side(Side::Queue).concat(), keys.side(Side::Fence).concat()]
    }

    #[test]
    fn no_two_locks_share_a_key() {
        let all: Vec<_> = NAMES.iter().flat_map(|name| keys(name)).collect();
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len(), "{all:?}");
    }

    #[test]
    fn a_fence_names_its_lock() {
        for name in NAMES {
            let [_, _, fence] = keys(name);
            let found = Keys::name_of("app:", fence.as_bytes());
            assert_eq!(found.as_ref().map(LockName::as_str), Some(name));
            assert_eq!(Keys::name_of("other:", fence.as_bytes()), None);
        }
    }

    #[test]
    fn keys_are_written_as_they_are_named() {
        for name in ["a", "{a}"] {
            let name = LockName::new(name).unwrap();
            let keys = Keys::of("", &name).unwrap();
            let (mut written, mut named) = (Command::of(&["GET"]), Command::of(&["GET"]));
            keys.write(&mut written);
            named.arg(&keys.holder()[..]).arg(&keys.side(Side::Queue).concat()[..]);
            named.arg(&keys.side(Side::Waiters).concat()[..]).arg(&keys.side(Side::Fence).concat()[..]);
            assert_eq!(written.packed(), named.packed());
        }
    }

    #[test]
    fn keys_of_one_lock_share_a_slot() {
        let tag = |key: &str| {
            let (_, rest) = key.split_once('{')?;
            rest.split_once('}').map(|(tag, _)| tag.to_owned()).filter(|tag| !tag.is_empty())
        };
        for name in ["a", "{a}", "x{a}y", "{a}{b}"] {
            let [holder, queue, fence] = keys(name);
            let slot = tag(&holder).unwrap_or(holder);
            assert_eq!(tag(&fence), Some(slot.clone()), "{name}");
            assert_eq!(tag(&queue), Some(slot), "{name}");
        }
    }

    #[test]
    fn a_name_cannot_be_another_locks_queue() {
        let [_, queue, _] = keys("a");
        for (prefix, name) in [("", queue.as_str()), ("a:latch", "work1:q"), ("a:latchwork1:", "q")] {
            let error = Keys::of(prefix, &LockName::new(name).unwrap()).err().expect("reserved");
            assert_eq!(error.kind(), ErrorKind::Invalid);
        }
    }
}
