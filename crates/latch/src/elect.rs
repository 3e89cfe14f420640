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
use crate::run::{self, Holding};
use crate::target::Target;
use crate::wait::WaitUpdates;

/// Run a command while this process is the leader; standbys wait in a queue
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
                  latch elect main --value web1:80 -- ./serve   run ./serve on one machine at a time\n  \
                  latch cell watch main                         show the leader's term and value\n  \
                  etcdctl elect -l main                         show the leader, on etcd\n\n\
                  The command's environment has LATCH_NAME, LATCH_TOKEN (its term: greater than that of every earlier \
                  leader), LATCH_TTL and LATCH_URL. The exit codes are those of latch run.")]
pub(crate) struct ElectOptions {
    /// The election: 1 to 512 bytes, no control characters
    name: String,
    /// The value that others can read while this process leads: an address, a name
    #[arg(long, value_name = "VALUE", default_value = "")]
    value: OsString,
    /// Wait at most this long for the server and the leadership: 30s, 5m, or a number of seconds [default: no
    /// limit]
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    wait: Option<Duration>,
    /// How long the leadership lasts after the leader crashed or lost the connection
    #[arg(long, value_name = "TIME", value_parser = duration::parse, default_value = "30s")]
    ttl: Duration,
    /// How long the command may take to end after the leadership is lost, before it is killed
    #[arg(long, value_name = "TIME", value_parser = duration::parse, default_value = "2s")]
    grace: Duration,
    #[command(flatten)]
    note: NoteOptions,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// Runs the command. Returns the command's own exit code if it ended while this process was the leader.
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
    run::run_holding(&as_run, target, output, &Holding::Leadership(options.value.as_bytes()))
}

/// Waits until this process is the leader.
pub(crate) async fn campaign(
    client: &latchwork::Client,
    options: &RunOptions,
    (wait, updates): (Wait, Arc<WaitUpdates>),
    value: &[u8],
) -> latchwork::Result<latchwork::Guard> {
    let election = client.election(&options.name).ttl(options.ttl()).wait(wait).stop_margin(options.grace);
    election.on_waiting(move |state| updates.publish(state)).campaign(value).await.map(Leadership::into_guard)
}
