//! The path of a lock's node, and the name of the lock at a path.
//!
//! A plain name is its own path, so that Curator and kazoo lock the same node: `orders/42` is
//! `<chroot>/orders/42`. Characters that a path cannot have, or that would make it ambiguous, are written as
//! `%XX`. An empty segment is a lone `%`.

use percent_encoding::percent_decode_str;

use super::node_kind::NodeKind;
use crate::LockName;

/// The path below the chroot, one node per segment of the name.
pub(super) fn path_of(name: &LockName) -> String {
    let mut path = String::with_capacity(name.as_str().len() + 8);
    for (number, segment) in name.as_str().split('/').enumerate() {
        path.push('/');
        // The server's own nodes are below `/zookeeper`.
        let is_reserved = number == 0 && segment == "zookeeper";
        write_segment(&mut path, segment, is_reserved);
    }
    path
}

/// The path as one node below the chroot, for ephemeral nodes: they cannot have children, so the nodes of
/// nested names must not be nested.
pub(super) fn flat_path_of(name: &LockName) -> String {
    let mut path = String::from("/");
    for (number, segment) in name.as_str().split('/').enumerate() {
        if number > 0 {
            path.push_str("%2F");
        }
        write_segment(&mut path, segment, segment == name.as_str() && segment == "zookeeper");
    }
    path
}

/// The name that [`path_of`] maps to this path. `None`: no name does.
pub(super) fn name_of(path: &str) -> Option<LockName> {
    let decoded = path.strip_prefix('/')?.split('/').map(|segment| match segment {
        "%" => Some(String::new()),
        _ => Some(percent_decode_str(segment).decode_utf8().ok()?.into_owned()),
    });
    let name = LockName::new(decoded.collect::<Option<Vec<_>>>()?.join("/")).ok()?;
    (path_of(&name) == path).then_some(name)
}

/// The name that [`flat_path_of`] maps to this path.
pub(super) fn flat_name_of(path: &str) -> Option<LockName> {
    let text = path.strip_prefix('/')?.replace("%2F", "/");
    let segments = text.split('/').map(|segment| match segment {
        "%" => Some(String::new()),
        _ => Some(percent_decode_str(segment).decode_utf8().ok()?.into_owned()),
    });
    let name = LockName::new(segments.collect::<Option<Vec<_>>>()?.join("/")).ok()?;
    (flat_path_of(&name) == path).then_some(name)
}

fn write_segment(path: &mut String, segment: &str, is_reserved: bool) {
    if segment.is_empty() {
        return path.push('%');
    }
    let dots = segment == "." || segment == "..";
    // A lock whose name extends another's must not look like a claim to that one.
    let is_like_a_claim = NodeKind::parse(segment).is_some_and(|(kind, _)| kind != NodeKind::Unknown);
    let last = segment.char_indices().next_back().map_or(0, |(at, _)| at);
    for (at, c) in segment.char_indices() {
        let first_or_last = (is_reserved && at == 0) || (is_like_a_claim && at == last);
        match first_or_last || dots || is_forbidden(c) {
            true => {
                c.encode_utf8(&mut [0; 4]).bytes().for_each(|byte| path.push_str(&format!("%{byte:02X}")))
            }
            false => path.push(c),
        }
    }
}

/// The escape character, and characters that the server rejects. It checks UTF-16 units, so it rejects all
/// characters beyond 16 bits.
fn is_forbidden(c: char) -> bool {
    matches!(c, '%' | '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{e000}'..='\u{f8ff}' | '\u{fff0}'..)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [(&str, &str); 17] = [
        ("orders/42", "/orders/42"),
        ("a b+c,d", "/a b+c,d"),
        ("naïve", "/naïve"),
        ("a/1234567890", "/a/1234567890"),
        ("a/", "/a/%"),
        ("/a", "/%/a"),
        ("a//b", "/a/%/b"),
        ("%", "/%25"),
        ("jo%62", "/jo%2562"),
        ("..", "/%2E%2E"),
        ("a/./b", "/a/%2E/b"),
        ("...", "/..."),
        ("zookeeper", "/%7Aookeeper"),
        ("a/zookeeper", "/a/zookeeper"),
        ("🔒", "/%F0%9F%94%92"),
        ("a/b-lock-0000000000", "/a/b-lock-000000000%30"),
        ("_c_x-__READ__0000000007", "/_c_x-__READ__000000000%37"),
    ];

    #[test]
    fn a_plain_name_is_its_own_path_and_every_path_leads_back() {
        for (name, path) in NAMES {
            let name = LockName::new(name).unwrap();
            assert_eq!(path_of(&name), path);
            assert_eq!(name_of(path), Some(name.clone()));
            assert_eq!(flat_name_of(&flat_path_of(&name)), Some(name));
        }
        for unexpected in ["/a/", "//", "/%2", "/a%62", "/a/%41", "a", "/zookeeper"] {
            assert_eq!(name_of(unexpected), None, "{unexpected} is not the path of a name");
        }
    }

    #[test]
    fn names_that_nest_are_beside_each_other_when_flat() {
        let paths = ["a", "a/b", "a%2Fb", "/a", "a/", "a//b", "zookeeper", "a/zookeeper"]
            .map(|name| flat_path_of(&LockName::new(name).unwrap()));
        let different: std::collections::BTreeSet<_> = paths.iter().collect();
        assert_eq!(different.len(), paths.len(), "{paths:?}");
        assert!(paths.iter().all(|path| path.rfind('/') == Some(0)), "{paths:?}");
    }
}
