//! `latch cell`: values with versions, which every process of this user, machine or cluster shares.

mod delete;
mod get;
mod set;
mod view;
mod watch;

use clap::{Args, Subcommand};

use crate::failure::Failure;
use crate::output::Output;
use crate::target::Target;

/// Read, set, watch or delete a value that all processes share
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
                  latch cell set config \"$(cat app.toml)\"   set it, whatever it was\n  \
                  latch cell get config                     the value, and nothing else\n  \
                  latch cell watch config                   each value as it is set, until interrupted\n  \
                  latch cell delete config                  not set any more, whatever it was\n\n\
                  Exit codes: 0; 1 not set, or not what --if said; 69 engine unreachable, 64 usage.")]
pub(crate) struct CellOptions {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Get(get::GetOptions),
    Set(set::SetOptions),
    Watch(watch::WatchOptions),
    Delete(delete::DeleteOptions),
}

/// Does it.
pub(crate) fn run(options: &CellOptions, target: &Target, output: Output) -> Result<u8, Failure> {
    match &options.what {
        What::Get(options) => get::run(options, target, output),
        What::Set(options) => set::run(options, target, output),
        What::Watch(options) => watch::run(options, target, output),
        What::Delete(options) => delete::run(options, target, output),
    }
}
