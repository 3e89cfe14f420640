//! Lock names: data, never a path, a command or SQL.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{BuildHasher, BuildHasherDefault, Hash, Hasher, RandomState};
use std::sync::{Arc, LazyLock};

use crate::{Error, ErrorKind, Result};

/// The name of a lock: 1 to 512 bytes of UTF-8 without control characters, compared bytewise.
///
/// Names that differ in case, accent or trailing space are different locks, and `a` and `a/b` are unrelated.
///
/// ```
/// use latchwork::LockName;
///
/// assert!(LockName::new("orders/42").is_ok());
/// assert!(LockName::new("").is_err());
/// assert!(LockName::new("two\nlines").is_err());
/// ```
#[derive(Clone)]
pub struct LockName {
    text: Arc<str>,
    /// Its keyed hash, computed once: every acquisition looks the name up several times.
    hash: u64,
}

impl LockName {
    /// The longest name, in bytes.
    pub const MAX_BYTES: usize = 512;

    /// Checks a name.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if it is empty, too long, or contains a control character.
    pub fn new(name: impl AsRef<str>) -> Result<Self> {
        let name = name.as_ref();
        check("lock name", name, Self::MAX_BYTES)?;
        // Keyed, because names may come from untrusted input.
        static KEYS: LazyLock<RandomState> = LazyLock::new(RandomState::new);
        Ok(Self { text: name.into(), hash: KEYS.hash_one(name) })
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Its keyed hash.
    pub(crate) fn hash_code(&self) -> u64 {
        self.hash
    }
}

impl PartialEq for LockName {
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash && self.text == other.text
    }
}

impl Eq for LockName {}

impl Hash for LockName {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

impl PartialOrd for LockName {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for LockName {
    fn cmp(&self, other: &Self) -> Ordering {
        self.text.cmp(&other.text)
    }
}

/// For maps whose keys are hashed or random already.
pub(crate) type BuildIdentityHasher = BuildHasherDefault<IdentityHasher>;

/// A hasher that returns the first eight bytes of the key, or the hash that the key writes.
#[derive(Default)]
pub(crate) struct IdentityHasher(u64);

impl Hasher for IdentityHasher {
    fn write(&mut self, bytes: &[u8]) {
        if let Some(word) = bytes.first_chunk() {
            self.0 = u64::from_ne_bytes(*word);
        }
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = word;
    }

    /// Ignores the length that an array writes: it is the same for all keys.
    fn write_usize(&mut self, _: usize) {}

    fn finish(&self) -> u64 {
        self.0
    }
}

/// Checks the name of a lock or an owner. `kind`: the noun of the error.
pub(crate) fn check(kind: &str, text: &str, max_bytes: usize) -> Result<()> {
    let invalid = |message: String| Err(Error::new(ErrorKind::Invalid, message));
    if text.is_empty() {
        return invalid(format!("the {kind} is empty; give it 1 to {max_bytes} bytes"));
    }
    if text.len() > max_bytes {
        let length = text.len();
        return invalid(format!("the {kind} is {length} bytes long; at most {max_bytes} are allowed"));
    }
    if let Some((at, c)) = text.char_indices().find(|(_, c)| c.is_control()) {
        let code = u32::from(c);
        return invalid(format!("the {kind} has the control character U+{code:04X} at byte {at}; remove it"));
    }
    Ok(())
}

impl fmt::Display for LockName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for LockName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.text, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_data() {
        for fine in
            ["a", "../../etc/passwd", "'; drop table lock; --", "{a}b", "naïve", "🔒", " ", &"x".repeat(512)]
        {
            assert_eq!(LockName::new(fine).unwrap().as_str(), fine);
        }
    }

    #[test]
    fn a_bad_name_is_refused_with_the_limit_in_the_message() {
        for (bad, says) in [
            ("".to_owned(), "empty"),
            ("x".repeat(513), "513 bytes long; at most 512"),
            ("é".repeat(257), "514 bytes long"),
            ("nul\0".to_owned(), "U+0000 at byte 3"),
            ("bell\u{7}".to_owned(), "U+0007"),
            ("c1\u{9b}31m".to_owned(), "U+009B"),
            ("line\nbreak".to_owned(), "U+000A"),
        ] {
            let error = LockName::new(&bad).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid);
            assert!(error.to_string().contains(says), "{error}");
        }
    }
}
