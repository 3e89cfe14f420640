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
mod printable;
mod release;
mod revoke;
mod run;
mod shell_command;
mod signals;
mod status;
mod supervisor;
mod target;
mod terminal;
mod tree;
mod usage;
mod voice;
mod wait_report;
mod wait_view;
mod waiting;

use clap::Parser;

use self::cli::{Cli, Subcommand};
use self::failure::Failure;
use self::target::Target;
use self::voice::Voice;

fn main() {
    // Before anything else: the guardian must turn deaf to signals as early as it can.
    if let Some(order) = guardian::Order::from_arguments() {
        order.carry_out();
        return;
    }
    let (voice, answered) = match Cli::try_parse() {
        Ok(cli) => (Voice::new(cli.json, cli.quiet), dispatch(&cli)),
        Err(error) => (Voice::wanted_by(std::env::args_os()), usage::answer(&error)),
    };
    let code = answered.unwrap_or_else(|failure| voice.report(&failure));
    std::process::exit(i32::from(code));
}

fn dispatch(cli: &Cli) -> Result<u8, Failure> {
    let voice = Voice::new(cli.json, cli.quiet);
    // Only what needs an engine looks for one: the others work with any settings.
    let on = |work: &dyn Fn(&Target) -> Result<u8, Failure>| {
        let target = Target::choose(&cli.target, voice)?;
        work(&target).map_err(|failure| failure.or_hint(|| target.hint()))
    };
    match &cli.subcommand {
        Subcommand::Run(options) => on(&|target| run::run(options, target, voice)),
        Subcommand::Status(options) => on(&|target| status::run(options, target, voice)),
        Subcommand::Ls(options) => on(&|target| ls::run(options, target, voice)),
        Subcommand::Release(options) => on(&|target| release::run(options, &cli.target, target, voice)),
        Subcommand::Revoke(options) => on(&|target| revoke::run(options, &cli.target, target, voice)),
        Subcommand::Cell(options) => on(&|target| cell::run(options, target, voice)),
        Subcommand::Elect(options) => on(&|target| elect::run(options, target, voice)),
        Subcommand::Engines => engines::run(voice),
        Subcommand::Completions(options) => completions::run(options),
    }
}
