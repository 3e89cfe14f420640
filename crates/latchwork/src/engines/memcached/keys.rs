//! The key of a lock, and which of several servers has it.
//!
//! memcached's keys have at most 250 bytes, and no spaces or control characters. Names of locks may be
//! longer, and have spaces. A name is its own key wherever that is possible, so that other programs can share
//! the lock.

use std::fmt::Write as _;

use sha2::{Digest, Sha256};

use crate::LockName;

/// The maximum length of a key.
const MAX_KEY: usize = 250;
/// The maximum length of a prefix: the hash of a long name must fit behind it.
pub(super) const MAX_PREFIX: usize = 150;
/// The key of the value that tells one life of a server from another. It is no lock's key: those have 20, 25
/// or sha256 behind a `%`.
pub(super) const LIFE: &str = "%latchwork:life";

/// The key of a lock: prefix and name, with `%` as `%25` and a space as `%20`; if that is too long, the
/// prefix, `%sha256:` and the digits of the name's hash.
pub(super) fn key_of(prefix: &str, name: &LockName) -> String {
    let name = name.as_str();
    let mut key = String::with_capacity(prefix.len() + name.len() + 8);
    key.push_str(prefix);
    for c in name.chars() {
        match c {
            '%' => key.push_str("%25"),
            ' ' => key.push_str("%20"),
            c => key.push(c),
        }
    }
    if key.len() > MAX_KEY {
        key.truncate(prefix.len());
        key.push_str("%sha256:");
        for byte in Sha256::digest(name.as_bytes()) {
            // Writing to a string cannot fail.
            let _ = write!(key, "{byte:02x}");
        }
    }
    key
}

/// The index of the server that has this key: the one whose hash together with the key is the greatest
/// (rendezvous hashing), so that a server more or less moves only the keys that it gains or loses. The hash
/// is the first 8 bytes of SHA-256(`host:port`, LF, key), big-endian.
pub(super) fn server_of<'a>(servers: impl ExactSizeIterator<Item = &'a str>, key: &str) -> usize {
    if servers.len() == 1 {
        return 0;
    }
    let weigh = |(index, server): (usize, &str)| {
        let hash = Sha256::new().chain_update(server).chain_update("\n").chain_update(key).finalize();
        let weight = hash.first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes));
        (weight, index)
    };
    servers.enumerate().map(weigh).max().map_or(0, |(_, index)| index)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn key(name: &str) -> String {
        key_of("", &LockName::new(name).unwrap())
    }

    #[test]
    fn a_plain_name_is_its_own_key() {
        for name in ["orders/42", "a", "naïve", "🔒", "{a}:*?", &"x".repeat(250)] {
            assert_eq!(key(name), name);
        }
        assert_eq!(key_of("app:", &LockName::new("a").unwrap()), "app:a");
    }

    #[test]
    fn no_two_names_share_a_key_and_every_key_is_one() {
        let (long, longer) = ("x".repeat(251), "x".repeat(512));
        let hashed = key(&long);
        let names = [
            "a b",
            "a%20b",
            "a%2520b",
            "a%",
            "a%25",
            " ",
            "%",
            "%20",
            "  ",
            &long,
            &longer,
            &hashed,
            LIFE,
            "%sha256:",
            &" ".repeat(84),
            &"%".repeat(512),
            &"é".repeat(256),
            "a\u{a0}b",
            "a\u{3000}b",
        ];
        let keys: BTreeSet<_> = names.iter().map(|name| key(name)).collect();
        assert_eq!(keys.len(), names.len(), "{keys:?}");
        for key in &keys {
            assert!(key.len() <= MAX_KEY && key != LIFE, "{key}");
            assert!(!key.bytes().any(|byte| byte <= b' ' || byte == 0x7f), "{key:?}");
        }
        let longest = key_of(&"p".repeat(MAX_PREFIX), &LockName::new(&longer).unwrap());
        assert!(longest.len() <= MAX_KEY);
    }

    /// Documented, so that it can never change: clients of two versions must look for a lock in the same
    /// place.
    #[test]
    fn the_mapping_is_the_documented_one() {
        assert_eq!(key("100 % sure"), "100%20%25%20sure");
        assert_eq!(
            key(&"x".repeat(300)),
            "%sha256:0d4e2ca9e9cbced7a7a5380eb29e1a3783b9b6d0db72de36a1051038e1c1fbc7"
        );
        let places = ["a:11211", "b:11211", "c:11211"];
        let of = |key: &str| server_of(places.into_iter(), key);
        assert_eq!(["orders/1", "orders/2", "orders/3", "orders/4", "orders/5"].map(of), [2, 0, 0, 1, 1]);
    }

    #[test]
    fn a_server_more_moves_only_what_it_gets() {
        let places = ["a:1", "b:1", "c:1", "d:1", "e:1"];
        let keys: Vec<_> = (0..2_000).map(|number| format!("lock/{number}")).collect();
        let of = |count: usize, key: &str| server_of(places[..count].iter().copied(), key);
        let moved: Vec<_> = keys.iter().filter(|key| of(4, key) != of(5, key)).collect();
        assert!(moved.iter().all(|key| of(5, key) == 4), "moved between those that were there");
        assert!((300..500).contains(&moved.len()), "{} of 2000 moved", moved.len());
        for server in 0..5 {
            let share = keys.iter().filter(|key| of(5, key) == server).count();
            assert!((300..500).contains(&share), "server {server} has {share} of 2000");
        }
        // The order in the list makes no difference.
        let backwards = |key: &str| 4 - server_of(places.iter().rev().copied(), key);
        assert!(keys.iter().all(|key| backwards(key) == of(5, key)));
    }
}
