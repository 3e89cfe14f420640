//! `--json`: documents and events.

use std::fs::File;

use serde_json::Value;

use crate::helpers::{Background, document, only_line};
use crate::support::{TestDir, end, eventually};

const PAGE: &str = include_str!("../../../../docs/operate.md");

#[track_caller]
fn error(dir: &TestDir, arguments: &[&str]) -> Value {
    let ended = end(&mut dir.latch(arguments.iter().copied()));
    assert_eq!(ended.out, "", "{ended:?}");
    let error = only_line(&ended.err);
    assert_eq!(error["event"], "error");
    assert_eq!(error["exit_code"].as_i64(), ended.code.map(i64::from), "{ended:?}");
    assert!(error["message"].as_str().is_some_and(|message| !message.is_empty()), "{error}");
    error
}

#[test]
fn every_error_is_one_object_with_kind_message_hint_and_exit_code() {
    let dir = TestDir::new();
    for (arguments, code, kind) in [
        (&["--json"][..], 64, "usage"),
        (&["--json", "walk"], 64, "usage"),
        (&["status", "", "--json"], 64, "invalid"),
        (&["status", "a", "b", "--json"], 64, "usage"),
        (&["ls", "--json", "--url", "nonsense"], 64, "invalid"),
        (&["ls", "--json", "--url", "sqlite:/no/such/folder/x.db"], 64, "invalid"),
        (&["release", "x", "--json"], 64, "usage"),
        (&["release", "x", "--force", "--json"], 1, "nothing_taken"),
        (&["completions", "csh", "--json"], 64, "usage"),
        (&["run", "--json", "x"], 64, "usage"),
        (&["run", "--json", "x", "--", "no-such-command"], 127, "not_found"),
        (&["run", "--json", "x", "--", "/"], 126, "not_executable"),
    ] {
        let error = error(&dir, arguments);
        assert_eq!((&error["exit_code"], &error["kind"]), (&code.into(), &kind.into()), "{error}");
    }
    assert_eq!(error(&dir, &["stauts", "--json"])["hint"], "a similar subcommand exists: 'status'");
    std::fs::write(dir.path("bad.db"), "this is no database ".repeat(100)).unwrap();
    let url = format!("sqlite:{}", dir.path("bad.db").display());
    let corrupt = error(&dir, &["status", "--json", "--url", &url]);
    assert_eq!((&corrupt["exit_code"], &corrupt["kind"]), (&69.into(), &"corrupt".into()));
    assert!(corrupt["hint"].as_str().unwrap().contains("with --url "), "{corrupt}");
}

#[test]
fn the_json_kind_distinguishes_busy_and_timed_out_with_every_exit_code() {
    let dir = TestDir::new();
    let _holder = dir.hold("x", &[], "sleep 60");
    for (options, code, kind) in [
        (&["--no-wait"][..], 75, "busy"),
        (&["--quiet", "--wait", "1s"], 124, "timed_out"),
        (&["--no-wait", "-E", "9"], 9, "busy"),
    ] {
        let error = error(&dir, &[&["run", "--json", "x"], options, &["--", "true"]].concat());
        assert_eq!((&error["exit_code"], &error["kind"]), (&code.into(), &kind.into()), "{error}");
    }
}

#[test]
fn the_output_of_a_command_stays_its_own() {
    let dir = TestDir::new();
    let ended = end(&mut dir.script("x", &["--json"], "echo out; echo err >&2; exit 3"));
    assert_eq!((ended.code, ended.out.as_str(), ended.err.as_str()), (Some(3), "out\n", "err\n"));
    let ended = end(&mut dir.latch(["run", "x", "--", "echo", "--json"]));
    assert_eq!((ended.out.as_str(), ended.err.as_str()), ("--json\n", ""));
    let ended = end(&mut dir.latch(["status", "--", "--json"]));
    assert_eq!(ended.out, "lock   --json\nstate  free\n");
}

#[test]
fn a_lost_lock_is_an_event_with_its_reason() {
    let dir = TestDir::new();
    let holder = dir.hold("x", &["--json", "--ttl", "2s"], "sleep 60");
    assert_eq!(end(&mut dir.latch(["release", "x", "--force"])).code, Some(0));
    let ended = holder.finish();
    assert_eq!(ended.code, Some(76), "{ended:?}");
    let event = only_line(&ended.err);
    assert_eq!((&event["event"], &event["lock"]), (&"lost".into(), &"x".into()));
    assert_eq!((&event["reason"], &event["command"]), (&"revoked".into(), &"ending".into()));
}

#[test]
fn a_lost_lock_whose_command_continues_is_an_event_that_says_so() {
    let dir = TestDir::new();
    // The lease is longer than a standstill of the machine before the lock is taken away.
    let options = ["--json", "--ttl", "3s", "--on-lost", "warn"];
    let mut latch = dir.script("x", &options, "touch up; while [ ! -e go ]; do sleep 0.02; done; exit 5");
    let mut latch = latch.stderr(File::create(dir.path("said")).unwrap()).spawn().unwrap();
    eventually("it holds", || dir.path("up").exists());
    assert_eq!(end(&mut dir.latch(["release", "x", "--force", "--now"])).code, Some(0));
    eventually("it says that the lock is lost", || dir.read("said").ends_with('\n'));
    let lost = only_line(&dir.read("said"));
    std::fs::write(dir.path("go"), "").unwrap();
    assert_eq!(latch.wait().unwrap().code(), Some(5));
    assert_eq!((&lost["event"], &lost["command"]), (&"lost".into(), &"running".into()), "{lost}");
}

#[test]
fn a_warning_and_an_error_are_two_lines() {
    let dir = TestDir::new();
    let ended = end(&mut dir.latch(["--url", "memory://u:secret@h/", "ls", "--json"]));
    let lines: Vec<Value> = ended.err.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(
        (lines.len(), &lines[0]["event"], &lines[1]["event"]),
        (2, &"warning".into(), &"error".into())
    );
    assert!(lines[0]["message"].as_str().unwrap().contains("--url-file"));
}

#[test]
fn every_key_is_documented() {
    let dir = TestDir::new();
    let _holder = dir.hold("x", &["--ttl", "1h"], "sleep 60");
    let _waiter = Background::waiting(&dir, "x");
    let mut found = Vec::new();
    for look in [&["status"][..], &["status", "x"], &["ls"], &["release", "x", "--force"]] {
        collect_keys(&document(&mut dir.latch([look, &["--json"]].concat())), &mut found);
    }
    collect_keys(&error(&dir, &["walk", "--json"]), &mut found);
    assert!(found.iter().any(|key| key == "lease_left_ms") && found.iter().any(|key| key == "exit_code"));
    for key in found {
        assert!(PAGE.contains(&format!("`{key}`")), "docs/operate.md does not tell of {key:?}");
    }
}

/// Collects all keys, except those of the guarantees, which GUARANTEES.md explains.
fn collect_keys(value: &Value, found: &mut Vec<String>) {
    if let Value::Array(values) = value {
        values.iter().for_each(|value| collect_keys(value, found));
    }
    for (key, value) in value.as_object().into_iter().flatten() {
        found.push(key.clone());
        if key != "guarantees" {
            collect_keys(value, found);
        }
    }
}
