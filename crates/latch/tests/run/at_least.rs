//! `--at-least`: a lock that outlasts a short command.

use std::time::Duration;

use latchwork::clock::Clock;
use nix::sys::signal::Signal;

use crate::support::{Place, assert_clean_error, end, eventually, runs};

#[test]
fn the_lock_is_kept_for_as_long_as_was_asked_and_the_code_is_the_commands() {
    let place = Place::new();
    let begun = Clock::boottime().now();
    let running = place.hold("job", &["--at-least", "2s"], "touch done; exit 7");
    eventually("the command ends", || place.path("done").exists());
    let is_over = || Clock::boottime().now().since(begun) >= Duration::from_secs(2);
    let busy = end(&mut place.script("job", &["--no-wait"], "true"));
    assert!(busy.code == Some(75) || is_over(), "{busy:?}");
    assert_eq!(end(&mut place.script("job", &[], "true")).code, Some(0));
    assert!(is_over(), "free too early");
    assert_eq!(running.finish().code, Some(7));
}

#[test]
fn who_asks_it_to_end_is_heard() {
    let place = Place::new();
    let running = place.hold("job", &["--at-least", "10m"], "true");
    eventually("the command ends, and the lock is kept", || {
        place.inspect("job").is_some_and(|lock| lock.holders[0].expires_in > Some(Duration::from_secs(500)))
    });
    std::thread::sleep(Duration::from_millis(300));
    running.signal(Signal::SIGTERM);
    let id = running.id();
    eventually("it ends", || !runs(id));
    assert!(place.inspect("job").is_none(), "sqlite sees the end of a process");
}

#[test]
fn a_signal_that_ends_the_command_ends_the_stay_too() {
    let place = Place::new();
    let script = "trap 'exit 3' TERM; touch ready; while :; do sleep 0.05; done";
    let running = place.hold("job", &["--at-least", "10m"], script);
    eventually("the trap is set", || place.path("ready").exists());
    running.signal(Signal::SIGTERM);
    let id = running.id();
    eventually("it ends", || !runs(id));
    assert_eq!(running.finish().code, Some(3));
}

#[test]
fn what_nobody_could_keep_is_refused() {
    let place = Place::new();
    let both = end(&mut place.script("job", &["--at-least", "2s", "--keep-fd"], "true"));
    assert_clean_error(&both, 64, "--keep-fd");
    let long = end(&mut place.script("job", &["--at-least", "9999h"], "true"));
    assert_clean_error(&long, 64, "ttl");
}
