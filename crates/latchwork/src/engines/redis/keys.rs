//! Where a lock lives: the key that other clients share, and the keys beside it that only we use.

use redis::Cmd;

use crate::{Error, ErrorKind, LockName, Result};

/// In every key of ours beside the shared one. The number is the layout's version.
const MARK: &str = ":latchwork1:";

/// The keys of one lock.
pub(super) struct Keys {
    /// The plain string that other clients set as well.
    pub(super) holder: String,
    side: String,
}

impl Keys {
    /// # Errors
    /// [`ErrorKind::Invalid`] for a name that would be one of the keys beside another lock.
    pub(super) fn of(prefix: &str, name: &LockName) -> Result<Self> {
        let holder = [prefix, name.as_str()].concat();
        if holder.contains(MARK) {
            let message = format!("{MARK:?} is reserved for the queue's own keys; choose another name");
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        let side = match has_hash_tag(&holder) {
            // The tag decides the slot of both. Another ending, or "{a}" and "a" would share a queue.
            true => [&holder, MARK, "t"].concat(),
            false => ["{", &holder, "}", MARK].concat(),
        };
        Ok(Self { holder, side })
    }

    /// Writes all four, in the order in which the scripts take them: holder, queue, waiters by the end of their wait
    /// lease, fence.
    pub(super) fn write(&self, command: &mut Cmd) {
        command.arg(&self.holder);
        let mut key = self.queue();
        command.arg(&key);
        for last in ["w", "f"] {
            key.pop();
            key.push_str(last);
            command.arg(&key);
        }
    }

    /// Waiting claims by arrival.
    pub(super) fn queue(&self) -> String {
        [&self.side, "q"].concat()
    }

    /// The newest token, and whom it was granted to.
    pub(super) fn fence(&self) -> String {
        [&self.side, "f"].concat()
    }

    /// Finds every fence, and little else.
    pub(super) fn fence_pattern() -> String {
        ["*", MARK, "*f"].concat()
    }

    /// The lock that a fence belongs to.
    pub(super) fn name_of(prefix: &str, fence: &[u8]) -> Option<LockName> {
        let side = std::str::from_utf8(fence).ok()?.strip_suffix('f')?;
        let holder = match side.strip_suffix('t') {
            Some(tagged) => tagged.strip_suffix(MARK)?,
            None => side.strip_suffix(MARK)?.strip_prefix('{')?.strip_suffix('}')?,
        };
        LockName::new(holder.strip_prefix(prefix)?).ok()
    }
}

/// Whether a cluster would hash only what stands in the first braces.
fn has_hash_tag(key: &str) -> bool {
    key.split_once('{').and_then(|(_, rest)| rest.find('}')).is_some_and(|length| length > 0)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const NAMES: [&str; 12] =
        ["a", "{a}", "{{a}}", "a}", "{a", "{}a", "{}{a}", "x{a}y", "a:f", "{a}:f", "t", "{a}t"];

    fn keys(name: &str) -> Keys {
        Keys::of("app:", &LockName::new(name).unwrap()).unwrap()
    }

    #[test]
    fn no_two_locks_share_a_key() {
        let all: Vec<_> = NAMES
            .iter()
            .flat_map(|name| {
                let keys = keys(name);
                [keys.queue(), keys.fence(), keys.holder]
            })
            .collect();
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len(), "{all:?}");
    }

    #[test]
    fn a_fence_names_its_lock() {
        for name in NAMES {
            let found = Keys::name_of("app:", keys(name).fence().as_bytes());
            assert_eq!(found.as_ref().map(LockName::as_str), Some(name));
            assert_eq!(Keys::name_of("other:", keys(name).fence().as_bytes()), None);
        }
    }

    #[test]
    fn keys_of_one_lock_share_a_slot() {
        let tag = |key: &str| {
            let (_, rest) = key.split_once('{')?;
            rest.split_once('}').map(|(tag, _)| tag.to_owned()).filter(|tag| !tag.is_empty())
        };
        for name in ["a", "{a}", "x{a}y", "{a}{b}"] {
            let keys = keys(name);
            let slot = tag(&keys.holder).unwrap_or_else(|| keys.holder.clone());
            assert_eq!(tag(&keys.fence()), Some(slot.clone()), "{name}");
            assert_eq!(tag(&keys.queue()), Some(slot), "{name}");
        }
    }

    #[test]
    fn a_name_cannot_be_another_locks_queue() {
        let queue = keys("a").queue();
        let error = Keys::of("", &LockName::new(queue).unwrap()).err().expect("reserved");
        assert_eq!(error.kind(), ErrorKind::Invalid);
    }
}
