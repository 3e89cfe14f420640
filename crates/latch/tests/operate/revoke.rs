//! `latch revoke`.

use crate::helpers::{Background, document, is_held, only_line};
use crate::support::{TestDir, assert_clean_error, end, eventually};

#[test]
fn a_reason_is_required_printed_and_sanitized() {
    let dir = TestDir::new();
    let holder = Background::holding(&dir, "x");
    for arguments in [&["revoke", "x"][..], &["revoke", "x", "--now"], &["revoke", "x", "--reason", ""]] {
        assert_clean_error(&end(&mut dir.latch(arguments.iter().copied())), 64, "--reason");
    }
    assert!(is_held(&dir, "x"), "nothing is taken away");
    let reason = "host is gone\u{1b}[2J\nx: taken from nobody";
    let ended = end(&mut dir.latch(["revoke", "x", "--reason", reason]));
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ended:?}");
    assert!(ended.out.starts_with("x: taken from "), "{ended:?}");
    assert!(ended.out.contains(&format!(" (pid {})", holder.id())), "{ended:?}");
    assert!(
        ended.out.contains("reason: host is gone\\u{1b}[2J\\nx: taken") && ended.out.lines().count() == 1
    );
    let taken = document(&mut dir.latch(["revoke", "x", "--reason", reason, "--json"]));
    assert_eq!((&taken["reason"], &taken["how"]), (&reason.into(), &"at_lease_end".into()));
}

#[test]
fn now_frees_at_once_and_the_holder_reports_the_revocation() {
    let dir = TestDir::new();
    let holder = dir.hold("x", &["--ttl", "3s"], "sleep 60");
    let ended = end(&mut dir.latch(["revoke", "x", "--now", "--reason", "too slow"]));
    assert!(ended.err.starts_with("latch: warning: ") && ended.err.contains("checks tokens"), "{ended:?}");
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.out.contains("the lock is free; reason: too slow"), "{ended:?}");
    assert_eq!(end(&mut dir.script("x", &["--no-wait"], "true")).code, Some(0), "another had it since");
    let holder = holder.finish();
    assert_eq!(holder.code, Some(76), "{holder:?}");
    assert!(holder.err.contains("\"x\" is lost: an operator took it away"), "{holder:?}");
}

#[test]
fn foreign_requires_now_and_revokes_latchworks_own_holders_as_well() {
    let dir = TestDir::new();
    let _holder = Background::holding(&dir, "x");
    let why = ["--reason", "why not"];
    let alone = end(&mut dir.latch([&["revoke", "x", "--foreign"][..], &why].concat()));
    assert_clean_error(&alone, 64, "--now");
    let both = end(&mut dir.latch([&["revoke", "x", "--now", "--foreign"][..], &why].concat()));
    assert_eq!(both.code, Some(0), "{both:?}");
    assert!(!is_held(&dir, "x"));
}

#[test]
fn a_lock_that_is_not_held_is_exit_code_1() {
    let dir = TestDir::new();
    let ended = end(&mut dir.latch(["revoke", "x", "--reason", "why not"]));
    assert_clean_error(&ended, 1, "\"x\" is not held");
    let ended = end(&mut dir.latch(["revoke", "x", "--reason", "why not", "--json"]));
    assert_eq!((ended.code, only_line(&ended.err)["kind"].clone()), (Some(1), "nothing_taken".into()));
}

#[test]
fn a_lock_without_a_lease_becomes_free_only_with_now() {
    let dir = TestDir::new();
    let _holder = dir.hold("x", &["--keep-fd"], "sleep 60");
    let status = end(&mut dir.latch(["status", "x"]));
    assert!(status.out.contains("none: held until its last process ends"), "{status:?}");
    let ended = end(&mut dir.latch(["revoke", "x", "--reason", "why not"]));
    assert!(ended.err.contains("last process ends; --now frees it"), "{ended:?}");
    assert!(ended.code == Some(0) && is_held(&dir, "x"), "{ended:?}");
    assert_eq!(end(&mut dir.latch(["revoke", "x", "--now", "--reason", "why not"])).code, Some(0));
    eventually("it is free", || !is_held(&dir, "x"));
}
