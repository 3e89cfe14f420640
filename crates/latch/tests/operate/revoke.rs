//! `latch revoke`.

use crate::support::{Place, assert_clean_error, end, eventually};
use crate::watch::{Background, document, is_held, only_line};

#[test]
fn a_reason_is_asked_for_shown_and_harmless() {
    let place = Place::new();
    let holder = Background::holding(&place, "x");
    for arguments in [&["revoke", "x"][..], &["revoke", "x", "--now"], &["revoke", "x", "--reason", ""]] {
        assert_clean_error(&end(&mut place.latch(arguments.iter().copied())), 64, "--reason");
    }
    assert!(is_held(&place, "x"), "nothing is taken away");
    let reason = "host is gone\u{1b}[2J\nx: taken from nobody";
    let ended = end(&mut place.latch(["revoke", "x", "--reason", reason]));
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ended:?}");
    assert!(ended.out.starts_with("x: taken from "), "{ended:?}");
    assert!(ended.out.contains(&format!(" (pid {})", holder.id())), "{ended:?}");
    assert!(
        ended.out.contains("reason: host is gone\\u{1b}[2J\\nx: taken") && ended.out.lines().count() == 1
    );
    let taken = document(&mut place.latch(["revoke", "x", "--reason", reason, "--json"]));
    assert_eq!((&taken["reason"], &taken["how"]), (&reason.into(), &"at_lease_end".into()));
}

#[test]
fn now_frees_at_once_and_the_holder_hears_that_it_was_revoked() {
    let place = Place::new();
    let holder = place.hold("x", &["--ttl", "3s"], "sleep 60");
    let ended = end(&mut place.latch(["revoke", "x", "--now", "--reason", "too slow"]));
    assert!(ended.err.starts_with("latch: warning: ") && ended.err.contains("checks tokens"), "{ended:?}");
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.out.contains("the lock is free; reason: too slow"), "{ended:?}");
    assert_eq!(end(&mut place.script("x", &["--no-wait"], "true")).code, Some(0), "another had it since");
    let holder = holder.finish();
    assert_eq!(holder.code, Some(76), "{holder:?}");
    assert!(holder.err.contains("\"x\" is lost: an operator took it away"), "{holder:?}");
}

#[test]
fn foreign_goes_with_now_and_takes_our_own_holders_as_well() {
    let place = Place::new();
    let _holder = Background::holding(&place, "x");
    let why = ["--reason", "why not"];
    let alone = end(&mut place.latch([&["revoke", "x", "--foreign"][..], &why].concat()));
    assert_clean_error(&alone, 64, "--now");
    let both = end(&mut place.latch([&["revoke", "x", "--now", "--foreign"][..], &why].concat()));
    assert_eq!(both.code, Some(0), "{both:?}");
    assert!(!is_held(&place, "x"));
}

#[test]
fn a_lock_that_nobody_holds_is_exit_code_1() {
    let place = Place::new();
    let ended = end(&mut place.latch(["revoke", "x", "--reason", "why not"]));
    assert_clean_error(&ended, 1, "\"x\" is not held");
    let ended = end(&mut place.latch(["revoke", "x", "--reason", "why not", "--json"]));
    assert_eq!((ended.code, only_line(&ended.err)["kind"].clone()), (Some(1), "nothing_taken".into()));
}

#[test]
fn a_lock_without_a_lease_comes_free_only_with_now() {
    let place = Place::new();
    let _holder = place.hold("x", &["--keep-fd"], "sleep 60");
    let status = end(&mut place.latch(["status", "x"]));
    assert!(status.out.contains("none: held until its last process ends"), "{status:?}");
    let ended = end(&mut place.latch(["revoke", "x", "--reason", "why not"]));
    assert!(ended.err.contains("last process ends; --now frees it"), "{ended:?}");
    assert!(ended.code == Some(0) && is_held(&place, "x"), "{ended:?}");
    assert_eq!(end(&mut place.latch(["revoke", "x", "--now", "--reason", "why not"])).code, Some(0));
    eventually("it is free", || !is_held(&place, "x"));
}
