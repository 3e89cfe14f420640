//! Errors of clap: prints help on stdout, or turns a usage error into a [`Failure`].

use std::env;

use clap::CommandFactory;
use clap::error::ErrorKind;

use crate::cli::Cli;
use crate::failure::{Failure, USAGE};

/// Prints help and the version. Everything else is a failure with one hint.
pub(crate) fn handle(error: &clap::Error) -> Result<u8, Failure> {
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        let _ = error.print();
        return Ok(0);
    }
    let text = error.render().to_string();
    let mut paragraphs = text.split("\n\n").map(one_line);
    let message = paragraphs.next().unwrap_or_default();
    let message = message.strip_prefix("error: ").unwrap_or(&message).to_owned();
    let tip = paragraphs.find_map(|line| line.strip_prefix("tip: ").map(str::to_owned));
    let hint = tip.or_else(subcommand_usage).unwrap_or_else(list_of_subcommands);
    Err(match error.kind() {
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => Failure::new(USAGE, "no subcommand given"),
        _ => Failure::new(USAGE, message),
    }
    .hint(hint))
}

/// The usage of the subcommand in the command line.
fn subcommand_usage() -> Option<String> {
    let mut latch = Cli::command();
    latch.build();
    let mut words = env::args_os().skip(1).take_while(|word| word != "--");
    let name =
        words.find_map(|word| latch.find_subcommand(&word).map(|found| found.get_name().to_owned()))?;
    let usage = one_line(&latch.find_subcommand_mut(&name)?.render_usage().to_string());
    let usage = usage.strip_prefix("Usage: ").unwrap_or(&usage);
    Some(format!("{usage}; more in latch {name} --help"))
}

fn list_of_subcommands() -> String {
    let latch = Cli::command();
    let names: Vec<_> = latch.get_subcommands().map(clap::Command::get_name).collect();
    format!("latch run NAME -- CMD; the subcommands are {}; more in latch --help", names.join(", "))
}

fn one_line(paragraph: &str) -> String {
    paragraph.split_whitespace().collect::<Vec<_>>().join(" ")
}
