//! What clap has to say: help on stdout, or a usage error in our own form.

use std::env;

use clap::CommandFactory;
use clap::error::ErrorKind;

use crate::cli::Cli;
use crate::failure::{Failure, USAGE};

/// Help is an answer, everything else a failure with one hint.
pub(crate) fn answer(error: &clap::Error) -> Result<u8, Failure> {
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        let _ = error.print();
        return Ok(0);
    }
    let text = error.render().to_string();
    let mut paragraphs = text.split("\n\n").map(one_line);
    let message = paragraphs.next().unwrap_or_default();
    let message = message.strip_prefix("error: ").unwrap_or(&message).to_owned();
    let tip = paragraphs.find_map(|line| line.strip_prefix("tip: ").map(str::to_owned));
    let hint = tip.or_else(usage_of_the_subcommand).unwrap_or_else(what_there_is);
    Err(match error.kind() {
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => Failure::new(USAGE, "no subcommand given"),
        _ => Failure::new(USAGE, message),
    }
    .hint(hint))
}

/// How to call the subcommand that the command line names.
fn usage_of_the_subcommand() -> Option<String> {
    let mut latch = Cli::command();
    latch.build();
    let mut words = env::args_os().skip(1).take_while(|word| word != "--");
    let name =
        words.find_map(|word| latch.find_subcommand(&word).map(|found| found.get_name().to_owned()))?;
    let usage = one_line(&latch.find_subcommand_mut(&name)?.render_usage().to_string());
    let usage = usage.strip_prefix("Usage: ").unwrap_or(&usage);
    Some(format!("{usage}; more in latch {name} --help"))
}

fn what_there_is() -> String {
    let latch = Cli::command();
    let names: Vec<_> = latch.get_subcommands().map(clap::Command::get_name).collect();
    format!("latch run NAME -- CMD; there are {}; more in latch --help", names.join(", "))
}

fn one_line(paragraph: &str) -> String {
    paragraph.split_whitespace().collect::<Vec<_>>().join(" ")
}
