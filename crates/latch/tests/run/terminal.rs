//! Job control on a real terminal.

use std::process::Command;

use nix::sys::signal::Signal;

use crate::pty::Pty;
use crate::support::{TestDir, end, eventually, running_with};

/// An interactive shell with an alias `latch`.
fn shell(dir: &TestDir) -> Pty {
    let latch = dir.latch([]);
    let mut bash = Command::new("bash");
    bash.args(["--norc", "--noprofile", "-i"])
        .current_dir(dir.path(""))
        .env("PS1", "ready> ")
        .env("TERM", "dumb");
    for (name, value) in latch.get_envs() {
        bash.env(name, value.unwrap_or_default());
    }
    let mut pty = Pty::start(&bash);
    pty.see("ready> ");
    pty.type_in(&format!("alias latch={}\n", env!("CARGO_BIN_EXE_latch")));
    pty.see("ready> ");
    pty
}

fn has_stopped(text: &str) -> bool {
    let status = |id| std::fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
    running_with(text).into_iter().any(|(id, _)| status(id).contains("State:\tT"))
}

#[test]
fn the_command_reads_from_the_terminal_and_ctrl_c_ends_it() {
    let dir = TestDir::new();
    let mut pty = Pty::start(&dir.latch(["run", "x", "--", "cat"]));
    pty.type_in("hello\n");
    pty.see("hello\r\nhello\r\n");
    pty.type_in("\x03");
    assert_eq!(pty.exit_code(), Some(130));
    assert_eq!(end(&mut dir.script("x", &["--no-wait"], "true")).code, Some(0));
}

#[test]
fn stopping_and_continuing_under_a_shell_works() {
    let dir = TestDir::new();
    let mut pty = shell(&dir);
    pty.type_in("latch run x -- sh -c 'echo up; exec cat'\n");
    pty.see("\r\nup\r\n");
    pty.type_in("one\n");
    pty.see("one\r\none\r\n");
    pty.type_in("\x1a");
    pty.see("expires after its ttl");
    pty.see("Stopped");
    pty.see("ready> ");
    pty.type_in("echo the shell is $((40 + 2))\n");
    pty.see("the shell is 42");
    pty.type_in("fg\n");
    pty.see("latch run x -- sh");
    pty.type_in("two\n");
    pty.see("two\r\ntwo\r\n");
    pty.type_in("\x04");
    pty.see("ready> ");
    pty.type_in("echo code $?; true\n");
    pty.see("code 0");
    pty.type_in("echo still $((40 + 3))\n");
    pty.see("still 43");
}

#[test]
fn a_command_in_the_background_stops_when_it_wants_the_terminal() {
    let dir = TestDir::new();
    let mut pty = shell(&dir);
    pty.type_in("latch run background -- cat &\n");
    pty.see("expires after its ttl");
    eventually("latch has stopped too", || has_stopped("run\0background"));
    pty.type_in("fg\n");
    pty.see("latch run background -- cat");
    pty.type_in("late\n");
    pty.see("late\r\nlate\r\n");
    pty.type_in("\x03");
    pty.see("ready> ");
    pty.type_in("echo code $?\n");
    pty.see("code 130");
}

#[test]
fn with_stdout_elsewhere_the_command_still_reads_the_terminal() {
    let dir = TestDir::new();
    let mut pty = shell(&dir);
    pty.type_in("latch run x -- sh -c 'touch up; exec cat' > copy\n");
    eventually("cat is about to read", || dir.path("up").exists());
    pty.type_in("typed\n");
    eventually("cat got it", || dir.read("copy") == "typed\n");
    pty.type_in("\x1a");
    pty.see("ready> ");
    pty.type_in("fg\n");
    pty.type_in("more\n");
    eventually("cat got more", || dir.read("copy") == "typed\nmore\n");
    pty.type_in("\x04");
    pty.see("ready> ");
}

#[test]
fn an_interactive_shell_runs_under_the_lock() {
    let dir = TestDir::new();
    let mut pty = shell(&dir);
    pty.type_in("latch run x -- env PS1='inn''er> ' bash --norc --noprofile -i\n");
    pty.see("inner> ");
    pty.type_in("sleep 654\n");
    eventually("it sleeps", || !running_with("sleep\u{0}654").is_empty());
    pty.type_in("\x1a");
    pty.see("inner> ");
    pty.type_in("fg\n");
    pty.see("sleep 654\r\n");
    pty.type_in("\x03");
    pty.see("inner> ");
    pty.type_in("exit 9\n");
    pty.see("ready> ");
    pty.type_in("echo code $?\n");
    pty.see("code 9");
}

#[test]
fn a_command_stopped_for_longer_than_its_lease_is_ended_and_not_continued() {
    let dir = TestDir::new();
    let mut pty = shell(&dir);
    // The shell waits and forks nothing: a vfork cut in two by ^Z would hang it, with latch or without.
    let script = "trap \"echo ran >> ran\" CONT; sleep 600 & echo up; wait";
    pty.type_in(&format!("latch run x --ttl 2s -- sh -c '{script}'\n"));
    pty.see("up\r\n");
    pty.type_in("\x1a");
    pty.see("ready> ");
    let next = end(&mut dir.script("x", &["--wait", "20s"], "rm -f ran"));
    assert_eq!(next.code, Some(0), "{next:?}");
    pty.type_in("fg\n");
    pty.see("is lost");
    pty.see("ready> ");
    pty.type_in("echo code $?\n");
    pty.see("code 76");
    assert_eq!(dir.read("ran"), "");
}

#[test]
fn a_wait_on_a_terminal_shows_the_holder_and_the_position_in_the_queue() {
    let dir = TestDir::new();
    let holder = dir.hold("x", &[], "sleep 60");
    let mut pty = Pty::start(&dir.latch(["run", "x", "--", "echo", "mine"]));
    pty.see("latch: waiting");
    pty.see("number 1 of 1 in the queue; held for");
    pty.see(&format!(" sh (pid {})", holder.id()));
    holder.signal(Signal::SIGTERM);
    pty.see("\r\u{1b}[K");
    pty.see("mine");
    assert_eq!(pty.exit_code(), Some(0), "{}", pty.screen());
}

#[test]
fn on_a_narrow_terminal_a_long_name_does_not_hide_the_holder() {
    let dir = TestDir::new();
    let name = "orders/eu-central-1/warehouse-17/aisle-4/line-42";
    let started = dir.path("started");
    let script = format!("touch {}; sleep 60", started.display());
    let holder = dir.latch(["run", name, "--", "sh", "-c", &script]).spawn().unwrap();
    let holder = crate::support::Running::from(holder);
    eventually("it holds", || started.exists());
    let mut shell = Command::new("sh");
    let latch = format!("stty cols 80 rows 24; exec {} run {name} -- true", env!("CARGO_BIN_EXE_latch"));
    shell.args(["-c", &latch]).current_dir(dir.path("")).env("LATCH_URL", dir.url());
    let mut pty = Pty::start(&shell);
    pty.see("for \"orders/");
    pty.see("…");
    pty.see("42\": held ");
    // The end of a long note is cut as well, and with it the process id.
    pty.see(" by ");
    pty.see("@");
    holder.signal(Signal::SIGTERM);
    pty.see("latch: got ");
    assert_eq!(pty.exit_code(), Some(0), "{}", pty.screen());
}
