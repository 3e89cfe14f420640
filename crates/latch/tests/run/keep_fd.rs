//! `--keep-fd`: the lock lives with whoever inherited it.

use std::process::Stdio;

use nix::sys::signal::{self, Signal};

use crate::support::{Place, assert_clean_error, end};

#[test]
fn the_lock_stays_while_a_grandchild_lives_and_is_free_afterwards() {
    let place = Place::new();
    let script = "sleep 60 > /dev/null 2>&1 & echo $! > left.pid; exit 4";
    let ended = end(&mut place.script("x", &["--keep-fd", "--ttl", "1s"], script));
    assert_eq!((ended.code, ended.err.as_str()), (Some(4), ""));
    std::thread::sleep(std::time::Duration::from_millis(1500)); // nobody renews: it must outlive the ttl
    assert_clean_error(&end(&mut place.script("x", &["--no-wait"], "true")), 75, " sh (pid ");
    let next = place.script("x", &[], "echo mine").stdout(Stdio::piped()).spawn().unwrap();
    signal::kill(place.pid("left.pid"), Signal::SIGKILL).unwrap();
    assert_eq!(next.wait_with_output().unwrap().stdout, b"mine\n");
}

#[test]
fn latch_becomes_the_command() {
    let place = Place::new();
    let script = "echo $$; readlink /proc/self/fd/$LATCH_FD; ps -o comm= --ppid $$";
    let latch = place.script("x", &["--keep-fd"], script).stdout(Stdio::piped()).spawn().unwrap();
    let id = latch.id();
    let out = String::from_utf8(latch.wait_with_output().unwrap().stdout).unwrap();
    let lines: Vec<_> = out.lines().collect();
    assert_eq!(lines[0], id.to_string(), "no wrapper remains");
    assert!(lines[1].ends_with(".fifo"), "{out}");
    assert_eq!(lines[2..], ["ps"], "and no guardian");
}

#[test]
fn a_command_that_closes_the_descriptor_lets_go() {
    let place = Place::new();
    let again = format!("{} run x --no-wait -- echo free", env!("CARGO_BIN_EXE_latch"));
    let script = format!("exec {{LATCH_FD}}<&-; exec {again}");
    let ended = end(&mut place.latch(["run", "x", "--keep-fd", "--", "bash", "-c", &script]));
    assert_eq!(ended.out, "free\n", "{ended:?}");
}

#[test]
fn an_engine_without_it_refuses() {
    let place = Place::new();
    let ended = end(&mut place.script("x", &["--keep-fd", "--url", "memory:"], "true"));
    assert_clean_error(&ended, 64, "memory");
}
