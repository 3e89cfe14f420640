//! `latch release --force`, the former name of `latch revoke`.

use std::process::Command;

use crate::helpers::{Background, document, is_held, only_line};
use crate::support::{Ended, TestDir, assert_clean_error, end, eventually, runs};

/// Runs the command in the hint, in a shell.
pub(crate) fn run_hint(dir: &TestDir, ended: &Ended) -> Ended {
    let hint = ended.err.lines().find_map(|line| line.strip_prefix("hint: ")).unwrap();
    let folder = std::path::Path::new(env!("CARGO_BIN_EXE_latch")).parent().unwrap();
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
    let mut bash = Command::new("bash");
    bash.args(["-c", hint]).current_dir(dir.path("")).env("PATH", path).env("LC_ALL", "C.UTF-8");
    end(bash.env("LATCH_URL", dir.url()))
}

#[test]
fn without_force_nothing_is_taken_away_and_the_hint_is_the_command_to_type() {
    let dir = TestDir::new();
    for name in ["x", "it's \"odd\"", "$(touch pwned)", "hid\u{202e}den"] {
        let holder = Background::holding(&dir, name);
        let ended = end(&mut dir.latch(["release", "--now", "--", name]));
        assert_clean_error(&ended, 64, &format!(" sleep (pid {})", holder.id()));
        assert!(is_held(&dir, name), "nothing is taken away");
        let hinted = run_hint(&dir, &ended);
        assert_eq!(hinted.code, Some(0), "{ended:?} {hinted:?}");
        assert!(!is_held(&dir, name), "the command in the hint works: {ended:?}");
    }
    assert!(!dir.path("pwned").exists());
}

#[test]
fn the_command_in_the_hint_uses_the_same_engine() {
    let dir = TestDir::new();
    let url = format!("sqlite:{}", dir.path("other one.db").display());
    std::fs::write(dir.path("url file"), &url).unwrap();
    for flags in [["--url", &url], ["--url-file", "url file"]] {
        let mut run = flags.to_vec();
        run.extend(["run", "--ttl", "1h", "x", "--", "sleep", "60"]);
        let holder = Background::start(dir.latch(run));
        let held =
            || document(&mut dir.latch([&flags[..], &["status", "x", "--json"]].concat()))["held"] == true;
        eventually("it holds", held);
        let ended = end(&mut dir.latch([&flags[..], &["release", "x", "--now"]].concat()));
        assert_eq!(run_hint(&dir, &ended).code, Some(0), "{ended:?}");
        assert!(!held());
        drop(holder);
    }
}

#[test]
fn with_force_the_holder_stops_in_time_and_the_lock_becomes_free() {
    let dir = TestDir::new();
    let script = "trap 'echo cleaned; exit 0' TERM; touch ready; while :; do sleep 0.02; done";
    let holder = dir.hold("x", &["--ttl", "3s"], script);
    eventually("the trap is set", || dir.path("ready").exists());
    let ended = end(&mut dir.latch(["release", "x", "--force"]));
    let line = "latch: release --force is now: latch revoke --reason='say here why' x\n";
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), line), "{ended:?}");
    assert!(ended.out.starts_with("x: taken from "), "{ended:?}");
    assert!(ended.out.contains(&format!(" sh (pid {})", holder.id())), "{ended:?}");
    assert!(ended.out.contains("free in") && ended.out.contains("at the latest"), "{ended:?}");
    let next = end(&mut dir.script("x", &["--wait", "20s"], "true"));
    assert_eq!(next.code, Some(0), "{next:?}");
    let holder = holder.finish();
    assert_eq!((holder.code, holder.out.as_str()), (Some(76), "cleaned\n"), "{holder:?}");
    assert!(holder.err.contains("an operator took it away"), "{holder:?}");
}

#[test]
fn with_force_alone_the_lock_is_not_free_before_the_lease_ends() {
    let dir = TestDir::new();
    let _holder = dir.hold("x", &["--ttl", "1h"], "sleep 60");
    let before = dir.inspect("x").unwrap().holders[0].id;
    let taken = document(&mut dir.latch(["release", "x", "--force", "--json"]));
    assert_eq!((&taken["name"], &taken["how"]), (&"x".into(), &"at_lease_end".into()));
    assert_eq!(taken["taken_from"][0]["claim"], before.to_string());
    assert!((3_000_000..=3_600_000).contains(&taken["free_within_ms"].as_u64().unwrap()), "{taken}");
    assert_eq!(dir.inspect("x").unwrap().holders[0].id, before);
    assert_eq!(end(&mut dir.script("x", &["--no-wait"], "true")).code, Some(75));
}

#[test]
fn now_frees_at_once_and_warns_that_the_former_holder_may_still_run() {
    let dir = TestDir::new();
    let holder = dir.hold("x", &["--ttl", "1h"], "echo $LATCH_TOKEN > old; echo $$ > pid; sleep 60");
    let command = dir.pid("pid");
    let ended = end(&mut dir.latch(["release", "x", "--force", "--now"]));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.out.contains("the lock is free"), "{ended:?}");
    assert!(ended.err.contains("latch: warning: ") && ended.err.contains("checks tokens"), "{ended:?}");
    assert_eq!(end(&mut dir.script("x", &["--no-wait"], "echo $LATCH_TOKEN > new")).code, Some(0));
    assert!(runs(command), "that is what the warning is about");
    let token = |file| dir.read(file).trim().parse::<u64>().unwrap();
    assert!(token("new") > token("old"));
    drop(holder);
}

#[test]
fn now_in_json_warns_on_stderr() {
    let dir = TestDir::new();
    let _holder = dir.hold("x", &["--ttl", "1h"], "sleep 60");
    let before = dir.inspect("x").unwrap().holders[0].id.to_string();
    let ended = end(&mut dir.latch(["release", "x", "--force", "--now", "--json"]));
    let (taken, warning) = (only_line(&ended.out), only_line(&ended.err));
    assert_eq!((&taken["how"], &taken["free_within_ms"]), (&"now".into(), &0.into()));
    assert_eq!((&taken["taken_from"][0]["claim"], &warning["event"]), (&before.into(), &"warning".into()));
    assert!(warning["message"].as_str().unwrap().contains("tokens"));
}

#[test]
fn a_lock_that_is_not_held_is_exit_code_1() {
    let dir = TestDir::new();
    assert_clean_error(&end(&mut dir.latch(["release", "x", "--force"])), 1, "\"x\" is not held");
    assert_clean_error(&end(&mut dir.latch(["release", "x", "--force", "--now"])), 1, "\"x\" is not held");
    assert_clean_error(&end(&mut dir.latch(["release", "x"])), 64, "it is not held now");
    let ended = end(&mut dir.latch(["release", "x", "--force", "--json"]));
    let error = only_line(&ended.err);
    assert_eq!((ended.code, ended.out.as_str()), (Some(1), ""));
    assert_eq!((&error["kind"], &error["exit_code"]), (&"nothing_taken".into(), &1.into()));
}

#[test]
fn a_lock_without_a_lease_becomes_free_only_with_now() {
    let dir = TestDir::new();
    let _holder = dir.hold("x", &["--keep-fd"], "sleep 60");
    let ended = end(&mut dir.latch(["release", "x", "--force"]));
    assert_eq!(ended.code, Some(0));
    assert!(ended.err.contains("warning: ") && ended.err.contains("--now"), "{ended:?}");
    assert!(!ended.out.contains("at the latest") && is_held(&dir, "x"), "{ended:?}");
    assert_eq!(end(&mut dir.latch(["release", "x", "--force", "--now"])).code, Some(0));
    assert!(!is_held(&dir, "x"));
}

#[test]
fn without_a_reply_of_the_engine_the_hint_is_still_the_command_to_type() {
    let dir = TestDir::new();
    std::fs::write(dir.path("locks.db"), "this is no database ".repeat(100)).unwrap();
    assert_clean_error(&end(&mut dir.latch(["release", "x"])), 64, "latch revoke takes");
    assert_clean_error(&end(&mut dir.latch(["release", "x", "--force"])), 69, "locks.db");
}
