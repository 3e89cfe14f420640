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
    /// Number of measurements of each side
    #[arg(long, global = true, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rounds: u32,
    /// Duration of one measurement, in milliseconds
    #[arg(long, global = true, default_value_t = 500, value_parser = clap::value_parser!(u64).range(10..))]
    pub(crate) millis: u64,
    /// The engine
    #[arg(long, default_value = "sqlite")]
    pub(crate) engine: Engine,
    /// The workloads [default: all that apply to the engine]
    #[arg(long, value_delimiter = ',')]
    pub(crate) workload: Vec<Workload>,
    /// The sides, with their names in `--json` [default: all]
    #[arg(long, value_delimiter = ',')]
    pub(crate) side: Vec<Side>,
    /// A python with python-redis-lock and redis-py, which are then measured too
    #[arg(long)]
    pub(crate) python: Option<PathBuf>,
    /// The `sql-peers` binary, built with --release from crates/bench/sql-peers, to measure the session locks
    /// of others too
    #[arg(long)]
    pub(crate) sql_peers: Option<PathBuf>,
    /// Redis: time claims and releases separately in the server, with its slow log, which slows the server
    /// down
    #[arg(long)]
    pub(crate) split: bool,
    /// The folder for databases and lock files [default: the system's temporary folder]
    #[arg(long, global = true)]
    pub(crate) dir: Option<PathBuf>,
    /// Print one JSON object per line
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Run everything on core 0, with `taskset`: ratios of latencies are more stable there
    #[arg(long, global = true)]
    pub(crate) pin: bool,
    /// Set by `--pin` in the process that it starts
    #[arg(long, global = true, hide = true)]
    pub(crate) pinned: bool,
}

impl Args {
    /// Whether this side is selected.
    pub(crate) fn wants(&self, side: Side) -> bool {
        self.side.is_empty() || self.side.contains(&side)
    }
}

/// A measurement other than the workloads.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start-up: `latch run x -- true` against `flock FILE true`
    Startup(StartupOptions),
    /// Passes of one lock between tasks of one client, against `tokio::sync::Mutex`
    Pass,
    /// The cost of many held locks, then of many waiting tasks
    Crowd(ScaleOptions),
    /// Many held locks on a server: what their renewals cost this process and the server, and whether any is
    /// late
    Held(HeldOptions),
    /// The requests to redis for one acquisition of a contended lock
    Requests,
    /// The cost of telemetry without a subscriber: this binary against one built without telemetry
    Telemetry(TelemetryOptions),
    #[command(hide = true)]
    Worker(WorkerJob),
    /// One process of a workload whose requests are counted
    #[command(hide = true)]
    Turns { crowd: Vec<String> },
    /// The features that this binary was built with
    #[command(hide = true)]
    Features,
}

/// The options of `bench startup`.
#[derive(Debug, clap::Args)]
pub(crate) struct StartupOptions {
    /// The `latch` binary, built with --release
    #[arg(long)]
    pub(crate) latch: PathBuf,
    /// Number of starts of each
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) runs: u32,
}

/// The options of `bench crowd`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ScaleOptions {
    /// Number of held locks, and number of waiting tasks
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) locks: u32,
    /// How long the held locks are observed while they are only renewed, in seconds
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) seconds: u64,
    /// Set in the child process of that part
    #[arg(long, hide = true)]
    pub(crate) part: Option<Part>,
}

/// The options of `bench held`. Without a number of locks, the cases with goals are run.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct HeldOptions {
    /// The engine: redis, etcd or zookeeper
    #[arg(long, default_value = "redis")]
    pub(crate) engine: Engine,
    /// Number of locks
    #[arg(long, requires = "ttl", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) locks: Option<u32>,
    /// Their ttl in seconds
    #[arg(long, requires = "locks", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) ttl: Option<u64>,
    /// How long they are observed while they are only renewed, in seconds
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) seconds: u64,
    /// Set in the child process
    #[arg(long, hide = true)]
    pub(crate) url: Option<String>,
}

/// The options of `bench telemetry`.
#[derive(Debug, clap::Args)]
pub(crate) struct TelemetryOptions {
    /// A `bench` that was built with --no-default-features
    #[arg(long)]
    pub(crate) without: PathBuf,
}

/// The job of one child process.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct WorkerJob {
    #[arg(long)]
    pub(crate) workload: Workload,
    #[arg(long)]
    pub(crate) side: Side,
    /// The index of this process in the workload
    #[arg(long)]
    pub(crate) index: u32,
    /// The folder for the files of this measurement
    #[arg(long)]
    pub(crate) folder: PathBuf,
    /// Duration of the measurement
    #[arg(long)]
    pub(crate) millis: u64,
    /// The URL of the server, for sides that have one
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
