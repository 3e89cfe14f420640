//! Exclusion, signals, and what happens to the command's processes.

use std::fs;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use nix::sys::signal::Signal;

use crate::support::{PATIENCE, Place, end, eventually, running_with, runs};

#[test]
fn commands_under_one_lock_exclude_each_other() {
    let place = Place::new();
    fs::write(place.path("count"), "0\n").unwrap();
    let increment = "read n < count; sleep 0.01; echo $((n + 1)) > count";
    let started: Vec<_> = (0..10).map(|_| place.script("x", &[], increment).spawn().unwrap()).collect();
    for mut child in started {
        assert!(child.wait().unwrap().success());
    }
    assert_eq!(place.read("count"), "10\n");
}

#[test]
fn tokens_rise_from_run_to_run() {
    let place = Place::new();
    let tokens: Vec<u64> = (0..5)
        .map(|_| end(&mut place.script("x", &[], "echo $LATCH_TOKEN")).out.trim().parse().unwrap())
        .collect();
    assert!(tokens.is_sorted_by(|a, b| a < b), "{tokens:?}");
}

#[test]
fn the_command_sees_its_lock_and_can_nest_another() {
    let place = Place::new();
    let inner = format!(
        "{} run inner --ttl 2500ms -- sh -c 'echo $LATCH_NAME $LATCH_TTL'",
        env!("CARGO_BIN_EXE_latch")
    );
    let script = format!("echo $LATCH_NAME $LATCH_TTL $LATCH_URL; cd /; {inner}; echo $LATCH_NAME");
    let ended = end(&mut place.script("outer", &["--url", "sqlite:locks.db"], &script));
    let url = format!("sqlite:{}", fs::canonicalize(place.path(".")).unwrap().join("locks.db").display());
    assert_eq!(ended.out, format!("outer 30 {url}\ninner 2.5\nouter\n"), "{ended:?}");
    assert!(!fs::exists("/locks.db").unwrap());
}

#[test]
fn the_command_starts_with_the_signal_state_it_would_have_without_latch() {
    let place = Place::new();
    let look = ["grep", "-E", "^Sig(Blk|Ign):", "/proc/self/status"];
    let without = end(Command::new(look[0]).args(&look[1..]));
    let with = end(&mut place.latch(["run", "x", "--"].into_iter().chain(look)));
    assert!(with.out.contains("SigBlk:\t0000000000000000"), "{with:?}");
    assert_eq!(with.out, without.out);
}

#[test]
fn a_signal_ignored_at_the_start_stays_ignored() {
    let place = Place::new();
    let latch = place.script("x", &[], "kill -HUP $PPID; kill -HUP $$; echo alive");
    let mut shell = Command::new("sh");
    shell.args(["-c", "trap '' HUP; exec \"$0\" \"$@\""]).arg(latch.get_program()).args(latch.get_args());
    shell.env("LATCH_URL", place.url());
    let ended = end(&mut shell);
    assert_eq!((ended.code, ended.out.as_str()), (Some(0), "alive\n"), "{ended:?}");
}

#[test]
fn a_signal_reaches_the_whole_group() {
    let place = Place::new();
    for (signal, code) in [(Signal::SIGTERM, 143), (Signal::SIGHUP, 129), (Signal::SIGINT, 130)] {
        let name = format!("{signal}");
        // The background job of a non-interactive shell ignores INT and QUIT, so a pipeline stands for the grandchild.
        let holder = place.hold(&name, &[], &format!("sh -c 'echo $$ > {name}.pid; exec sleep 60' | cat"));
        let grandchild = place.pid(&format!("{name}.pid"));
        holder.signal(signal);
        assert_eq!(holder.finish().code, Some(code));
        eventually("the grandchild is gone", || !runs(grandchild));
    }
}

#[test]
fn a_command_that_handles_the_signal_keeps_its_lock_until_it_ends() {
    let place = Place::new();
    let script = "trap 'echo caught; sleep 0.3; echo cleaned > cleaned; exit 3' TERM; touch ready; while :; do sleep 0.05; done";
    let holder = place.hold("x", &[], script);
    eventually("the trap is set", || place.path("ready").exists());
    holder.signal(Signal::SIGTERM);
    let next = end(&mut place.script("x", &[], "cat cleaned"));
    assert_eq!(next.out, "cleaned\n", "the next holder starts after the clean-up");
    let ended = holder.finish();
    assert_eq!((ended.code, ended.out.as_str()), (Some(3), "caught\n"));
}

#[test]
fn processes_left_behind_are_mentioned() {
    let place = Place::new();
    let ended = end(&mut place.script("x", &[], "sleep 60 > /dev/null 2>&1 & echo $! > left.pid; exit 5"));
    let left = place.pid("left.pid");
    assert_eq!(ended.code, Some(5));
    assert!(ended.err.contains("--keep-fd") && runs(left), "{ended:?}");
    nix::sys::signal::kill(left, Signal::SIGKILL).unwrap();
}

#[test]
fn nothing_of_latch_is_left_after_a_run() {
    let place = Place::new();
    assert_eq!(end(&mut place.script("x", &[], "true")).code, Some(0));
    eventually("the guardian is gone", || running_with(&place.path("").display().to_string()).is_empty());
    assert!(place.inspect("x").is_none());
}

#[test]
fn killing_latch_ends_the_command_and_its_children_before_the_next_holder_starts() {
    let place = Place::new();
    // The first ignores what can be ignored, the third leaves group and session, the fourth drops its environment.
    let script = "trap '' TERM INT HUP; sleep 61 & echo $! > 1.pid; sleep 62 & echo $! > 2.pid; \
                  setsid sh -c 'echo $$ > 3.pid; exec sleep 63' & \
                  sh -c 'echo $$ > 4.pid; exec env -i sleep 64' & echo $$ > 0.pid; wait";
    let holder = place.hold("x", &[], script);
    let victims: Vec<_> = (0..5).map(|n| place.pid(&format!("{n}.pid"))).collect();
    assert!(victims.iter().all(|id| runs(*id)));
    let probe =
        victims.iter().map(|id| format!("grep -s '^State:.[^ZX]' /proc/{id}/status; ")).collect::<String>();
    let next = place.script("x", &[], &probe).stdout(Stdio::piped()).spawn().unwrap();
    eventually("the next waits", || place.inspect("x").is_some_and(|lock| lock.waiters.len() == 1));
    holder.signal(Signal::SIGKILL);
    let next = next.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&next.stdout), "", "still running when the next holder started");
}

#[test]
fn killing_the_outer_latch_ends_the_inner_command_too() {
    let place = Place::new();
    let inner =
        format!("{} run inner -- sh -c 'echo $$ > inner.pid; exec sleep 60'", env!("CARGO_BIN_EXE_latch"));
    let holder = place.hold("outer", &[], &inner);
    let inner = place.pid("inner.pid");
    holder.signal(Signal::SIGKILL);
    for name in ["outer", "inner"] {
        let next = end(&mut place.script(
            name,
            &["--wait", "20s"],
            &format!("grep -s '^State:.[^ZX]' /proc/{inner}/status"),
        ));
        assert_eq!(next.out, "", "{name}: still running");
    }
}

#[test]
fn killing_latch_at_any_moment_of_its_start_leaves_no_command_without_the_lock() {
    let place = Place::new();
    let (mut before, mut after) = (0, 0);
    // Each is killed a little later than the one before it, until enough of them had started their command: how long that
    // takes is the machine's affair.
    for attempt in 0..1_000 {
        let mark = format!("attempt-{attempt}-of-{}", place.path("").display());
        let script = format!("touch reached-{attempt}; : {mark}; sleep 60; :");
        let mut latch = place.script("x", &[], &script).process_group(0).spawn().unwrap();
        std::thread::sleep(Duration::from_micros(attempt * 250));
        latch.kill().unwrap();
        latch.wait().unwrap();
        place.with_client(async |client| {
            let guard = client.lock("x").wait(PATIENCE).acquire().await.unwrap();
            for _ in 0..3 {
                let left = running_with(&mark);
                assert!(left.iter().all(|(_, program)| program != "sh"), "attempt {attempt}: {left:?}");
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            guard.release().await.unwrap();
        });
        match place.path(&format!("reached-{attempt}")).exists() {
            true => after += 1,
            false => before += 1,
        }
        if attempt >= 50 && after >= 10 {
            break;
        }
    }
    assert!(
        before >= 1 && after >= 10,
        "not around the start of the command: {before} before, {after} after"
    );
}

#[test]
fn the_guardian_keeps_nothing_but_its_socket_and_the_session() {
    let place = Place::new();
    let holder = place.hold("x", &[], "ps -o pgid= -p $$ | tr -d ' ' > guardian.pid; sleep 60");
    let guardian = place.pid("guardian.pid");
    eventually("it closed the rest", || fs::read_dir(format!("/proc/{guardian}/fd")).unwrap().count() == 3);
    let target =
        |number| fs::read_link(format!("/proc/{guardian}/fd/{number}")).unwrap().display().to_string();
    assert!(target(0).starts_with("socket:") && target(1).ends_with(".fifo") && target(2) == "/dev/null");
    let status = fs::read_to_string(format!("/proc/{guardian}/status")).unwrap();
    let blocked = status.lines().find_map(|line| line.strip_prefix("SigBlk:\t")).unwrap();
    assert!(blocked.starts_with("fffffffe7"), "deaf to the group's signals: {blocked}");
    drop(holder);
}

#[test]
fn a_guardian_that_was_killed_is_replaced() {
    let place = Place::new();
    let holder = place.hold(
        "x",
        &[],
        "echo $$ > command.pid; ps -o pgid= -p $$ | tr -d ' ' > guardian.pid; sleep 60; :",
    );
    let (guardian, command) = (place.pid("guardian.pid"), place.pid("command.pid"));
    nix::sys::signal::kill(guardian, Signal::SIGKILL).unwrap();
    let replacement = format!("guardian\u{0}{guardian}\u{0}");
    eventually("another takes its place", || !running_with(&replacement).is_empty());
    holder.signal(Signal::SIGKILL);
    let next = end(&mut place.script("x", &[], &format!("grep -s '^State:.[^ZX]' /proc/{command}/status")));
    assert_eq!(next.out, "", "still running when the next holder started");
}
