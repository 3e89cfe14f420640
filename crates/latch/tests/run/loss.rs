//! The lock is lost while the command runs.

use std::fs::{self, File};

use latchwork::engine::{Filter, Revoke, Revoked};
use nix::sys::signal::Signal;

use crate::support::{TestDir, eventually, runs};

fn revoke(dir: &TestDir, name: &str, how: Revoke) {
    dir.with_client(async |client| {
        let state = client.inspect(&Filter::Prefix(name.to_owned())).await.unwrap().remove(0);
        assert_eq!(client.revoke(&state, how).await.unwrap(), Revoked::Done);
    });
}

/// A command, a child and a child that leaves the group. All of them ignore SIGTERM.
const STUBBORN: &str = "trap '' TERM; exec > /dev/null 2>&1; \
                        sh -c 'echo $$ > grandchild.pid; while :; do sleep 0.1; done' & \
                        setsid sh -c 'echo $$ > leaver.pid; while :; do sleep 0.1; done' & wait; sleep 60";

#[test]
fn a_lock_taken_away_ends_the_whole_command_at_once() {
    let dir = TestDir::new();
    let holder = dir.hold("x", &["--ttl", "3s"], STUBBORN);
    let victims = [dir.pid("grandchild.pid"), dir.pid("leaver.pid")];
    revoke(&dir, "x", Revoke::Now);
    let ended = holder.finish();
    assert_eq!(ended.code, Some(76), "{ended:?}");
    assert!(ended.err.contains("\"x\" is lost: an operator took it away"), "{ended:?}");
    assert!(!victims.into_iter().any(runs), "they have ended before latch");
}

#[test]
fn a_lock_taken_away_at_the_end_of_its_lease_leaves_time_to_clean_up() {
    let dir = TestDir::new();
    let script = "trap 'echo cleaned; exit 0' TERM; touch ready; while :; do sleep 0.02; done";
    let holder = dir.hold("x", &["--ttl", "3s"], script);
    eventually("the trap is set", || dir.path("ready").exists());
    revoke(&dir, "x", Revoke::AtLeaseEnd);
    let ended = holder.finish();
    assert_eq!((ended.code, ended.out.as_str()), (Some(76), "cleaned\n"), "{ended:?}");
    assert!(ended.err.contains("an operator took it away"), "{ended:?}");
}

#[test]
fn a_command_that_ignores_the_warning_is_killed_inside_the_lease() {
    let dir = TestDir::new();
    let holder = dir.hold("x", &["--ttl", "2s", "--grace", "1h"], STUBBORN);
    let victims = [dir.pid("grandchild.pid"), dir.pid("leaver.pid")];
    revoke(&dir, "x", Revoke::AtLeaseEnd);
    let next = dir.with_client(async |client| {
        let guard = client.lock("x").acquire().await.unwrap();
        let alive = victims.into_iter().any(runs);
        guard.release().await.unwrap();
        alive
    });
    assert_eq!(holder.finish().code, Some(76));
    assert!(!next, "the command still ran when the next holder started");
}

#[test]
fn with_on_lost_warn_the_command_continues() {
    let dir = TestDir::new();
    let script = "touch up; while [ ! -e go ]; do sleep 0.02; done; exit 7";
    let mut latch = dir.script("x", &["--ttl", "3s", "--on-lost", "warn"], script);
    let mut holder = latch.stderr(File::create(dir.path("said")).unwrap()).spawn().unwrap();
    eventually("the holder starts", || dir.path("up").exists());
    revoke(&dir, "x", Revoke::Now);
    dir.with_client(async |client| client.lock("x").acquire().await.unwrap().release().await.unwrap());
    eventually("the loss is reported", || dir.read("said").ends_with('\n'));
    fs::write(dir.path("go"), "").unwrap();
    assert_eq!(holder.wait().unwrap().code(), Some(7));
    let said = dir.read("said");
    assert!(said.contains("is lost") && said.contains("command continues"), "{said}");
}

#[test]
fn a_loss_that_no_renewal_reported_shows_in_the_exit_code() {
    let dir = TestDir::new();
    let holder = dir.hold("x", &["--ttl", "1h"], "while [ ! -e go ]; do sleep 0.02; done; exit 0");
    revoke(&dir, "x", Revoke::Now);
    fs::write(dir.path("go"), "").unwrap();
    let ended = holder.finish();
    assert_eq!(ended.code, Some(76), "{ended:?}");
}

#[test]
fn a_latch_stopped_for_longer_than_its_lease_ends_the_command_when_it_continues() {
    let dir = TestDir::new();
    let holder = dir.hold("x", &["--ttl", "2s"], "echo $$ > command.pid; while :; do sleep 0.1; done");
    let command = dir.pid("command.pid");
    holder.signal(Signal::SIGSTOP);
    dir.with_client(async |client| client.lock("x").acquire().await.unwrap().release().await.unwrap());
    holder.signal(Signal::SIGCONT);
    let ended = holder.finish();
    assert_eq!(ended.code, Some(76), "{ended:?}");
    assert!(ended.err.contains("lease ended") && !runs(command), "{ended:?}");
}
