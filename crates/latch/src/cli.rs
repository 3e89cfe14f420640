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

/// Run a command under a lock, and look after locks
#[derive(Debug, Parser)]
#[command(name = "latch", version, disable_help_subcommand = true)]
#[command(
    after_help = "Examples:\n  latch run nightly -- ./report.sh   run a command while holding the lock \"nightly\"\n  \
                  latch status nightly               who holds it, who waits\n  \
                  latch ls                           every lock in use\n\n\
                  Every subcommand has its own --help."
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) target: TargetOptions,
    /// For programs: one JSON document on stdout, errors and warnings as JSON lines on stderr
    #[arg(long, global = true, display_order = 500)]
    pub(crate) json: bool,
    /// No messages about waiting, and no warnings of the engine; errors are still reported
    #[arg(long, short = 'q', global = true, display_order = 501)]
    pub(crate) quiet: bool,
    #[command(subcommand)]
    pub(crate) subcommand: Subcommand,
}

/// What to do.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Subcommand {
    Run(RunOptions),
    Status(StatusOptions),
    Ls(LsOptions),
    Revoke(RevokeOptions),
    Release(ReleaseOptions),
    Cell(CellOptions),
    Elect(ElectOptions),
    /// What every engine promises, and what it does not
    #[command(after_help = crate::engines::AFTER_HELP)]
    Engines,
    Completions(CompletionsOptions),
}

const WHERE: &str =
    "Where the locks are kept (default: $LATCH_URL_FILE, $LATCH_URL, or this user's own database)";

/// Where the locks are kept. Without any of these: $LATCH_URL_FILE, $LATCH_URL, or this user's own database.
#[derive(Args, Debug)]
pub(crate) struct TargetOptions {
    /// The engine, for example sqlite:/path/locks.db (arguments show in ps: keep passwords in a --url-file)
    #[arg(long, global = true, help_heading = WHERE, value_name = "URL")]
    pub(crate) url: Option<String>,
    /// A file that contains the URL
    #[arg(long, global = true, help_heading = WHERE, value_name = "FILE")]
    pub(crate) url_file: Option<PathBuf>,
    /// The database shared by all users of this machine
    #[arg(long, global = true, help_heading = WHERE)]
    pub(crate) system: bool,
}

/// Run a command while holding a lock
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  latch run nightly -- ./report.sh             waits its turn, as long as it takes\n  \
                        latch run --no-wait nightly -- ./report.sh   75 if somebody else has it\n  \
                        latch run --wait 30s migration -- ./migrate  124 if it did not come free\n\n\
                        Exit codes: the command's own; 75 busy, 124 timed out, 76 lost, 69 engine unreachable, \
                        64 usage, 126 and 127 the command cannot be run, 128+n ended by signal n.\n\n\
                        The command sees LATCH_NAME, LATCH_TOKEN (where the engine gives one), LATCH_TTL, LATCH_URL (without its password) and \
                        LATCH_HELD, by which a latch inside it knows what it must not wait for.\n\n\
                        --json changes only what latch itself says, on stderr; stdout is the command's."
)]
pub(crate) struct RunOptions {
    /// The lock: 1 to 512 bytes, no control characters
    pub(crate) name: String,
    /// Wait at most this long, for the server and for the lock: 30s, 5m, or a number of seconds
    /// [default: as long as it takes]
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    pub(crate) wait: Option<Duration>,
    /// Do not wait at all, neither for the server nor for the lock
    #[arg(long, conflicts_with = "wait")]
    pub(crate) no_wait: bool,
    /// How long a holder that vanished may block others
    #[arg(long, value_name = "TIME", value_parser = duration::parse, default_value = "30s")]
    pub(crate) ttl: Duration,
    /// Keep the lock at least this long, however soon the command ends, so that a machine whose clock is late does not run
    /// the same job again; latch stays until then, and the ttl is no shorter
    #[arg(long, value_name = "TIME", value_parser = duration::parse, conflicts_with = "keep_fd")]
    pub(crate) at_least: Option<Duration>,
    /// What to do with the command when the lock is lost
    #[arg(long, value_name = "WHAT", default_value = "kill")]
    pub(crate) on_lost: OnLost,
    /// How long the command may take to end after the lock is lost, before it is killed
    #[arg(long, value_name = "TIME", value_parser = duration::parse, default_value = "2s")]
    pub(crate) grace: Duration,
    /// Exit with this code if the lock is busy or the wait timed out
    #[arg(short = 'E', long = "conflict-exit-code", value_name = "N")]
    pub(crate) conflict_exit_code: Option<u8>,
    /// Become the command and let it inherit the lock, as flock does: held until its last child is gone
    #[arg(long)]
    pub(crate) keep_fd: bool,
    #[command(flatten)]
    pub(crate) note: NoteOptions,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

impl RunOptions {
    /// A lock that is to be kept for a while must last as long after a crash.
    pub(crate) fn ttl(&self) -> Duration {
        self.ttl.max(self.at_least.unwrap_or_default())
    }
}

/// What to do with the command when the lock is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnLost {
    /// End the command, first gently
    Kill,
    /// Say so and let it run on
    Warn,
}
