//! Helpers that these tests share: JSON output, background processes, inspections.

use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::support::{Ended, TestDir, end, eventually};

/// The one JSON document that a successful `latch` prints.
#[track_caller]
pub(crate) fn document(command: &mut Command) -> Value {
    let ended = end(command);
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ended:?}");
    only_line(&ended.out)
}

/// The JSON object on the only line.
#[track_caller]
pub(crate) fn only_line(text: &str) -> Value {
    assert_eq!(text.lines().count(), 1, "{text:?}");
    serde_json::from_str(text).unwrap()
}

/// A `latch` process without output that is killed at the end of its test.
pub(crate) struct Background(Child);

impl Background {
    pub(crate) fn start(mut command: Command) -> Self {
        Self(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }

    /// Holds `name`, which need not be valid as a file name.
    pub(crate) fn holding(dir: &TestDir, name: &str) -> Self {
        let holder = Self::start(dir.latch(["run", "--ttl", "1h", name, "--", "sleep", "60"]));
        eventually("it holds", || is_held(dir, name));
        holder
    }

    /// Waits for `name`, at the end of the queue.
    pub(crate) fn waiting(dir: &TestDir, name: &str) -> Self {
        let queue = || dir.inspect(name).map_or(0, |lock| lock.waiters.len());
        let before = queue();
        let waiter = Self::start(dir.script(name, &[], "true"));
        eventually("it waits", || queue() == before + 1);
        waiter
    }

    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(crate) fn is_held(dir: &TestDir, name: &str) -> bool {
    dir.inspect(name).is_some_and(|lock| !lock.holders.is_empty())
}

/// Runs every subcommand that inspects or revokes the lock `name`, with and without `--json`.
pub(crate) fn every_look(dir: &TestDir, name: &str) -> Vec<Ended> {
    let looks: [&[&str]; 5] = [
        &["status"],
        &["status", "--", name],
        &["ls"],
        &["release", "--", name],
        &["release", "--force", "--", name],
    ];
    let with_json = looks.map(|look| [&["--json"], look].concat());
    let plain = looks.map(<[_]>::to_vec);
    plain.into_iter().chain(with_json).map(|look| end(&mut dir.latch(look))).collect()
}
