//! The name of a lock on its server, which takes only short names or numbers.

use std::fmt;

use ring::digest::{Context, SHA256};

use crate::LockName;

/// A lock's name on its server: SHA-256 of the namespace, a zero byte and the name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::engines) struct Key([u8; 32]);

impl Key {
    /// `namespace` separates locks that the server does not separate: those of other databases, or of other
    /// tables.
    pub(in crate::engines) fn of(namespace: &str, name: &LockName) -> Self {
        let mut digest = Context::new(&SHA256);
        [namespace, "\0", name.as_str()].iter().for_each(|part| digest.update(part.as_bytes()));
        let mut key = Self([0; 32]);
        key.0.copy_from_slice(digest.finish().as_ref());
        key
    }

    /// For a server that identifies locks by a number: two names with one number have one key.
    #[cfg(feature = "postgres")]
    pub(in crate::engines) fn short(mut self) -> Self {
        self.0[8..].fill(0);
        self
    }

    /// For a server that identifies locks by a text: 64 hexadecimal digits. All letters are lower case, so no
    /// collation merges two keys.
    pub(in crate::engines) fn digits(&self) -> [u8; 64] {
        let mut digits = [0; 64];
        // Arithmetic instead of a look-up table, so that the compiler vectorizes it: this runs for every
        // request.
        let digit = |nibble: u8| nibble + b'0' + u8::from(nibble > 9) * (b'a' - b'9' - 1);
        for (pair, byte) in digits.chunks_exact_mut(2).zip(self.0) {
            (pair[0], pair[1]) = (digit(byte >> 4), digit(byte & 15));
        }
        digits
    }

    /// The first 64 bits.
    #[cfg(feature = "postgres")]
    pub(in crate::engines) fn number(&self) -> i64 {
        let [a, b, c, d, e, f, g, h, ..] = self.0;
        i64::from_be_bytes([a, b, c, d, e, f, g, h])
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.digits().iter().try_for_each(|digit| write!(f, "{}", char::from(*digit)))
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({self})")
    }
}

#[cfg(all(test, feature = "postgres"))]
mod tests {
    use super::*;

    fn key(namespace: &str, name: &str) -> Key {
        Key::of(namespace, &LockName::new(name).unwrap())
    }

    /// Other clients, and older versions of Latchwork, must find the same lock.
    #[test]
    fn keys_never_change() {
        let key = key("latchwork", "orders/42");
        assert_eq!(key.to_string(), "684fbcda52a6ed45173dfdd080579eb892e9e75fdb27a78a7b112f9d12b61399");
        assert_eq!(format!("{:016x}", key.number()), key.to_string()[..16]);
        assert_eq!(key.short().number(), key.number());
    }

    #[test]
    fn namespaces_and_names_are_kept_apart() {
        let keys = [key("a", "bc"), key("ab", "c"), key("a", "BC"), key("a", "bc ")];
        for (at, one) in keys.iter().enumerate() {
            assert!(keys[at + 1..].iter().all(|other| other != one && other.number() != one.number()));
        }
    }
}
