//! Measures Latchwork's locks against the raw floor of what they stand on, interleaved in one run.
//!
//! Every side of every workload runs in fresh child processes (this binary again, see `worker`), so that both sides
//! start from the same state and neither inherits the other's threads, caches or files. See README.md.

mod args;
mod contend;
mod fleet;
mod floors;
mod metrics;
mod ours;
mod pin;
mod plan;
mod report;
mod rounds;
mod startup;
mod stats;
mod turn;
mod window;
mod worker;

use std::process::ExitCode;

use clap::Parser;

use crate::args::{Args, Command};

/// Whatever went wrong, for a person to read.
type Failure = Box<dyn std::error::Error + Send + Sync>;
type Result<T> = std::result::Result<T, Failure>;

fn main() -> ExitCode {
    match run(Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("bench: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: Args) -> Result<()> {
    if let Some(Command::Worker(job)) = &args.command {
        return worker::run(job);
    }
    let pinning = pin::settle(args.pin, args.pinned)?;
    match &args.command {
        Some(Command::Startup(startup)) => startup::run(startup, &pinning, args.json),
        _ => rounds::run(&args, &pinning),
    }
}
