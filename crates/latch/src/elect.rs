//! `latch elect NAME -- CMD`: runs a command while this machine leads.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use latchwork::{Leadership, Wait};

use crate::cli::{OnLost, RunOptions};
use crate::duration;
use crate::failure::Failure;
use crate::note::NoteOptions;
use crate::output::Output;
use crate::run::{self, Held};
use crate::target::Target;
use crate::wait_report::News;

/// Run a command while being the leader; standbys wait for their turn
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
                  latch elect main --value web1:80 -- ./serve   runs ./serve on one machine at a time\n  \
                  latch cell watch main                         the term, and who leads\n  \
                  etcdctl elect -l main                         who leads, on etcd\n\n\
                  The command sees LATCH_NAME, LATCH_TOKEN (its term: greater than every earlier leader's), LATCH_TTL and \
                  LATCH_URL. Exit codes as those of latch run.")]
pub(crate) struct ElectOptions {
    /// The election: 1 to 512 bytes, no control characters
    name: String,
    /// What others are told of the leader: an address, a name
    #[arg(long, value_name = "VALUE", default_value = "")]
    value: OsString,
    /// Wait at most this long, for the server and to lead: 30s, 5m, or a number of seconds
    /// [default: as long as it takes]
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    wait: Option<Duration>,
    /// How long a leader that vanished may lead on
    #[arg(long, value_name = "TIME", value_parser = duration::parse, default_value = "30s")]
    ttl: Duration,
    /// How long the command may take to end after it does not lead any more, before it is killed
    #[arg(long, value_name = "TIME", value_parser = duration::parse, default_value = "2s")]
    grace: Duration,
    #[command(flatten)]
    note: NoteOptions,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// Runs the command; the exit code is its own if it ran to its end while leading.
pub(crate) fn run(options: &ElectOptions, target: &Target, output: Output) -> Result<u8, Failure> {
    let as_run = RunOptions {
        name: options.name.clone(),
        wait: options.wait,
        no_wait: false,
        ttl: options.ttl,
        on_lost: OnLost::Kill,
        grace: options.grace,
        conflict_exit_code: None,
        at_least: None,
        keep_fd: false,
        note: options.note.clone(),
        command: options.command.clone(),
    };
    run::run_while(&as_run, target, output, &Held::Leading(options.value.as_bytes()))
}

/// Waits until this one leads.
pub(crate) async fn campaign(
    client: &latchwork::Client,
    options: &RunOptions,
    (wait, news): (Wait, Arc<News>),
    value: &[u8],
) -> latchwork::Result<latchwork::Guard> {
    let election = client.election(&options.name).ttl(options.ttl()).wait(wait).stop_margin(options.grace);
    election.on_waiting(move |state| news.hear(state)).campaign(value).await.map(Leadership::into_guard)
}
