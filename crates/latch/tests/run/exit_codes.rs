//! Every exit code, and the standard streams.

use std::io::Write;
use std::process::Stdio;

use nix::sys::signal::Signal;

use crate::support::{Ended, TestDir, assert_clean_error, end, eventually};

#[test]
fn the_exit_code_is_the_commands_own() {
    let dir = TestDir::new();
    for code in [0, 1, 7, 75, 255] {
        let ended = end(&mut dir.script("x", &[], &format!("exit {code}")));
        assert_eq!((ended.code, ended.err.as_str()), (Some(code), ""));
    }
}

#[test]
fn stdin_stdout_and_stderr_pass_through() {
    let dir = TestDir::new();
    let mut latch = dir.script("x", &[], "cat; echo to-stderr >&2");
    let latch = latch.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = latch.spawn().unwrap();
    child.stdin.take().unwrap().write_all("any\0bytes\n".as_bytes()).unwrap();
    let ended = Ended::from(child.wait_with_output().unwrap());
    assert_eq!(
        (ended.code, ended.out.as_str(), ended.err.as_str()),
        (Some(0), "any\0bytes\n", "to-stderr\n")
    );
}

#[test]
fn a_command_ended_by_a_signal_gives_128_and_its_number() {
    let dir = TestDir::new();
    for (signal, code) in [("KILL", 137), ("TERM", 143), ("SEGV", 139), ("PIPE", 141)] {
        let ended = end(&mut dir.script("x", &[], &format!("kill -{signal} $$")));
        assert_eq!(ended.code, Some(code), "{ended:?}");
    }
}

#[test]
fn a_command_that_cannot_be_run_gives_the_shells_codes_and_frees_the_lock() {
    let dir = TestDir::new();
    std::fs::write(dir.path("plain"), "").unwrap();
    for options in [&[][..], &["--keep-fd"]] {
        for (command, code) in [("no-such-command", 127), ("./plain", 126), ("/", 126), ("", 127)] {
            let run = ["run", "x"].into_iter().chain(options.iter().copied()).chain(["--", command]);
            assert_clean_error(&end(&mut dir.latch(run)), code, "cannot run");
            assert_eq!(end(&mut dir.script("x", &["--no-wait"], "true")).code, Some(0));
        }
    }
}

#[test]
fn a_held_lock_is_busy_or_times_out_with_the_documented_code() {
    let dir = TestDir::new();
    let holder = dir.hold("x", &[], "sleep 60");
    // If the machine stands still, a wait limit shorter than the first reply would be another failure.
    for (options, code, says) in [
        (&["--no-wait"][..], 75, " sh (pid "),
        (&["--wait", "0"], 75, " sh (pid "),
        (&["--quiet", "--wait", "1500ms"], 124, "still held"),
        (&["--quiet", "--wait", "1.5"], 124, "still held"),
        (&["--no-wait", "-E", "9"], 9, " sh (pid "),
        (&["--quiet", "--wait", "1500ms", "-E", "0"], 0, "still held"),
    ] {
        let ended = end(&mut dir.script("x", options, "echo ran"));
        assert_clean_error(&ended, code, says);
        // The whole limit, or the rest of it after a slow first connection.
        let limit = ["after waiting 1.5s", "of the wait limit"];
        assert!(says != "still held" || limit.iter().any(|limit| ended.err.contains(limit)), "{ended:?}");
        assert_eq!(ended.out, "", "the command must not run");
    }
    assert_eq!(end(&mut dir.script("y", &["--no-wait"], "true")).code, Some(0), "another name is free");
    drop(holder);
}

#[test]
fn a_wrong_call_is_a_usage_error() {
    let dir = TestDir::new();
    for (arguments, says) in [
        (&[][..], "subcommand"),
        (&["walk"], "walk"),
        (&["run"], "NAME"),
        (&["run", "x"], "CMD"),
        (&["run", "x", "--"], "CMD"),
        (&["run", "x", "true"], "true"),
        (&["run", "x", "--wait", "soon", "--", "true"], "30s"),
        (&["run", "x", "--wait", "1s", "--no-wait", "--", "true"], "--no-wait"),
        (&["run", "x", "-E", "256", "--", "true"], "256"),
        (&["run", "x", "--on-lost", "shrug", "--", "true"], "warn"),
        (&["--url", "sqlite:", "run", "x", "--system", "--", "true"], "exclude"),
    ] {
        assert_clean_error(&end(&mut dir.latch(arguments.iter().copied())), 64, says);
    }
    let forged = end(&mut dir.latch(["run", "x", "--\u{1b}[2J\nlatch: all is well", "--", "true"]));
    assert_clean_error(&forged, 64, "all is well");
    assert!(!forged.err.contains('\u{1b}'), "arguments must not steer the terminal: {forged:?}");
    for arguments in [&["--help"][..], &["run", "--help"], &["--version"]] {
        let ended = end(&mut dir.latch(arguments.iter().copied()));
        assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""));
    }
}

#[test]
fn a_signal_while_waiting_withdraws_from_the_queue() {
    let dir = TestDir::new();
    let holder = dir.hold("x", &[], "sleep 60");
    for (signal, code) in [(Signal::SIGTERM, 143), (Signal::SIGINT, 130), (Signal::SIGHUP, 129)] {
        let waiter =
            dir.script("x", &["--quiet"], "echo ran").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let waiter = waiter.unwrap();
        eventually("it waits", || dir.inspect("x").is_some_and(|lock| lock.waiters.len() == 1));
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(waiter.id() as i32), signal).unwrap();
        let ended = Ended::from(waiter.wait_with_output().unwrap());
        assert_eq!((ended.code, ended.out.as_str(), ended.err.as_str()), (Some(code), "", ""));
        assert!(dir.inspect("x").unwrap().waiters.is_empty());
    }
    drop(holder);
}
