//! `latch`: run a command under a lock that every process of this user, machine or cluster respects, and look after
//! such locks.

mod cell;
mod claim_view;
mod cli;
mod completions;
mod connection;
mod daily;
mod duration;
mod elect;
mod engines;
mod environment;
mod failure;
mod fingerprint;
mod first_connection;
mod guarantees_view;
mod guardian;
mod json;
mod keep_fd;
mod layout;
mod lock_view;
mod ls;
mod nested;
mod note;
mod output;
mod process_tree;
mod release;
mod revoke;
mod run;
mod sanitize;
mod shell_command;
mod signals;
mod status;
mod supervisor;
mod target;
mod terminal;
mod usage;
mod wait_report;
mod wait_view;
mod waiting;

use clap::Parser;

use self::cli::{Cli, Subcommand};
use self::failure::Failure;
use self::output::Output;
use self::target::Target;

fn main() {
    // Before anything else: the guardian must turn deaf to signals as early as it can.
    if let Some(order) = guardian::Order::from_arguments() {
        order.carry_out();
        return;
    }
    let (output, answered) = match Cli::try_parse() {
        Ok(cli) => (Output::new(cli.json, cli.quiet), dispatch(&cli)),
        Err(error) => (Output::wanted_by(std::env::args_os()), usage::answer(&error)),
    };
    let code = answered.unwrap_or_else(|failure| output.report(&failure));
    std::process::exit(i32::from(code));
}

fn dispatch(cli: &Cli) -> Result<u8, Failure> {
    let output = Output::new(cli.json, cli.quiet);
    // Only what needs an engine looks for one: the others work with any settings.
    let on = |work: &dyn Fn(&Target) -> Result<u8, Failure>| {
        let target = Target::choose(&cli.target, output)?;
        work(&target).map_err(|failure| failure.or_hint(|| target.hint()))
    };
    match &cli.subcommand {
        Subcommand::Run(options) => on(&|target| run::run(options, target, output)),
        Subcommand::Status(options) => on(&|target| status::run(options, target, output)),
        Subcommand::Ls(options) => on(&|target| ls::run(options, target, output)),
        Subcommand::Release(options) => on(&|target| release::run(options, &cli.target, target, output)),
        Subcommand::Revoke(options) => on(&|target| revoke::run(options, &cli.target, target, output)),
        Subcommand::Cell(options) => on(&|target| cell::run(options, target, output)),
        Subcommand::Elect(options) => on(&|target| elect::run(options, target, output)),
        Subcommand::Engines => engines::run(output),
        Subcommand::Completions(options) => completions::run(options),
    }
}
