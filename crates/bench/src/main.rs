//! Measures Latchwork's locks against their raw floors, interleaved in one run. A floor is the least that a
//! lock on the same server must do: the same statements or requests, sent without Latchwork.
//!
//! Every side of every workload runs in fresh child processes (this binary again, see `worker`), so that both
//! sides start from the same state and neither inherits the other's threads, caches or files. See README.md.

mod args;
mod contend;
mod engine_servers;
mod floors;
mod library_locks;
mod local_handoff;
mod metrics;
mod peers;
mod pin;
mod plan;
mod report;
mod requests;
mod rounds;
mod sample;
mod scale;
mod startup;
mod stats;
mod telemetry;
mod window;
mod worker;
mod worker_processes;

use std::process::ExitCode;

use clap::Parser;

use crate::args::{Args, Command};

/// Any error, with a message for the user.
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
    match &args.command {
        Some(Command::Worker(job)) => return worker::run(job),
        Some(Command::Features) => return telemetry::print_build(),
        Some(Command::Turns { crowd }) => return requests::work(crowd),
        _ => {}
    }
    let pinning = pin::apply(args.pin, args.pinned)?;
    match &args.command {
        Some(Command::Startup(startup)) => startup::run(startup, &pinning, args.json),
        Some(Command::Crowd(crowd)) => scale::run(crowd, &pinning, args.json),
        Some(Command::Held(held)) => scale::held_on_server(held, &pinning, args.json),
        Some(Command::Requests) => requests::run(&pinning, args.json),
        Some(Command::Telemetry(telemetry)) => telemetry::run(telemetry, &args, &pinning),
        Some(Command::Pass) => rounds::passes(&args, &pinning),
        _ => rounds::run(&args, &pinning),
    }
}
