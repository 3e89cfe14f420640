//! What an engine promises, as data.

use std::fmt;
use std::time::Duration;

/// What an engine promises. Printed in GUARANTEES.md, read by the conformance suite, and used by the core to refuse
/// what an engine cannot do.
///
/// On no engine does a lock stop a former holder from writing to a resource that does not check the token.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Guarantees {
    /// The engine's name in URLs, errors and tables.
    pub engine: &'static str,
    /// Where its tokens come from; `None` if it has none.
    pub tokens: Option<&'static str>,
    /// Whether tokens still rise after the stored state was destroyed.
    pub tokens_survive_data_loss: bool,
    /// Whether waiters are served in the order of their arrival.
    pub fair: bool,
    /// Whether it can tell who waits for a lock. Where it cannot,
    /// [`LockState::waiters`](crate::engine::LockState::waiters) is always empty.
    pub lists_waiters: bool,
    /// Whether waiters are woken by the release instead of polling.
    pub pushes: bool,
    /// Whether the server tells a holder that its claim was removed, instead of leaving it to the next
    /// renewal. A claim that is watched for this (etcd, ZooKeeper) is watched from its first renewal on.
    pub tells_losses: bool,
    /// Whether a holder whose lock was taken away at once hears [`Loss::Revoked`](crate::Loss::Revoked), if it asks
    /// before its lease would have ended. Where it does not, the claim looks removed, or its session ended.
    pub tells_revocations: bool,
    /// Whether a claim lasts for as long as its client's session lives, renewed or not. Where it does not, a claim that
    /// nobody renews ends with its lease.
    pub lives_with_session: bool,
    /// Whether readers may share a lock.
    pub read_write: bool,
    /// Whether a lock may have several permits.
    pub permits: bool,
    /// Whether it has versioned cells beside its locks, and with them elections.
    pub cells: bool,
    /// When a watcher of a cell is told of a change.
    pub watchers_told: &'static str,
    /// Whether a process may take a lock over from another with the same owner.
    pub takes_over: bool,
    /// Whether user code that blocks every worker of its runtime leaves renewals running.
    pub survives_blocked_runtime: bool,
    /// Whether a claim can live as long as a process that inherited the session's file descriptor.
    pub outlives_wrapper: bool,
    /// The shortest ttl.
    pub min_ttl: Duration,
    /// The longest ttl.
    pub max_ttl: Duration,
    /// The URL option that changes these, if there is one.
    pub ttl_option: Option<&'static str>,
    /// How long others wait after a holder was killed.
    pub dead_holder: &'static str,
    /// Exclusion under each fault.
    pub faults: Faults,
    /// What else a user must know, in one sentence.
    pub beware: &'static str,
    /// What is wrong with this very server or choice, and what to do about it; known once connected.
    pub warnings: Vec<String>,
}

/// What exclusion looks like under each fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Faults {
    /// The holder's process is killed.
    pub holder_crash: Promise,
    /// The holder is paused for longer than its lease.
    pub holder_pause: Promise,
    /// The server, or the machine, restarts.
    pub restart: Promise,
    /// A replica takes over.
    pub failover: Promise,
    /// The network between client and engine, or inside the engine, is cut.
    pub partition: Promise,
    /// The engine's wall clock is set.
    pub clock_step: Promise,
    /// The stored state is deleted under a holder.
    pub data_deleted: Promise,
}

/// What holds under a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promise {
    /// Two guards never both say "certain".
    Exclusive,
    /// Two guards may both say "certain" for a while; tokens stay in order, so a store that checks them is safe.
    FencedOnly,
    /// Exclusion breaks, and there is no token to notice it by.
    Breaks,
    /// The fault cannot happen to this engine.
    NotApplicable,
}

impl fmt::Display for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Exclusive => "exclusive",
            Self::FencedOnly => "fenced only",
            Self::Breaks => "breaks",
            Self::NotApplicable => "-",
        })
    }
}

impl Guarantees {
    /// What it can do, each with the words of GUARANTEES.md and `latch engines`.
    pub fn capabilities(&self) -> [(&'static str, bool); 14] {
        [
            ("tokens", self.tokens.is_some()),
            ("tokens rise after data loss", self.tokens_survive_data_loss),
            ("fair queue", self.fair),
            ("lists waiters", self.lists_waiters),
            ("wakes waiters", self.pushes),
            ("tells a loss at once", self.tells_losses),
            ("tells a revocation", self.tells_revocations),
            ("readers and writers", self.read_write),
            ("permits", self.permits),
            ("cells, elections", self.cells),
            ("owners", self.takes_over),
            ("renews beside blocked code", self.survives_blocked_runtime),
            ("ends with its session", self.lives_with_session),
            ("latch run --keep-fd", self.outlives_wrapper),
        ]
    }

    /// What is no yes or no, in words.
    pub fn details(&self) -> [(&'static str, String); 5] {
        [
            ("token", self.tokens.unwrap_or("none").to_owned()),
            ("ttl", format!("{} to {}", in_words(self.min_ttl), in_words(self.max_ttl))),
            ("after the holder was killed, others wait", self.dead_holder.to_owned()),
            ("watchers of cells are told", self.watchers_told.to_owned()),
            ("beware", self.beware.to_owned()),
        ]
    }
}

impl Faults {
    /// Each fault, with the words of GUARANTEES.md and `latch engines`.
    pub fn named(&self) -> [(&'static str, Promise); 7] {
        [
            ("holder killed", self.holder_crash),
            ("holder paused past its lease", self.holder_pause),
            ("server or machine restarts", self.restart),
            ("failover to a replica", self.failover),
            ("network cut", self.partition),
            ("wall clock set", self.clock_step),
            ("state deleted under a holder", self.data_deleted),
        ]
    }
}

fn in_words(ttl: Duration) -> String {
    match ttl.as_secs() {
        0 => format!("{} ms", ttl.as_millis()),
        seconds if seconds % 3600 == 0 => format!("{} h", seconds / 3600),
        seconds => format!("{seconds} s"),
    }
}
