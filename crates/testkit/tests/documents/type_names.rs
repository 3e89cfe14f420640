//! One name, one thing: a type's name occurs once in a crate.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::{files, root};

/// The roles: types that each engine has under one name, with their meanings.
const ROLES: [(&str, &str); 12] = [
    ("Connection", "one connection to one server"),
    ("Endpoint", "where a server is"),
    ("Entry", "a claim in the queue of an engine that keeps its own"),
    ("Options", "what the URL says"),
    ("Queue", "who holds and who waits, in an engine that keeps its own queue"),
    ("Reply", "a server's reply, parsed"),
    ("RuntimePool", "the connections of one runtime"),
    ("Scheme", "which of an engine's algorithms the URL asks for"),
    ("Session", "what an engine keeps with its servers for as long as its client lives"),
    ("Shared", "the state that an engine's handles and tasks share behind an Arc"),
    ("Statements", "the SQL of a connection, prepared"),
    ("WireError", "what went wrong between client and server, before it becomes an `Error`"),
];

/// Where those of an engine may be.
const ENGINES: &str = "crates/latchwork/src/engines/";
/// The API for code without async has a twin of each public type.
const BLOCKING: &str = "crates/latchwork/src/blocking/";

#[test]
fn a_type_name_occurs_once_in_a_crate() {
    let mut repeated = Vec::new();
    for folder in fs::read_dir(root().join("crates")).expect("readable").map(|entry| entry.expect("readable"))
    {
        for (name, places) in types(&folder.path().join("src")) {
            let others: Vec<_> = places.iter().filter(|place| !is_a_role(&name, place)).collect();
            if others.len() > 1 || others.len() == 1 && places.len() > 1 && !has_a_twin(&places) {
                repeated.push(format!("{name}: {places:?}"));
            }
        }
    }
    assert!(repeated.is_empty(), "types with one name in one crate:\n{}", repeated.join("\n"));
}

#[test]
fn every_role_is_one_of_several_engines() {
    let types = types(&root().join("crates/latchwork/src"));
    for (role, what) in ROLES {
        let places =
            types.get(role).map_or(0, |places| places.iter().filter(|place| is_a_role(role, place)).count());
        assert!(places > 1, "{role} ({what}) is in {places} engines: no name for a role");
    }
}

fn is_a_role(name: &str, place: &str) -> bool {
    place.starts_with(BLOCKING) || place.starts_with(ENGINES) && ROLES.iter().any(|(role, _)| *role == name)
}

fn has_a_twin(places: &[String]) -> bool {
    places.iter().any(|place| place.starts_with(BLOCKING))
}

/// The types that are declared outside of functions and other modules, by name.
fn types(folder: &Path) -> BTreeMap<String, Vec<String>> {
    let mut sources: Vec<PathBuf> = Vec::new();
    if folder.is_dir() {
        files(folder, &[".rs"], &mut sources);
    }
    let mut types: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for source in sources {
        let text = fs::read_to_string(&source).expect("readable");
        let place = source.strip_prefix(root()).expect("below the root").display().to_string();
        for name in text.lines().filter_map(declared) {
            types.entry(name.to_owned()).or_default().push(place.clone());
        }
    }
    types
}

/// The name of the type that this line declares.
fn declared(line: &str) -> Option<&str> {
    let line = match line.strip_prefix("pub") {
        Some(rest) => rest.strip_prefix(' ').or_else(|| Some(rest.strip_prefix('(')?.split_once(") ")?.1))?,
        None => line,
    };
    let kinds = ["struct ", "enum ", "trait ", "type ", "union "];
    let rest = kinds.iter().find_map(|kind| line.strip_prefix(kind))?;
    rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().filter(|name| !name.is_empty())
}

#[test]
fn declarations_are_read() {
    assert_eq!(declared("pub(crate) struct Connection<S> {"), Some("Connection"));
    assert_eq!(declared("enum Reply {"), Some("Reply"));
    assert_eq!(declared("    struct Local;"), None);
    assert_eq!(declared("pub use reply::Reply;"), None);
}
