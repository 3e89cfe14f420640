//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{Args, Parser, ValueEnum};

use crate::duration;
use crate::failure::{Failure, USAGE};

/// Run a command under a lock
#[derive(Debug, Parser)]
#[command(name = "latch", version, disable_help_subcommand = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) target: TargetOptions,
    #[command(subcommand)]
    pub(crate) subcommand: Subcommand,
}

/// What to do.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Subcommand {
    Run(RunOptions),
}

/// Where the locks are kept. Without any of these: $LATCH_URL_FILE, $LATCH_URL, or this user's own database.
#[derive(Args, Debug)]
pub(crate) struct TargetOptions {
    /// The engine, for example sqlite:/path/locks.db (arguments show in ps: keep passwords in a --url-file)
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) url: Option<String>,
    /// A file that contains the URL
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) url_file: Option<PathBuf>,
    /// The database shared by all users of this machine
    #[arg(long, global = true)]
    pub(crate) system: bool,
}

/// Run a command while holding a lock
#[derive(Args, Debug)]
#[command(
    after_help = "Exit codes: the command's own; 75 busy, 124 timed out, 76 lost, 69 engine unreachable, \
                        64 usage, 126 and 127 the command cannot be run, 128+n ended by signal n.\n\n\
                        The command sees LATCH_NAME, LATCH_TOKEN, LATCH_TTL and LATCH_URL (without its password)."
)]
pub(crate) struct RunOptions {
    /// The lock: 1 to 512 bytes, no control characters
    pub(crate) name: String,
    /// Wait at most this long: 30s, 5m, or a number of seconds [default: as long as it takes]
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    pub(crate) wait: Option<Duration>,
    /// Do not wait at all
    #[arg(long, conflicts_with = "wait")]
    pub(crate) no_wait: bool,
    /// How long a holder that vanished may block others
    #[arg(long, value_name = "TIME", value_parser = duration::parse, default_value = "30s")]
    pub(crate) ttl: Duration,
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
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

/// What to do with the command when the lock is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnLost {
    /// End the command, first gently
    Kill,
    /// Say so and let it run on
    Warn,
}

/// What clap has to say: help on stdout, or a usage error in our own form.
pub(crate) fn answer(error: &clap::Error) -> Result<u8, Failure> {
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        let _ = error.print();
        return Ok(0);
    }
    let text = error.render().to_string();
    let mut paragraphs = text.split("\n\n").map(one_line);
    let message = paragraphs.next().unwrap_or_default();
    let message = message.strip_prefix("error: ").unwrap_or(&message).to_owned();
    let tip = paragraphs.find_map(|line| line.strip_prefix("tip: ").map(str::to_owned));
    let hint =
        tip.unwrap_or_else(|| "latch run NAME [OPTIONS] -- CMD [ARGS]; more in latch run --help".to_owned());
    Err(match error.kind() {
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => Failure::new(USAGE, "no subcommand given"),
        _ => Failure::new(USAGE, message),
    }
    .hint(hint))
}

fn one_line(paragraph: &str) -> String {
    paragraph.split_whitespace().collect::<Vec<_>>().join(" ")
}
