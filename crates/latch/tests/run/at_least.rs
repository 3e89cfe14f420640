//! `--at-least`: a lock that is held for longer than its command runs.

use std::time::Duration;

use latchwork::clock::Clock;
use nix::sys::signal::Signal;

use crate::support::{TestDir, assert_clean_error, end, eventually, runs};

#[test]
fn the_lock_is_kept_for_the_minimum_time_and_the_exit_code_is_the_commands() {
    let dir = TestDir::new();
    let begun = Clock::boottime().now();
    let running = dir.hold("job", &["--at-least", "2s"], "touch done; exit 7");
    eventually("the command ends", || dir.path("done").exists());
    let is_over = || Clock::boottime().now().since(begun) >= Duration::from_secs(2);
    let busy = end(&mut dir.script("job", &["--no-wait"], "true"));
    assert!(busy.code == Some(75) || is_over(), "{busy:?}");
    assert_eq!(end(&mut dir.script("job", &[], "true")).code, Some(0));
    assert!(is_over(), "free too early");
    assert_eq!(running.finish().code, Some(7));
}

#[test]
fn a_termination_signal_ends_the_minimum_hold() {
    let dir = TestDir::new();
    let running = dir.hold("job", &["--at-least", "10m"], "true");
    eventually("the command ends, and the lock is kept", || {
        dir.inspect("job").is_some_and(|lock| lock.holders[0].expires_in > Some(Duration::from_secs(500)))
    });
    std::thread::sleep(Duration::from_millis(300));
    running.signal(Signal::SIGTERM);
    let id = running.id();
    eventually("it ends", || !runs(id));
    assert!(dir.inspect("job").is_none(), "sqlite sees the end of a process");
}

#[test]
fn a_signal_that_ends_the_command_ends_the_minimum_hold_too() {
    let dir = TestDir::new();
    let script = "trap 'exit 3' TERM; touch ready; while :; do sleep 0.05; done";
    let running = dir.hold("job", &["--at-least", "10m"], script);
    eventually("the trap is set", || dir.path("ready").exists());
    running.signal(Signal::SIGTERM);
    let id = running.id();
    eventually("it ends", || !runs(id));
    assert_eq!(running.finish().code, Some(3));
}

#[test]
fn a_minimum_hold_that_cannot_be_kept_is_refused() {
    let dir = TestDir::new();
    let both = end(&mut dir.script("job", &["--at-least", "2s", "--keep-fd"], "true"));
    assert_clean_error(&both, 64, "--keep-fd");
    let long = end(&mut dir.script("job", &["--at-least", "9999h"], "true"));
    assert_clean_error(&long, 64, "ttl");
}
