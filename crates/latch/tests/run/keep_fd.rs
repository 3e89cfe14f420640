//! `--keep-fd`: the lock is held while a process has the inherited descriptor open.

use std::process::Stdio;

use nix::sys::signal::{self, Signal};

use crate::support::{TestDir, assert_clean_error, end};

#[test]
fn the_lock_stays_while_a_grandchild_lives_and_is_free_afterwards() {
    let dir = TestDir::new();
    let script = "sleep 60 > /dev/null 2>&1 & echo $! > left.pid; exit 4";
    let ended = end(&mut dir.script("x", &["--keep-fd", "--ttl", "1s"], script));
    assert_eq!((ended.code, ended.err.as_str()), (Some(4), ""));
    std::thread::sleep(std::time::Duration::from_millis(1500)); // longer than the ttl, without a renewal
    assert_clean_error(&end(&mut dir.script("x", &["--no-wait"], "true")), 75, " sh (pid ");
    let next = dir.script("x", &[], "echo mine").stdout(Stdio::piped()).spawn().unwrap();
    signal::kill(dir.pid("left.pid"), Signal::SIGKILL).unwrap();
    assert_eq!(next.wait_with_output().unwrap().stdout, b"mine\n");
}

#[test]
fn latch_becomes_the_command() {
    let dir = TestDir::new();
    let script = "echo $$; readlink /proc/self/fd/$LATCH_FD; ps -o comm= --ppid $$";
    let latch = dir.script("x", &["--keep-fd"], script).stdout(Stdio::piped()).spawn().unwrap();
    let id = latch.id();
    let out = String::from_utf8(latch.wait_with_output().unwrap().stdout).unwrap();
    let lines: Vec<_> = out.lines().collect();
    assert_eq!(lines[0], id.to_string(), "no wrapper remains");
    assert!(lines[1].ends_with(".fifo"), "{out}");
    assert_eq!(lines[2..], ["ps"], "no guardian remains");
}

#[test]
fn a_command_that_closes_the_descriptor_lets_go() {
    let dir = TestDir::new();
    let again = format!("{} run x --no-wait -- echo free", env!("CARGO_BIN_EXE_latch"));
    let script = format!("exec {{LATCH_FD}}<&-; exec {again}");
    let ended = end(&mut dir.latch(["run", "x", "--keep-fd", "--", "bash", "-c", &script]));
    assert_eq!(ended.out, "free\n", "{ended:?}");
}

#[test]
fn an_engine_without_a_descriptor_is_refused() {
    let dir = TestDir::new();
    let ended = end(&mut dir.script("x", &["--keep-fd", "--url", "memory:"], "true"));
    assert_clean_error(&ended, 64, "memory");
}
