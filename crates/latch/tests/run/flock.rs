//! `flock` and `sqlite:`, as docs/interop.md has it.

use std::fs::File;
use std::process::Command;

use nix::sys::signal::Signal;

use crate::support::{Place, Running, end, eventually, runs};

/// A `flock` that has the folder of sessions locked, as a process that was stopped in the middle of a write
/// has it.
fn locked(place: &Place) -> Running {
    assert_eq!(end(&mut place.script("x", &[], "true")).code, Some(0), "there is a database");
    let mut writer = Command::new("flock");
    writer.args(["--no-fork", "locks.db-sessions", "sh", "-c", "touch up; exec sleep 60"]);
    let writer = Running::from(writer.current_dir(place.path("")).spawn().unwrap());
    eventually("the folder is locked", || place.path("up").exists());
    writer
}

#[test]
fn a_database_that_stays_locked_is_an_error_after_ten_seconds() {
    let place = Place::new();
    let _writer = locked(&place);
    for latch in [&mut place.latch(["status", "x"]), &mut place.script("x", &["--no-wait"], "true")] {
        let ended = end(latch);
        let last = ended.err.lines().rfind(|line| line.starts_with("latch: ")).unwrap_or_default();
        assert!(ended.code == Some(69) && last.contains("could not be opened within 10s"), "{ended:?}");
    }
}

#[test]
fn a_signal_ends_a_run_that_cannot_open_its_database_yet() {
    let place = Place::new();
    let _writer = locked(&place);
    for options in [&[][..], &["--no-wait"]] {
        let mut latch = place.script("x", options, "true");
        let latch = Running::from(latch.stderr(File::create(place.path("err")).unwrap()).spawn().unwrap());
        eventually("it says that it waits", || place.read("err").contains("has not answered yet"));
        latch.signal(Signal::SIGTERM);
        eventually("it ends", || !runs(latch.id()));
        assert_eq!(latch.finish().code, Some(128 + Signal::SIGTERM as i32), "{}", place.read("err"));
    }
}

#[test]
fn flock_and_sqlite_do_not_see_each_other_on_one_file() {
    let place = Place::new();
    let flock = |options: &str| {
        let mut flock = Command::new("flock");
        flock.args(options.split_whitespace()).current_dir(place.path(""));
        flock
    };
    assert_eq!(end(&mut place.script("x", &[], "true")).code, Some(0), "there is a database");
    let holder = place.hold("x", &[], "sleep 60");
    assert_eq!(end(&mut flock("-n locks.db true")).code, Some(0), "flock gets it while latch holds");
    drop(holder);
    let latch = env!("CARGO_BIN_EXE_latch");
    let both = format!("locks.db {latch} run --wait 20s x -- echo both");
    let ended = end(flock(&both).env("LATCH_URL", place.url()).env_remove("LATCH_URL_FILE"));
    assert_eq!(
        (ended.code, ended.out.as_str()),
        (Some(0), "both\n"),
        "latch gets it while flock holds: {ended:?}"
    );
}
