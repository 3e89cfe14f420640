//! `flock` beside `sqlite:`, as docs/interop.md describes it.

use std::fs::File;
use std::process::Command;

use nix::sys::signal::Signal;

use crate::support::{Running, TestDir, end, eventually, runs};

/// A `flock` that has the folder of sessions locked, like a process that was stopped during a write.
fn locked(dir: &TestDir) -> Running {
    assert_eq!(end(&mut dir.script("x", &[], "true")).code, Some(0), "there is a database");
    let mut writer = Command::new("flock");
    writer.args(["--no-fork", "locks.db-sessions", "sh", "-c", "touch up; exec sleep 60"]);
    let writer = Running::from(writer.current_dir(dir.path("")).spawn().unwrap());
    eventually("the folder is locked", || dir.path("up").exists());
    writer
}

#[test]
fn a_database_that_stays_locked_is_an_error_after_ten_seconds() {
    let dir = TestDir::new();
    let _writer = locked(&dir);
    for latch in [&mut dir.latch(["status", "x"]), &mut dir.script("x", &["--no-wait"], "true")] {
        let ended = end(latch);
        let last = ended.err.lines().rfind(|line| line.starts_with("latch: ")).unwrap_or_default();
        assert!(ended.code == Some(69) && last.contains("could not be opened within 10s"), "{ended:?}");
    }
}

#[test]
fn a_signal_ends_a_run_that_cannot_open_its_database_yet() {
    let dir = TestDir::new();
    let _writer = locked(&dir);
    for options in [&[][..], &["--no-wait"]] {
        let mut latch = dir.script("x", options, "true");
        let latch = Running::from(latch.stderr(File::create(dir.path("err")).unwrap()).spawn().unwrap());
        eventually("it reports the wait", || dir.read("err").contains("has not answered yet"));
        latch.signal(Signal::SIGTERM);
        eventually("it ends", || !runs(latch.id()));
        assert_eq!(latch.finish().code, Some(128 + Signal::SIGTERM as i32), "{}", dir.read("err"));
    }
}

#[test]
fn flock_and_sqlite_do_not_see_each_other_on_one_file() {
    let dir = TestDir::new();
    let flock = |options: &str| {
        let mut flock = Command::new("flock");
        flock.args(options.split_whitespace()).current_dir(dir.path(""));
        flock
    };
    assert_eq!(end(&mut dir.script("x", &[], "true")).code, Some(0), "there is a database");
    let holder = dir.hold("x", &[], "sleep 60");
    assert_eq!(end(&mut flock("-n locks.db true")).code, Some(0), "flock gets it while latch holds");
    drop(holder);
    let latch = env!("CARGO_BIN_EXE_latch");
    let both = format!("locks.db {latch} run --wait 20s x -- echo both");
    let ended = end(flock(&both).env("LATCH_URL", dir.url()).env_remove("LATCH_URL_FILE"));
    assert_eq!(
        (ended.code, ended.out.as_str()),
        (Some(0), "both\n"),
        "latch gets it while flock holds: {ended:?}"
    );
}
