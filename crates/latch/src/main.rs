//! `latch`: runs a command under a lock that every process of a user, a machine or a cluster respects, and
//! inspects and revokes such locks.

mod cell;
mod claim_view;
mod clap_error;
mod cli;
mod completions;
mod connection;
mod daily_warning;
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
mod lock_view;
mod ls;
mod note;
mod output;
mod process_tree;
mod release;
mod revoke;
mod run;
mod sanitize;
mod self_deadlock;
mod shell_command;
mod signals;
mod status;
mod supervisor;
mod target;
mod terminal;
mod text_layout;
mod wait;

use clap::Parser;

use self::cli::{Cli, Subcommand};
use self::failure::Failure;
use self::output::Output;
use self::target::Target;

fn main() {
    // Before anything else: the guardian must block signals as early as possible.
    if let Some(arguments) = guardian::GuardianArguments::parse() {
        arguments.run_guardian();
        return;
    }
    let (output, result) = match Cli::try_parse() {
        Ok(cli) => (Output::new(cli.json, cli.quiet), dispatch(&cli)),
        Err(error) => (Output::requested_by(std::env::args_os()), clap_error::handle(&error)),
    };
    let code = result.unwrap_or_else(|failure| output.report(&failure));
    std::process::exit(i32::from(code));
}

fn dispatch(cli: &Cli) -> Result<u8, Failure> {
    let output = Output::new(cli.json, cli.quiet);
    // Only subcommands that need an engine choose one: the others work with any settings.
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
