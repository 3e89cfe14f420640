//! Every wait is reported, unless it is quiet.

use std::fs::File;

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::support::{Ended, Running, TestDir, assert_clean_error, end, eventually};

/// A `latch run` that waits for `x`, with its stderr in a file.
fn waiter(dir: &TestDir, options: &[&str]) -> Running {
    let mut latch = dir.script("x", options, "true");
    Running::from(latch.stderr(File::create(dir.path("err")).unwrap()).spawn().unwrap())
}

fn served(dir: &TestDir, holder: Running, waiter: Running) -> String {
    holder.signal(Signal::SIGTERM);
    let ended: Ended = waiter.finish();
    assert_eq!(ended.code, Some(0), "{ended:?} {}", dir.read("err"));
    dir.read("err")
}

#[test]
fn off_a_terminal_a_wait_is_reported_from_start_to_grant() {
    let dir = TestDir::new();
    let holder = dir.hold("x", &[], "sleep 60");
    let id = holder.id();
    let waiter = waiter(&dir, &[]);
    eventually("it reports the wait", || dir.read("err").contains('\n'));
    let said = served(&dir, holder, waiter);
    let lines: Vec<_> = said.lines().collect();
    assert!(
        lines[0].starts_with("latch: waiting for \"x\": number 1 of 1 in the queue; held for "),
        "{said}"
    );
    assert!(lines[0].ends_with(&format!(" sh (pid {id})")), "{said}");
    assert!(lines.last().unwrap().starts_with("latch: got \"x\" after "), "{said}");
    assert!(!said.contains('\r') && !said.contains('\u{1b}'), "{said:?}");
}

#[test]
fn with_json_each_report_of_a_wait_is_an_object() {
    let dir = TestDir::new();
    let holder = dir.hold("x", &[], "sleep 60");
    let id = holder.id();
    let waiter = waiter(&dir, &["--json"]);
    eventually("it reports the wait", || dir.read("err").contains('\n'));
    let said = served(&dir, holder, waiter);
    let events: Vec<Value> = said.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let (first, last) = (&events[0], events.last().unwrap());
    assert_eq!((first["event"].as_str(), first["lock"].as_str()), (Some("waiting"), Some("x")), "{said}");
    assert_eq!((first["place"].as_u64(), first["waiters"].as_u64()), (Some(1), Some(1)), "{said}");
    assert!(first["holder"].as_str().unwrap().ends_with(&format!(" sh (pid {id})")), "{said}");
    assert!(first["outage"].is_null() && first["quarantine"].is_null(), "{said}");
    assert_eq!((last["event"].as_str(), last["lock"].as_str()), (Some("granted"), Some("x")), "{said}");
    assert!(last["waited_ms"].as_u64().unwrap() >= first["waited_ms"].as_u64().unwrap(), "{said}");
}

#[test]
fn a_quiet_wait_prints_nothing_and_a_quiet_failure_prints_its_reason() {
    let dir = TestDir::new();
    let holder = dir.hold("x", &[], "sleep 60");
    for quiet in ["--quiet", "-q"] {
        let ended = end(&mut dir.script("x", &[quiet, "--wait", "1s"], "true"));
        // Nothing but the failure, and on a slow machine the time that the first connection took.
        assert_clean_error(&ended, 124, "still held");
        assert!(ended.err.lines().skip(1).all(|line| line.contains("first connection took")), "{ended:?}");
    }
    drop(holder);
}

#[test]
fn a_standby_of_an_election_reports_the_leader() {
    let dir = TestDir::new();
    let leader = dir.latch(["elect", "x", "--", "sh", "-c", "touch leads; sleep 60"]).spawn().unwrap();
    let leader = Running::from(leader);
    eventually("it leads", || dir.path("leads").exists());
    let mut standby = dir.latch(["elect", "x", "--", "true"]);
    let standby = Running::from(standby.stderr(File::create(dir.path("err")).unwrap()).spawn().unwrap());
    eventually("it reports the wait", || dir.read("err").contains('\n'));
    let id = leader.id();
    let said = served(&dir, leader, standby);
    assert!(said.contains(&format!(" sh (pid {id})")) && said.contains("latch: got \"x\" after "), "{said}");
}
