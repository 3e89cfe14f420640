//! `latch completions SHELL`: what makes a shell complete subcommands and options.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::cli::Cli;
use crate::failure::Failure;
use crate::output;

/// Print a script that teaches a shell to complete latch
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
                  bash:  latch completions bash > ~/.local/share/bash-completion/completions/latch\n  \
                  zsh:   latch completions zsh > ~/.zfunc/_latch    (with ~/.zfunc in fpath)\n  \
                  fish:  latch completions fish > ~/.config/fish/completions/latch.fish\n\n\
                  Needs no engine. The script is printed as it is, also with --json.")]
pub(crate) struct CompletionsOptions {
    /// The shell
    shell: Shell,
}

/// Prints the script.
pub(crate) fn run(options: &CompletionsOptions) -> Result<u8, Failure> {
    // Not straight to stdout: the generator panics if somebody stops reading.
    let mut script = Vec::new();
    clap_complete::generate(options.shell, &mut Cli::command(), "latch", &mut script);
    output::print(&String::from_utf8_lossy(&script))?;
    Ok(0)
}
