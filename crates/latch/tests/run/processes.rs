//! Exclusion, signals, and the end of the command's processes.

use std::fs;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use nix::sys::signal::Signal;

use crate::support::{PATIENCE, TestDir, end, eventually, running_with, runs};

#[test]
fn commands_under_one_lock_exclude_each_other() {
    let dir = TestDir::new();
    fs::write(dir.path("count"), "0\n").unwrap();
    let increment = "read n < count; sleep 0.01; echo $((n + 1)) > count";
    let started: Vec<_> = (0..10).map(|_| dir.script("x", &[], increment).spawn().unwrap()).collect();
    for mut child in started {
        assert!(child.wait().unwrap().success());
    }
    assert_eq!(dir.read("count"), "10\n");
}

#[test]
fn tokens_rise_from_run_to_run() {
    let dir = TestDir::new();
    let tokens: Vec<u64> = (0..5)
        .map(|_| end(&mut dir.script("x", &[], "echo $LATCH_TOKEN")).out.trim().parse().unwrap())
        .collect();
    assert!(tokens.is_sorted_by(|a, b| a < b), "{tokens:?}");
}

#[test]
fn the_command_sees_its_lock_and_can_nest_another() {
    let dir = TestDir::new();
    let inner = format!(
        "{} run inner --ttl 2500ms -- sh -c 'echo $LATCH_NAME $LATCH_TTL'",
        env!("CARGO_BIN_EXE_latch")
    );
    let script = format!("echo $LATCH_NAME $LATCH_TTL $LATCH_URL; cd /; {inner}; echo $LATCH_NAME");
    let ended = end(&mut dir.script("outer", &["--url", "sqlite:locks.db"], &script));
    let url = format!("sqlite:{}", fs::canonicalize(dir.path(".")).unwrap().join("locks.db").display());
    assert_eq!(ended.out, format!("outer 30 {url}\ninner 2.5\nouter\n"), "{ended:?}");
    assert!(!fs::exists("/locks.db").unwrap());
}

#[test]
fn the_command_starts_with_the_signal_state_it_would_have_without_latch() {
    let dir = TestDir::new();
    let look = ["grep", "-E", "^Sig(Blk|Ign):", "/proc/self/status"];
    let without = end(Command::new(look[0]).args(&look[1..]));
    let with = end(&mut dir.latch(["run", "x", "--"].into_iter().chain(look)));
    assert!(with.out.contains("SigBlk:\t0000000000000000"), "{with:?}");
    assert_eq!(with.out, without.out);
}

#[test]
fn a_signal_ignored_at_the_start_stays_ignored() {
    let dir = TestDir::new();
    let latch = dir.script("x", &[], "kill -HUP $PPID; kill -HUP $$; echo alive");
    let mut shell = Command::new("sh");
    shell.args(["-c", "trap '' HUP; exec \"$0\" \"$@\""]).arg(latch.get_program()).args(latch.get_args());
    shell.env("LATCH_URL", dir.url());
    let ended = end(&mut shell);
    assert_eq!((ended.code, ended.out.as_str()), (Some(0), "alive\n"), "{ended:?}");
}

#[test]
fn a_signal_reaches_the_whole_group() {
    let dir = TestDir::new();
    for (signal, code) in [(Signal::SIGTERM, 143), (Signal::SIGHUP, 129), (Signal::SIGINT, 130)] {
        let name = format!("{signal}");
        // A pipeline starts the grandchild, because the background job of a non-interactive shell ignores INT
        // and QUIT.
        let holder = dir.hold(&name, &[], &format!("sh -c 'echo $$ > {name}.pid; exec sleep 60' | cat"));
        let grandchild = dir.pid(&format!("{name}.pid"));
        holder.signal(signal);
        assert_eq!(holder.finish().code, Some(code));
        eventually("the grandchild is gone", || !runs(grandchild));
    }
}

#[test]
fn a_command_that_handles_the_signal_keeps_its_lock_until_it_ends() {
    let dir = TestDir::new();
    let script = "trap 'echo caught; sleep 0.3; echo cleaned > cleaned; exit 3' TERM; touch ready; while :; do sleep 0.05; done";
    let holder = dir.hold("x", &[], script);
    eventually("the trap is set", || dir.path("ready").exists());
    holder.signal(Signal::SIGTERM);
    let next = end(&mut dir.script("x", &[], "cat cleaned"));
    assert_eq!(next.out, "cleaned\n", "the next holder starts after the clean-up");
    let ended = holder.finish();
    assert_eq!((ended.code, ended.out.as_str()), (Some(3), "caught\n"));
}

#[test]
fn processes_that_outlive_the_command_are_reported() {
    let dir = TestDir::new();
    let ended = end(&mut dir.script("x", &[], "sleep 60 > /dev/null 2>&1 & echo $! > left.pid; exit 5"));
    let left = dir.pid("left.pid");
    assert_eq!(ended.code, Some(5));
    assert!(ended.err.contains("--keep-fd") && runs(left), "{ended:?}");
    nix::sys::signal::kill(left, Signal::SIGKILL).unwrap();
}

#[test]
fn nothing_of_latch_is_left_after_a_run() {
    let dir = TestDir::new();
    assert_eq!(end(&mut dir.script("x", &[], "true")).code, Some(0));
    eventually("the guardian is gone", || running_with(&dir.path("").display().to_string()).is_empty());
    assert!(dir.inspect("x").is_none());
}

#[test]
fn killing_latch_ends_the_command_and_its_children_before_the_next_holder_starts() {
    let dir = TestDir::new();
    // The first ignores every signal it can, the third leaves group and session, the fourth drops its
    // environment.
    let script = "trap '' TERM INT HUP; sleep 61 & echo $! > 1.pid; sleep 62 & echo $! > 2.pid; \
                  setsid sh -c 'echo $$ > 3.pid; exec sleep 63' & \
                  sh -c 'echo $$ > 4.pid; exec env -i sleep 64' & echo $$ > 0.pid; wait";
    let holder = dir.hold("x", &[], script);
    let victims: Vec<_> = (0..5).map(|n| dir.pid(&format!("{n}.pid"))).collect();
    assert!(victims.iter().all(|id| runs(*id)));
    let probe =
        victims.iter().map(|id| format!("grep -s '^State:.[^ZX]' /proc/{id}/status; ")).collect::<String>();
    let next = dir.script("x", &[], &probe).stdout(Stdio::piped()).spawn().unwrap();
    eventually("the next waits", || dir.inspect("x").is_some_and(|lock| lock.waiters.len() == 1));
    holder.signal(Signal::SIGKILL);
    let next = next.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&next.stdout), "", "still running when the next holder started");
}

#[test]
fn killing_the_outer_latch_ends_the_inner_command_too() {
    let dir = TestDir::new();
    let inner =
        format!("{} run inner -- sh -c 'echo $$ > inner.pid; exec sleep 60'", env!("CARGO_BIN_EXE_latch"));
    let holder = dir.hold("outer", &[], &inner);
    let inner = dir.pid("inner.pid");
    holder.signal(Signal::SIGKILL);
    for name in ["outer", "inner"] {
        let next = end(&mut dir.script(
            name,
            &["--wait", "20s"],
            &format!("grep -s '^State:.[^ZX]' /proc/{inner}/status"),
        ));
        assert_eq!(next.out, "", "{name}: still running");
    }
}

#[test]
fn killing_latch_at_any_moment_of_its_start_leaves_no_command_without_the_lock() {
    let dir = TestDir::new();
    let (mut before, mut after) = (0, 0);
    // Each run is killed a little later than the one before it, until enough runs had started their command.
    // How late that is depends on the machine.
    for attempt in 0..1_000 {
        let mark = format!("attempt-{attempt}-of-{}", dir.path("").display());
        let script = format!("touch reached-{attempt}; : {mark}; sleep 60; :");
        let mut latch = dir.script("x", &[], &script).process_group(0).spawn().unwrap();
        std::thread::sleep(Duration::from_micros(attempt * 250));
        latch.kill().unwrap();
        latch.wait().unwrap();
        dir.with_client(async |client| {
            let guard = client.lock("x").wait(PATIENCE).acquire().await.unwrap();
            for _ in 0..3 {
                let left = running_with(&mark);
                assert!(left.iter().all(|(_, program)| program != "sh"), "attempt {attempt}: {left:?}");
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            guard.release().await.unwrap();
        });
        match dir.path(&format!("reached-{attempt}")).exists() {
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
    let dir = TestDir::new();
    let holder = dir.hold("x", &[], "ps -o pgid= -p $$ | tr -d ' ' > guardian.pid; sleep 60");
    let guardian = dir.pid("guardian.pid");
    eventually("it has closed the other files", || {
        fs::read_dir(format!("/proc/{guardian}/fd")).unwrap().count() == 3
    });
    let target =
        |number| fs::read_link(format!("/proc/{guardian}/fd/{number}")).unwrap().display().to_string();
    assert!(target(0).starts_with("socket:") && target(1).ends_with(".fifo") && target(2) == "/dev/null");
    let status = fs::read_to_string(format!("/proc/{guardian}/status")).unwrap();
    let blocked = status.lines().find_map(|line| line.strip_prefix("SigBlk:\t")).unwrap();
    assert!(blocked.starts_with("fffffffe7"), "it must block the group's signals: {blocked}");
    drop(holder);
}

#[test]
fn a_guardian_that_was_killed_is_replaced() {
    let dir = TestDir::new();
    let holder = dir.hold(
        "x",
        &[],
        "echo $$ > command.pid; ps -o pgid= -p $$ | tr -d ' ' > guardian.pid; sleep 60; :",
    );
    let (guardian, command) = (dir.pid("guardian.pid"), dir.pid("command.pid"));
    nix::sys::signal::kill(guardian, Signal::SIGKILL).unwrap();
    let replacement = format!("guardian\u{0}{guardian}\u{0}");
    eventually("another guardian has started", || !running_with(&replacement).is_empty());
    holder.signal(Signal::SIGKILL);
    let next = end(&mut dir.script("x", &[], &format!("grep -s '^State:.[^ZX]' /proc/{command}/status")));
    assert_eq!(next.out, "", "still running when the next holder started");
}
