//! The previous release beside today's, on one lock, on every engine: fleets are upgraded one process at a
//! time.
//!
//! `./test latch-previous` builds the previous release from `crates/testkit/previous`.

#![allow(clippy::disallowed_methods, reason = "tests count their own time")]

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use latchwork::Guarantees;
use libtest_mimic::{Arguments, Trial};
use testkit::fixture::Kind;
use testkit::{Fixture, for_each_engine};

/// Longer than any wait here: the longest is a ttl of twenty seconds.
const LIMIT: Duration = Duration::from_secs(60);
/// A scheme of the same fixture, with other scripts.
const OTHER_KINDS: [&str; 1] = ["redis-setnx"];

fn main() {
    let arguments = Arguments::from_args();
    let mut trials = Vec::new();
    macro_rules! collect {
        ($fixture:ty) => {
            let kinds = <$fixture>::KINDS.iter().enumerate();
            for (_, kind) in kinds.filter(|(at, kind)| *at == 0 || OTHER_KINDS.contains(&kind.name)) {
                // Locks of one process.
                if kind.scheme != "memory" {
                    trials.push(Trial::test(kind.name, move || {
                        both_keep_each_other_out::<$fixture>(kind);
                        Ok(())
                    }));
                }
            }
        };
    }
    for_each_engine!(collect);
    libtest_mimic::run(&arguments, trials).exit();
}

fn both_keep_each_other_out<F: Fixture>(kind: &'static Kind) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.expect("a runtime");
    let fixture = runtime.block_on(F::begin_as(kind));
    let url = fixture.url().expect("processes share this engine");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let previous = std::env::var_os("LATCH_PREVIOUS").expect("./test latch-previous builds and names it");
    let latch = |program: PathBuf| Latch { program, url: url.clone(), folder: folder.path().to_owned() };
    let (previous, current) = (latch(previous.into()), latch(env!("CARGO_BIN_EXE_latch").into()));
    let promised = F::guarantees();
    for (first, second, names) in [
        (&previous, &current, ["old-first", "old-revoked", "old-cell"]),
        (&current, &previous, ["new-first", "new-revoked", "new-cell"]),
    ] {
        the_second_waits_for_the_first(first, second, names[0], &promised);
        the_second_revokes_the_first(first, second, names[1], &promised);
        if promised.cells {
            cells_have_one_version(first, second, names[2]);
        }
    }
    contenders_hold_one_at_a_time(&previous, &current, folder.path());
}

fn the_second_waits_for_the_first(first: &Latch, second: &Latch, lock: &str, promised: &Guarantees) {
    let mut holder = first.holds(lock, promised);
    let tried = second.run(&["run", "--no-wait", lock, "--", "true"]);
    assert_eq!(tried.status.code(), Some(75), "{tried:?}");
    let seen = second.succeeds(&["status", lock, "--json"]);
    assert!(seen.contains("\"held\":true"), "{seen}");
    let waiter = second.starts(lock, promised);
    if promised.lists_waiters {
        let began = Instant::now();
        while first.succeeds(&["status", lock, "--json"]).contains("\"waiters\":[]") {
            assert!(began.elapsed() < LIMIT, "the holder's release does not see the waiter of the other");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
    holder.releases();
    let mut waiter = waiter.granted();
    match (holder.token, waiter.token) {
        (Some(earlier), Some(later)) => assert!(later > earlier, "{later} after {earlier}"),
        (None, None) => {}
        tokens => panic!("one of them has no token: {tokens:?}"),
    }
    waiter.releases();
}

fn the_second_revokes_the_first(first: &Latch, second: &Latch, lock: &str, promised: &Guarantees) {
    let holder = first.holds(lock, promised);
    second.succeeds(&["revoke", lock, "--now", "--reason", "a test of two releases"]);
    // It may take it at once; the holder is told at its next renewal at the latest.
    second.succeeds(&["run", "--wait", "60", lock, "--", "true"]);
    assert_eq!(holder.ended(), Some(76), "the holder is told");
}

fn cells_have_one_version(first: &Latch, second: &Latch, cell: &str) {
    let version = first.succeeds(&["cell", "set", cell, "one"]);
    assert_eq!(second.succeeds(&["cell", "get", cell]).trim(), "one");
    second.succeeds(&["cell", "set", cell, "two", "--if", version.trim()]);
    assert_eq!(first.succeeds(&["cell", "get", cell]).trim(), "two");
    let late = first.run(&["cell", "set", cell, "three", "--if", version.trim()]);
    assert_eq!(late.status.code(), Some(1), "{late:?}");
}

/// Two of each kind.
fn contenders_hold_one_at_a_time(previous: &Latch, current: &Latch, folder: &Path) {
    const TURNS: usize = 5;
    // A folder can be made once: the second of two holders cannot.
    let turn = "mkdir inside || echo twice >> broken; echo \"$LATCH_TOKEN\" >> tokens; rmdir inside";
    let contenders: Vec<_> = [previous, current, previous, current]
        .into_iter()
        .map(|latch| {
            let mut command = latch.command(&[]);
            // A shell of its own: the variables name the program and the turn.
            let script = format!(
                "for i in $(seq {TURNS}); do \"$LATCH\" run contended -- sh -c \"$TURN\" || exit 1; done"
            );
            let program = command.get_program().to_owned();
            let mut shell = Command::new("sh");
            shell.args(["-c", &script]).env("LATCH", program).env("TURN", turn).current_dir(folder);
            shell.envs(command.get_envs().filter_map(|(key, value)| Some((key, value?))));
            command = shell;
            command.stderr(Stdio::piped()).spawn().expect("a shell")
        })
        .collect();
    for contender in contenders {
        let output = contender.wait_with_output().expect("it ends");
        assert!(output.status.success(), "{output:?}");
    }
    assert!(!folder.join("broken").exists(), "two held the lock at once");
    let tokens = fs::read_to_string(folder.join("tokens")).expect("written");
    let tokens: Vec<Option<u64>> = tokens.lines().map(|token| token.parse().ok()).collect();
    assert_eq!(tokens.len(), 4 * TURNS, "{tokens:?}");
    assert!(tokens.iter().all(Option::is_none) || tokens.is_sorted_by(|a, b| a < b), "{tokens:?}");
}

/// One release of the program, on the engine under test.
struct Latch {
    program: PathBuf,
    url: String,
    folder: PathBuf,
}

impl Latch {
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(arguments).env("LATCH_URL", &self.url).stdin(Stdio::null());
        // Warnings of engines, which are given once a day.
        command.env("XDG_STATE_HOME", &self.folder);
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("it runs")
    }

    /// Returns the standard output.
    fn succeeds(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).expect("text")
    }

    /// Starts a command under the lock, which ends when its standard input does.
    fn starts(&self, lock: &str, promised: &Guarantees) -> Waiter {
        let ttl = promised.min_ttl.max(Duration::from_secs(3)).as_secs().to_string();
        let script = "echo \"held $LATCH_TOKEN\"; read line; exit 0";
        let mut command = self.command(&["run", "--ttl", &ttl, lock, "--", "sh", "-c", script]);
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        Waiter(child.expect("it starts"))
    }

    fn holds(&self, lock: &str, promised: &Guarantees) -> Holder {
        self.starts(lock, promised).granted()
    }
}

/// A `latch run` that may not hold its lock yet.
struct Waiter(Child);

impl Waiter {
    /// Waits for the grant.
    fn granted(mut self) -> Holder {
        let mut line = String::new();
        BufReader::new(self.0.stdout.take().expect("piped")).read_line(&mut line).expect("text");
        let token = line.strip_prefix("held ").unwrap_or_else(|| {
            let mut errors = String::new();
            let _ = self.0.stderr.take().expect("piped").read_to_string(&mut errors);
            panic!("no grant, but {line:?}: {errors}")
        });
        Holder { token: token.trim().parse().ok(), child: self.0 }
    }
}

/// A `latch run` whose command runs. Ended, with its command, when it is dropped.
struct Holder {
    child: Child,
    token: Option<u64>,
}

impl Holder {
    fn releases(&mut self) {
        drop(self.child.stdin.take());
        assert!(self.child.wait().expect("it ends").success());
    }

    /// Its exit code, once it ended by itself.
    fn ended(mut self) -> Option<i32> {
        let began = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("it is our child") {
                return status.code();
            }
            assert!(began.elapsed() < LIMIT, "it goes on without its lock");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        // The command ends with its input, `latch` with its command.
        drop(self.child.stdin.take());
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
