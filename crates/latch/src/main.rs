//! `latch`: run a command under a lock that every process of this user, machine or cluster respects.

mod cli;
mod connection;
mod duration;
mod environment;
mod failure;
mod guardian;
mod keep_fd;
mod run;
mod signals;
mod supervisor;
mod target;
mod terminal;
mod tree;
mod waiting;

use clap::Parser;

use self::cli::{Cli, Subcommand};
use self::failure::Failure;
use self::target::Target;

fn main() {
    // Before anything else: the guardian must turn deaf to signals as early as it can.
    if let Some(order) = guardian::Order::from_arguments() {
        order.carry_out();
        return;
    }
    let code = dispatch().unwrap_or_else(|failure| failure.report());
    std::process::exit(i32::from(code));
}

fn dispatch() -> Result<u8, Failure> {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return cli::answer(&error),
    };
    let target = Target::choose(&cli.target)?;
    match cli.subcommand {
        Subcommand::Run(options) => run::run(&options, &target),
    }
}
