//! The command line.

use std::path::PathBuf;

use clap::{Parser, Subcommand};

use crate::Result;
use crate::plan::{Engine, Side, Workload};
use crate::scale::Part;

/// Measures Latchwork's locks against the raw floor, interleaved in one run.
#[derive(Debug, Parser)]
#[command(name = "bench", args_conflicts_with_subcommands = false)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    /// How often each side is measured
    #[arg(long, global = true, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rounds: u32,
    /// How long one side of one round takes
    #[arg(long, global = true, default_value_t = 500, value_parser = clap::value_parser!(u64).range(10..))]
    pub(crate) millis: u64,
    /// Which engine
    #[arg(long, default_value = "sqlite")]
    pub(crate) engine: Engine,
    /// Which workloads; all that apply to the engine if not given
    #[arg(long, value_delimiter = ',')]
    pub(crate) workload: Vec<Workload>,
    /// Which sides, as `--json` spells them; all if not given
    #[arg(long, value_delimiter = ',')]
    pub(crate) side: Vec<Side>,
    /// A python with python-redis-lock and redis-py, to measure these as well
    #[arg(long)]
    pub(crate) python: Option<PathBuf>,
    /// The `sql-peers` binary, built with --release from crates/bench/sql-peers, to measure other session locks as well
    #[arg(long)]
    pub(crate) sql_peers: Option<PathBuf>,
    /// Redis: time claims and releases apart in the server, by way of its slow log, which slows it down
    #[arg(long)]
    pub(crate) split: bool,
    /// Where databases and lock files go; the system's temporary folder if not given
    #[arg(long, global = true)]
    pub(crate) dir: Option<PathBuf>,
    /// One JSON object per line, for machines
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Run everything on core 0 by way of `taskset`: ratios of latencies are steadier there
    #[arg(long, global = true)]
    pub(crate) pin: bool,
    /// Set by `--pin` in the process it starts
    #[arg(long, global = true, hide = true)]
    pub(crate) pinned: bool,
}

impl Args {
    /// Whether this side was requested for.
    pub(crate) fn wants(&self, side: Side) -> bool {
        self.side.is_empty() || self.side.contains(&side)
    }
}

/// What to do instead of the workloads.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start-up: `latch run x -- true` against `flock FILE true`
    Startup(StartupOptions),
    /// Passes of one lock between tasks of one client, against `tokio::sync::Mutex`
    Pass,
    /// Many held locks, then many waiting tasks: what each costs
    Crowd(ScaleOptions),
    /// Many held locks on a server: what their renewal costs this process and the server, and whether any comes late
    Held(HeldOptions),
    /// Requests that redis gets for one acquisition of a contended lock
    Requests,
    /// What telemetry costs while nobody listens: this binary against one built without it
    Telemetry(TelemetryOptions),
    #[command(hide = true)]
    Worker(WorkerJob),
    /// One process of a crowd whose requests are counted
    #[command(hide = true)]
    Turns { crowd: Vec<String> },
    /// What this binary was built with
    #[command(hide = true)]
    Features,
}

/// What to start, and how often.
#[derive(Debug, clap::Args)]
pub(crate) struct StartupOptions {
    /// The `latch` binary, built with --release
    #[arg(long)]
    pub(crate) latch: PathBuf,
    /// How often each is started
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) runs: u32,
}

/// How large a crowd, and for how long.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ScaleOptions {
    /// How many locks are held, and how many tasks wait
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) locks: u32,
    /// How long the held locks are watched while they are only renewed
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) seconds: u64,
    /// Set in the child process of that part
    #[arg(long, hide = true)]
    pub(crate) part: Option<Part>,
}

/// How many locks are held on a server; without a number, those that goals are set for.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct HeldOptions {
    /// On redis, etcd or zookeeper
    #[arg(long, default_value = "redis")]
    pub(crate) engine: Engine,
    /// How many locks
    #[arg(long, requires = "ttl", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) locks: Option<u32>,
    /// Their ttl in seconds
    #[arg(long, requires = "locks", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) ttl: Option<u64>,
    /// How long they are watched while they are only renewed
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) seconds: u64,
    /// Set in the child process
    #[arg(long, hide = true)]
    pub(crate) url: Option<String>,
}

/// The other binary.
#[derive(Debug, clap::Args)]
pub(crate) struct TelemetryOptions {
    /// A `bench` that was built with --no-default-features
    #[arg(long)]
    pub(crate) without: PathBuf,
}

/// What one child process is to do.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct WorkerJob {
    #[arg(long)]
    pub(crate) workload: Workload,
    #[arg(long)]
    pub(crate) side: Side,
    /// Which of the workload's processes this is
    #[arg(long)]
    pub(crate) index: u32,
    /// Where this side's files of this round are
    #[arg(long)]
    pub(crate) folder: PathBuf,
    /// How long to measure
    #[arg(long)]
    pub(crate) millis: u64,
    /// The server, for sides that have one
    #[arg(long)]
    pub(crate) url: Option<String>,
}

impl WorkerJob {
    /// # Errors
    /// If this side has no server.
    pub(crate) fn url(&self) -> Result<&str> {
        Ok(self.url.as_deref().ok_or("this side needs the URL of a server")?)
    }
}
