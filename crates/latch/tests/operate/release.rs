//! `latch release --force`, the former name of `latch revoke`.

use std::process::Command;

use crate::support::{Ended, Place, assert_clean_error, end, eventually, runs};
use crate::watch::{Background, document, is_held, only_line};

/// Runs the command that a hint tells, as somebody who copies it into a shell.
pub(crate) fn obey(place: &Place, ended: &Ended) -> Ended {
    let hint = ended.err.lines().find_map(|line| line.strip_prefix("hint: ")).unwrap();
    let folder = std::path::Path::new(env!("CARGO_BIN_EXE_latch")).parent().unwrap();
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
    let mut bash = Command::new("bash");
    bash.args(["-c", hint]).current_dir(place.path("")).env("PATH", path).env("LC_ALL", "C.UTF-8");
    end(bash.env("LATCH_URL", place.url()))
}

#[test]
fn without_force_it_takes_nothing_and_says_what_to_type() {
    let place = Place::new();
    for name in ["x", "it's \"odd\"", "$(touch pwned)", "hid\u{202e}den"] {
        let holder = Background::holding(&place, name);
        let ended = end(&mut place.latch(["release", "--now", "--", name]));
        assert_clean_error(&ended, 64, &format!(" sleep (pid {})", holder.id()));
        assert!(is_held(&place, name), "nothing is taken away");
        let obeyed = obey(&place, &ended);
        assert_eq!(obeyed.code, Some(0), "{ended:?} {obeyed:?}");
        assert!(!is_held(&place, name), "the command in the hint works: {ended:?}");
    }
    assert!(!place.path("pwned").exists());
}

#[test]
fn the_command_in_the_hint_goes_to_the_same_engine() {
    let place = Place::new();
    let url = format!("sqlite:{}", place.path("other one.db").display());
    std::fs::write(place.path("url file"), &url).unwrap();
    for flags in [["--url", &url], ["--url-file", "url file"]] {
        let mut run = flags.to_vec();
        run.extend(["run", "--ttl", "1h", "x", "--", "sleep", "60"]);
        let holder = Background::start(place.latch(run));
        let held =
            || document(&mut place.latch([&flags[..], &["status", "x", "--json"]].concat()))["held"] == true;
        eventually("it holds", held);
        let ended = end(&mut place.latch([&flags[..], &["release", "x", "--now"]].concat()));
        assert_eq!(obey(&place, &ended).code, Some(0), "{ended:?}");
        assert!(!held());
        drop(holder);
    }
}

#[test]
fn by_force_the_holder_is_told_in_time_and_the_lock_comes_free() {
    let place = Place::new();
    let script = "trap 'echo cleaned; exit 0' TERM; touch ready; while :; do sleep 0.02; done";
    let holder = place.hold("x", &["--ttl", "3s"], script);
    eventually("the trap is set", || place.path("ready").exists());
    let ended = end(&mut place.latch(["release", "x", "--force"]));
    let line = "latch: release --force is now: latch revoke --reason='say here why' x\n";
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), line), "{ended:?}");
    assert!(ended.out.starts_with("x: taken from "), "{ended:?}");
    assert!(ended.out.contains(&format!(" sh (pid {})", holder.id())), "{ended:?}");
    assert!(ended.out.contains("free in") && ended.out.contains("at the latest"), "{ended:?}");
    let next = end(&mut place.script("x", &["--wait", "20s"], "true"));
    assert_eq!(next.code, Some(0), "{next:?}");
    let holder = holder.finish();
    assert_eq!((holder.code, holder.out.as_str()), (Some(76), "cleaned\n"), "{holder:?}");
    assert!(holder.err.contains("an operator took it away"), "{holder:?}");
}

#[test]
fn by_force_alone_the_lock_is_not_free_before_the_lease_ends() {
    let place = Place::new();
    let _holder = place.hold("x", &["--ttl", "1h"], "sleep 60");
    let before = place.inspect("x").unwrap().holders[0].id;
    let taken = document(&mut place.latch(["release", "x", "--force", "--json"]));
    assert_eq!((&taken["name"], &taken["how"]), (&"x".into(), &"at_lease_end".into()));
    assert_eq!(taken["taken_from"][0]["claim"], before.to_string());
    assert!((3_000_000..=3_600_000).contains(&taken["free_within_ms"].as_u64().unwrap()), "{taken}");
    assert_eq!(place.inspect("x").unwrap().holders[0].id, before);
    assert_eq!(end(&mut place.script("x", &["--no-wait"], "true")).code, Some(75));
}

#[test]
fn now_frees_at_once_and_warns_of_the_holder_that_does_not_know() {
    let place = Place::new();
    let holder = place.hold("x", &["--ttl", "1h"], "echo $LATCH_TOKEN > old; echo $$ > pid; sleep 60");
    let command = place.pid("pid");
    let ended = end(&mut place.latch(["release", "x", "--force", "--now"]));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.out.contains("the lock is free"), "{ended:?}");
    assert!(ended.err.contains("latch: warning: ") && ended.err.contains("checks tokens"), "{ended:?}");
    assert_eq!(end(&mut place.script("x", &["--no-wait"], "echo $LATCH_TOKEN > new")).code, Some(0));
    assert!(runs(command), "that is what the warning is about");
    let token = |file| place.read(file).trim().parse::<u64>().unwrap();
    assert!(token("new") > token("old"));
    drop(holder);
}

#[test]
fn now_in_json_warns_on_stderr() {
    let place = Place::new();
    let _holder = place.hold("x", &["--ttl", "1h"], "sleep 60");
    let before = place.inspect("x").unwrap().holders[0].id.to_string();
    let ended = end(&mut place.latch(["release", "x", "--force", "--now", "--json"]));
    let (taken, warning) = (only_line(&ended.out), only_line(&ended.err));
    assert_eq!((&taken["how"], &taken["free_within_ms"]), (&"now".into(), &0.into()));
    assert_eq!((&taken["taken_from"][0]["claim"], &warning["event"]), (&before.into(), &"warning".into()));
    assert!(warning["message"].as_str().unwrap().contains("tokens"));
}

#[test]
fn a_lock_that_nobody_holds_is_exit_code_1() {
    let place = Place::new();
    assert_clean_error(&end(&mut place.latch(["release", "x", "--force"])), 1, "\"x\" is not held");
    assert_clean_error(&end(&mut place.latch(["release", "x", "--force", "--now"])), 1, "\"x\" is not held");
    assert_clean_error(&end(&mut place.latch(["release", "x"])), 64, "nobody holds it now");
    let ended = end(&mut place.latch(["release", "x", "--force", "--json"]));
    let error = only_line(&ended.err);
    assert_eq!((ended.code, ended.out.as_str()), (Some(1), ""));
    assert_eq!((&error["kind"], &error["exit_code"]), (&"nothing_taken".into(), &1.into()));
}

#[test]
fn a_lock_without_a_lease_comes_free_only_with_now() {
    let place = Place::new();
    let _holder = place.hold("x", &["--keep-fd"], "sleep 60");
    let ended = end(&mut place.latch(["release", "x", "--force"]));
    assert_eq!(ended.code, Some(0));
    assert!(ended.err.contains("warning: ") && ended.err.contains("--now"), "{ended:?}");
    assert!(!ended.out.contains("at the latest") && is_held(&place, "x"), "{ended:?}");
    assert_eq!(end(&mut place.latch(["release", "x", "--force", "--now"])).code, Some(0));
    assert!(!is_held(&place, "x"));
}

#[test]
fn an_engine_that_does_not_answer_still_gets_the_lesson() {
    let place = Place::new();
    std::fs::write(place.path("locks.db"), "this is no database ".repeat(100)).unwrap();
    assert_clean_error(&end(&mut place.latch(["release", "x"])), 64, "latch revoke takes");
    assert_clean_error(&end(&mut place.latch(["release", "x", "--force"])), 69, "locks.db");
}
