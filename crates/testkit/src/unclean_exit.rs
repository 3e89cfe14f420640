//! Processes that end without releasing their lock.

use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;

use crate::worker_process::binary;

/// The ttl of their locks, far longer than a test.
pub const TTL: Duration = Duration::from_secs(50);

/// How the process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// `main` returns with a guard and its client, in a current-thread runtime.
    CurrentThread,
    /// `main` returns with them in a multi-thread runtime.
    MultiThread,
    /// `main` returns with them, without async code.
    Blocking,
    /// A panic unwinds past them.
    Panic,
    /// They are dropped after `Runtime::shutdown_background`.
    ShutdownBackground,
    /// The runtime is dropped, with a task that has the guard. Then the client is dropped.
    RuntimeDropped,
    /// The client is dropped before the guard.
    GuardOutlivesClient,
    /// An `acquire` is dropped after its claim was sent and before the reply.
    AcquireDropped,
}

impl Ending {
    /// All endings.
    pub const ALL: [Self; 8] = [
        Self::CurrentThread,
        Self::MultiThread,
        Self::Blocking,
        Self::Panic,
        Self::ShutdownBackground,
        Self::RuntimeDropped,
        Self::GuardOutlivesClient,
        Self::AcquireDropped,
    ];

    /// The ending with this name.
    ///
    /// # Panics
    /// If no ending has this name.
    pub fn named(name: &str) -> Self {
        let named = Self::ALL.into_iter().find(|ending| format!("{ending:?}") == name);
        named.unwrap_or_else(|| panic!("there is no ending {name:?}"))
    }

    /// Runs a process with this ending until it exits.
    ///
    /// # Panics
    /// If the exit status is not the expected one.
    pub async fn run(self, url: &str, lock: &str) {
        let mut command = Command::new(binary("unclean_exit"));
        command.args([&format!("{self:?}"), url, lock]).stdin(Stdio::null()).kill_on_drop(true);
        let status = command.status().await.expect("the process starts");
        assert_eq!(status.success(), self != Self::Panic, "{self:?} ended with {status}");
    }
}
