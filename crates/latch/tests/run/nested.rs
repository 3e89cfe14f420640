//! A nested `latch`: inside the command of another one.

use std::process::Command;

use crate::support::{Ended, TestDir, assert_clean_error, end};

const LATCH: &str = env!("CARGO_BIN_EXE_latch");

/// Runs the command with a time limit: a `latch` that waits for itself would never end.
fn end_in_time(command: &Command) -> Ended {
    let mut bounded = Command::new("timeout");
    bounded.args(["20"]).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => bounded.env(name, value),
            None => bounded.env_remove(name),
        };
    }
    bounded.current_dir(command.get_current_dir().unwrap());
    end(&mut bounded)
}

#[test]
fn a_lock_that_would_wait_for_itself_is_refused_at_once() {
    let dir = TestDir::new();
    for inner in [
        "run a -- echo ran".to_owned(),
        "run --wait 10s a -- echo ran".to_owned(),
        "elect a -- echo ran".to_owned(),
        format!("run b -- {LATCH} run a -- echo ran"),
        format!("run b -- {LATCH} run c -- {LATCH} run b -- echo ran"),
        "--url sqlite:locks.db run a -- echo ran".to_owned(),
        "--url sqlite:sub/../locks.db run a -- echo ran".to_owned(),
    ] {
        let ended = end_in_time(&dir.script("a", &[], &format!("mkdir -p sub; {LATCH} {inner}")));
        assert_clean_error(&ended, 64, "would wait for the other to end");
        assert_eq!(ended.out, "", "{inner}");
    }
    let ended = end_in_time(&dir.latch(["elect", "a", "--", LATCH, "run", "a", "--", "echo", "ran"]));
    assert_clean_error(&ended, 64, "would wait for the other to end");
    assert!(!ended.err.contains("latch run"), "an election holds it: {ended:?}");
    let ended = end_in_time(&dir.script("a", &["--keep-fd"], &format!("{LATCH} run a -- echo ran")));
    assert_clean_error(&ended, 64, "would wait for the other to end");
}

#[test]
fn a_nested_run_of_another_lock_or_engine_is_not_refused() {
    let dir = TestDir::new();
    for inner in
        ["run b -- echo ran", "--url sqlite:other.db run a -- echo ran", "--url memory: run a -- echo ran"]
    {
        let ended = end_in_time(&dir.script("a", &[], &format!("{LATCH} {inner}")));
        assert_eq!((ended.code, ended.out.as_str(), ended.err.as_str()), (Some(0), "ran\n", ""), "{inner}");
    }
}

#[test]
fn a_nested_try_finds_the_lock_busy() {
    let dir = TestDir::new();
    for options in ["--no-wait", "--wait 0"] {
        let ended = end_in_time(&dir.script("a", &[], &format!("{LATCH} run {options} a -- echo ran")));
        assert_clean_error(&ended, 75, "held by");
    }
}

/// A daemon that a job started inherits its environment, and outlives it.
#[test]
fn a_process_that_outlives_its_run_may_take_the_lock_again() {
    let dir = TestDir::new();
    let script = "env | grep ^LATCH_HELD= > held";
    assert_eq!(end(&mut dir.script("a", &[], script)).code, Some(0));
    let held = dir.read("held");
    let held = held.trim_end().strip_prefix("LATCH_HELD=").expect("the command is told");
    let ended = end_in_time(dir.script("a", &[], "echo ran").env("LATCH_HELD", held));
    assert_eq!((ended.code, ended.out.as_str()), (Some(0), "ran\n"), "{ended:?}");
}

#[test]
fn an_invalid_latch_held_is_ignored() {
    let dir = TestDir::new();
    for held in ["", ":", "1", "1.2", "1.x.y", "-1.0.0", "99999999999.1.a", "1.1.1.1"] {
        let ended = end_in_time(dir.script("a", &[], "echo ran").env("LATCH_HELD", held));
        assert_eq!((ended.code, ended.out.as_str()), (Some(0), "ran\n"), "{held:?}: {ended:?}");
    }
}

#[test]
fn a_relative_path_leads_to_the_same_database_from_any_folder() {
    let dir = TestDir::new();
    // A folder name with characters that are special in URLs.
    let folder = dir.path("odd @%41?\n");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("url"), "sqlite:here.db\n").unwrap();
    let script = format!("cd /; {LATCH} run --no-wait a -- echo ran; {LATCH} run b -- echo other");
    for flags in [["--url", "sqlite:here.db"], ["--url-file", "url"]] {
        let mut latch = dir.script("a", &flags, &script);
        let ended = end_in_time(latch.current_dir(&folder));
        assert_eq!((ended.code, ended.out.as_str()), (Some(0), "other\n"), "{ended:?}");
        assert!(ended.err.contains("lock \"a\": held by"), "{ended:?}");
    }
}

#[test]
fn a_url_from_a_pipe_is_passed_on_by_its_text() {
    let dir = TestDir::new();
    let script =
        format!("{LATCH} --url-file <(echo {}) run a -- {LATCH} run b -- sh -c 'echo $LATCH_URL'", dir.url());
    let mut bash = Command::new("bash");
    bash.args(["-c", &script]).env_remove("LATCH_URL_FILE").env_remove("LATCH_URL");
    let ended = end(&mut bash);
    assert_eq!((ended.code, ended.out), (Some(0), format!("{}\n", dir.url())), "{}", ended.err);
}
