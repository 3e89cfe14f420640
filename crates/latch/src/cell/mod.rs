//! `latch cell`: values with versions, shared by every process of a user, a machine or a cluster.

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
                  latch cell set config \"$(cat app.toml)\"   set the value, at any version\n  \
                  latch cell get config                     print the value and nothing else\n  \
                  latch cell watch config                   print each value as it is set, until interrupted\n  \
                  latch cell delete config                  delete the value, at any version\n\n\
                  Exit codes: 0 success; 1 not set, or not at the version of --if; 69 engine unreachable; 64 usage.")]
pub(crate) struct CellOptions {
    #[command(subcommand)]
    subcommand: CellSubcommand,
}

#[derive(Debug, Subcommand)]
enum CellSubcommand {
    Get(get::GetOptions),
    Set(set::SetOptions),
    Watch(watch::WatchOptions),
    Delete(delete::DeleteOptions),
}

/// Runs the subcommand.
pub(crate) fn run(options: &CellOptions, target: &Target, output: Output) -> Result<u8, Failure> {
    match &options.subcommand {
        CellSubcommand::Get(options) => get::run(options, target, output),
        CellSubcommand::Set(options) => set::run(options, target, output),
        CellSubcommand::Watch(options) => watch::run(options, target, output),
        CellSubcommand::Delete(options) => delete::run(options, target, output),
    }
}
