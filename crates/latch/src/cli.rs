//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, ValueEnum};

use crate::cell::CellOptions;
use crate::completions::CompletionsOptions;
use crate::duration;
use crate::elect::ElectOptions;
use crate::ls::LsOptions;
use crate::note::NoteOptions;
use crate::release::ReleaseOptions;
use crate::revoke::RevokeOptions;
use crate::status::StatusOptions;

/// Run a command under a lock, and inspect and revoke locks
#[derive(Debug, Parser)]
#[command(name = "latch", version, disable_help_subcommand = true)]
#[command(
    after_help = "Examples:\n  latch run nightly -- ./report.sh   run a command while holding the lock \"nightly\"\n  \
                  latch status nightly               show the holder and the queue\n  \
                  latch ls                           list every lock in use\n\n\
                  Every subcommand has its own --help."
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) target: TargetOptions,
    /// Print one JSON document on stdout, and errors and warnings as JSON lines on stderr
    #[arg(long, global = true, display_order = 500)]
    pub(crate) json: bool,
    /// Print no messages about waiting and no warnings of the engine; errors are still reported
    #[arg(long, short = 'q', global = true, display_order = 501)]
    pub(crate) quiet: bool,
    #[command(subcommand)]
    pub(crate) subcommand: Subcommand,
}

/// The subcommand and its options.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Subcommand {
    Run(RunOptions),
    Status(StatusOptions),
    Ls(LsOptions),
    Revoke(RevokeOptions),
    Release(ReleaseOptions),
    Cell(CellOptions),
    Elect(ElectOptions),
    /// Show the guarantees of every engine
    #[command(after_help = crate::engines::AFTER_HELP)]
    Engines,
    Completions(CompletionsOptions),
}

const ENGINE_HEADING: &str =
    "The engine that keeps the locks (default: $LATCH_URL_FILE, $LATCH_URL, or this user's own database)";

/// The engine that keeps the locks. Without any of these options: $LATCH_URL_FILE, $LATCH_URL, or this user's
/// own database.
#[derive(Args, Debug)]
pub(crate) struct TargetOptions {
    /// The engine's URL, for example sqlite:/path/locks.db (arguments show in ps: keep passwords in a
    /// --url-file)
    #[arg(long, global = true, help_heading = ENGINE_HEADING, value_name = "URL")]
    pub(crate) url: Option<String>,
    /// A file that contains the URL
    #[arg(long, global = true, help_heading = ENGINE_HEADING, value_name = "FILE")]
    pub(crate) url_file: Option<PathBuf>,
    /// The database shared by all users of this machine
    #[arg(long, global = true, help_heading = ENGINE_HEADING)]
    pub(crate) system: bool,
}

/// Run a command while holding a lock
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  latch run nightly -- ./report.sh             wait for the lock without a limit\n  \
                        latch run --no-wait nightly -- ./report.sh   exit with 75 if the lock is held\n  \
                        latch run --wait 30s migration -- ./migrate  exit with 124 if it is still held after 30 s\n\n\
                        Exit codes: the command's own; 75 busy, 124 timed out, 76 lost, 69 engine unreachable, \
                        64 usage, 126 and 127 the command cannot be run, 128+n ended by signal n.\n\n\
                        The command's environment has LATCH_NAME, LATCH_TOKEN (if the engine has tokens), LATCH_TTL, \
                        LATCH_URL (without its password) and LATCH_HELD, which lets a nested latch refuse to wait for a \
                        lock that this one holds.\n\n\
                        --json applies only to the messages of latch itself, on stderr; stdout is the command's."
)]
pub(crate) struct RunOptions {
    /// The lock: 1 to 512 bytes, no control characters
    pub(crate) name: String,
    /// Wait at most this long for the server and the lock: 30s, 5m, or a number of seconds [default: no
    /// limit]
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    pub(crate) wait: Option<Duration>,
    /// Do not wait, neither for the server nor for the lock
    #[arg(long, conflicts_with = "wait")]
    pub(crate) no_wait: bool,
    /// How long the lock stays held after its holder crashed or lost the connection
    #[arg(long, value_name = "TIME", value_parser = duration::parse, default_value = "30s")]
    pub(crate) ttl: Duration,
    /// Keep the lock at least this long, even if the command ends sooner, so that a machine whose clock is
    /// late does not run the same job again; latch exits only then, and the ttl is at least as long
    #[arg(long, value_name = "TIME", value_parser = duration::parse, conflicts_with = "keep_fd")]
    pub(crate) at_least: Option<Duration>,
    /// Action when the lock is lost
    #[arg(long, value_name = "WHAT", default_value = "kill")]
    pub(crate) on_lost: OnLost,
    /// How long the command may take to end after the lock is lost, before it is killed
    #[arg(long, value_name = "TIME", value_parser = duration::parse, default_value = "2s")]
    pub(crate) grace: Duration,
    /// Exit with this code if the lock is busy or the wait timed out
    #[arg(short = 'E', long = "conflict-exit-code", value_name = "N")]
    pub(crate) conflict_exit_code: Option<u8>,
    /// Become the command, which inherits the lock as with flock: it is held until the last child process has
    /// ended
    #[arg(long)]
    pub(crate) keep_fd: bool,
    #[command(flatten)]
    pub(crate) note: NoteOptions,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

impl RunOptions {
    /// The ttl, at least as long as `--at-least`, so that the lock lasts that long even after a crash.
    pub(crate) fn ttl(&self) -> Duration {
        self.ttl.max(self.at_least.unwrap_or_default())
    }
}

/// Action when the lock is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnLost {
    /// End the command, first with TERM
    Kill,
    /// Warn and let the command continue
    Warn,
}
