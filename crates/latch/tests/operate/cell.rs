//! `latch cell`.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use serde_json::{Value, json};

use crate::helpers::document;
use crate::support::{TestDir, assert_clean_error, end};

fn get(dir: &TestDir, name: &str) -> Value {
    document(&mut dir.latch(["cell", "get", name, "--json"]))
}

#[test]
fn get_prints_the_value_and_nothing_else() {
    let dir = TestDir::new();
    for value in ["blue", "", " two\nlines ", "naïve", "-1"] {
        let set = end(&mut dir.latch(["cell", "set", "config", "--", value]));
        assert_eq!(set.code, Some(0), "{set:?}");
        let version = set.out.trim_end();
        assert!(!version.is_empty() && version.bytes().all(|digit| digit.is_ascii_digit()), "{set:?}");
        let found = end(&mut dir.latch(["cell", "get", "config"]));
        assert_eq!((found.code, found.out.as_str(), found.err.as_str()), (Some(0), value, ""));
        assert_eq!(
            get(&dir, "config"),
            json!({"name": "config", "set": true, "version": version, "value": value, "value_hex": null})
        );
    }
}

#[test]
fn a_cell_that_is_not_set_has_an_exit_code_of_its_own() {
    let dir = TestDir::new();
    assert_clean_error(&end(&mut dir.latch(["cell", "get", "nothing"])), 1, "is not set");
    let found = end(&mut dir.latch(["cell", "get", "nothing", "--json"]));
    assert_eq!((found.code, found.err.as_str()), (Some(1), ""));
    let found: Value = serde_json::from_str(&found.out).unwrap();
    assert_eq!(
        found,
        json!({"name": "nothing", "set": false, "version": "0", "value": null, "value_hex": null})
    );
}

#[test]
fn a_conditional_set_succeeds_only_with_the_newest_version() {
    let dir = TestDir::new();
    let set = |value: &str, seen: &str| end(&mut dir.latch(["cell", "set", "n", value, "--if", seen]));
    assert_eq!(set("one", "0").code, Some(0));
    assert_clean_error(&set("again", "0"), 1, "is not at version 0");
    let first = get(&dir, "n")["version"].as_str().expect("text, for it may not fit a double").to_owned();
    let next = (first.parse::<u128>().unwrap() + 1).to_string();
    assert_clean_error(&set("neighbour", &next), 1, &next);
    assert_eq!(set("two", &first).code, Some(0));
    assert_clean_error(&set("three", &first), 1, &first);
    assert_eq!(get(&dir, "n")["value"], "two");
    assert_clean_error(&set("four", "1.5"), 64, "not a version");
    assert_clean_error(&end(&mut dir.latch(["cell", "get", "a\nb"])), 64, "control character");
}

#[test]
fn a_cell_is_deleted_once_and_a_delete_with_an_older_version_fails() {
    let dir = TestDir::new();
    let delete = |more: &[&str]| end(&mut dir.latch([&["cell", "delete", "n"][..], more].concat()));
    let set = |value: &str| end(&mut dir.latch(["cell", "set", "n", value])).out.trim_end().to_owned();
    assert_clean_error(&delete(&[]), 1, "is not set");
    let (first, second) = (set("one"), set("two"));
    assert_clean_error(&delete(&["--if", &first]), 1, &format!("is not at version {first}"));
    assert_eq!(get(&dir, "n")["value"], "two");
    let deleted = delete(&["--if", &second]);
    assert_eq!((deleted.code, deleted.out.as_str(), deleted.err.as_str()), (Some(0), "", ""));
    let third = set("three");
    assert!(third.parse::<u128>().unwrap() > second.parse::<u128>().unwrap(), "{third} after {second}");
    let none = json!({"name": "n", "set": false, "version": "0", "value": null, "value_hex": null});
    assert_eq!(document(&mut dir.latch(["cell", "delete", "n", "--json"])), none);
    let again = delete(&["--json"]);
    assert_eq!((again.code, again.err.as_str()), (Some(1), ""));
    assert_eq!(serde_json::from_str::<Value>(&again.out).unwrap(), none);
}

#[test]
fn a_watcher_of_an_unset_cell_reports_that_and_waits_for_the_value() {
    let dir = TestDir::new();
    let mut command = dir.latch(["cell", "watch", "later"]);
    let mut watching = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut remarks = BufReader::new(watching.stderr.take().unwrap()).lines();
    let mut lines = BufReader::new(watching.stdout.take().unwrap()).lines();
    let is_unset = "latch: the cell \"later\" is not set";
    assert_eq!(remarks.next().unwrap().unwrap(), is_unset);
    assert_eq!(end(&mut dir.latch(["cell", "set", "later", "now"])).code, Some(0));
    assert_eq!(lines.next().unwrap().unwrap(), "now");
    assert_eq!(end(&mut dir.latch(["cell", "delete", "later"])).code, Some(0));
    assert_eq!(remarks.next().unwrap().unwrap(), is_unset);
    watching.kill().unwrap();
    watching.wait().unwrap();
}

#[test]
fn a_watcher_sees_each_value_as_it_is_set() {
    let dir = TestDir::new();
    let mut watching = dir.latch(["cell", "watch", "news", "--json"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(watching.stdout.take().unwrap()).lines();
    let mut next = || serde_json::from_str::<Value>(&lines.next().unwrap().unwrap()).unwrap();
    assert_eq!(next()["set"], false);
    for value in ["one", "two\u{1b}[2J"] {
        assert_eq!(end(&mut dir.latch(["cell", "set", "news", value])).code, Some(0));
        assert_eq!(next()["value"], value);
    }
    watching.kill().unwrap();
    watching.wait().unwrap();
    // And for people, a line each that does nothing to the terminal.
    let mut watching = dir.latch(["cell", "watch", "news"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(watching.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "two\\u{1b}[2J");
    watching.kill().unwrap();
    watching.wait().unwrap();
}
