//! The promises of an engine, as data.

use std::fmt;
use std::time::Duration;

/// The promises of an engine. Printed in GUARANTEES.md, read by the conformance suite, and used by the core
/// to reject calls that the engine cannot carry out.
///
/// On no engine does a lock stop a former holder from writing to a resource that does not check the token.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Guarantees {
    /// The engine's name in URLs, errors and tables.
    pub engine: &'static str,
    /// The source of its tokens; `None` if it has none.
    pub tokens: Option<&'static str>,
    /// Whether tokens still rise after the stored state was destroyed.
    pub tokens_survive_data_loss: bool,
    /// Whether waiters are served in the order of their arrival.
    pub fair: bool,
    /// Whether it can list the waiters of a lock. Where it cannot,
    /// [`LockState::waiters`](crate::engine::LockState::waiters) is always empty.
    pub lists_waiters: bool,
    /// Whether the release of a lock wakes its waiters. Where it does not, they poll.
    pub pushes: bool,
    /// Whether the server reports the removal of a claim to its holder at once. Where it does not, the next
    /// renewal does. A claim that is watched for this (etcd, ZooKeeper) is watched from its first renewal on.
    pub tells_losses: bool,
    /// Whether the holder of a lock that was revoked at once gets [`Loss::Revoked`](crate::Loss::Revoked), if
    /// it renews before its lease would have ended. Where it does not, the loss looks like a removed claim or
    /// an ended session.
    pub tells_revocations: bool,
    /// Whether a claim lasts for as long as the session of its client, renewed or not. Where it does not, a
    /// claim that is not renewed ends with its lease.
    pub lives_with_session: bool,
    /// Whether readers may share a lock.
    pub read_write: bool,
    /// Whether a lock may have several permits.
    pub permits: bool,
    /// Whether it has versioned cells beside its locks, and with them elections.
    pub cells: bool,
    /// When the watchers of a cell learn of a change.
    pub watchers_told: &'static str,
    /// Whether a process may take a lock over from another with the same owner.
    pub takes_over: bool,
    /// Whether renewals go on while user code blocks every worker of its runtime.
    pub survives_blocked_runtime: bool,
    /// Whether a claim can outlive the program that acquired it (such as `latch run --keep-fd`), for as long
    /// as a process has the session's file descriptor.
    pub outlives_wrapper: bool,
    /// The shortest ttl.
    pub min_ttl: Duration,
    /// The longest ttl.
    pub max_ttl: Duration,
    /// The URL option that changes these limits, if there is one.
    pub ttl_option: Option<&'static str>,
    /// The time for which a killed holder blocks others.
    pub dead_holder: &'static str,
    /// Exclusion under each fault.
    pub faults: Faults,
    /// The most important limitation, in one sentence.
    pub beware: &'static str,
    /// Problems of the connected server or of the chosen options, each with its remedy.
    pub warnings: Vec<String>,
}

/// Exclusion under each fault.
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

/// The promise about exclusion under one fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promise {
    /// Two guards never both report a certain hold.
    Exclusive,
    /// Two guards may both report a certain hold for a while. Tokens stay in order, so a store that checks
    /// them is safe.
    FencedOnly,
    /// Exclusion breaks, and no token reveals it.
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
    /// The weakest promises, for an engine to raise where it promises more: no tokens, no fairness, exclusive
    /// locks only, and no exclusion under any fault.
    ///
    /// # Examples
    /// ```
    /// use latchwork::Guarantees;
    ///
    /// let mut promised = Guarantees::new("toy");
    /// promised.fair = true;
    /// assert!(promised.tokens.is_none());
    /// ```
    pub fn new(engine: &'static str) -> Self {
        Self {
            engine,
            tokens: None,
            tokens_survive_data_loss: false,
            fair: false,
            lists_waiters: false,
            pushes: false,
            tells_losses: false,
            tells_revocations: false,
            lives_with_session: false,
            read_write: false,
            permits: false,
            cells: false,
            watchers_told: "never",
            takes_over: false,
            survives_blocked_runtime: false,
            outlives_wrapper: false,
            min_ttl: Duration::from_secs(1),
            max_ttl: Duration::from_secs(60 * 60),
            ttl_option: None,
            dead_holder: "until its lease ends",
            faults: Faults {
                holder_crash: Promise::Breaks,
                holder_pause: Promise::Breaks,
                restart: Promise::Breaks,
                failover: Promise::Breaks,
                partition: Promise::Breaks,
                clock_step: Promise::Breaks,
                data_deleted: Promise::Breaks,
            },
            beware: "nothing is promised",
            warnings: Vec::new(),
        }
    }

    /// The yes-or-no promises, in the words of GUARANTEES.md and `latch engines`.
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

    /// The promises that are neither yes nor no.
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
