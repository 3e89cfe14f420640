//! `latch completions SHELL`: prints the script for a shell's completion of subcommands and options.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::cli::Cli;
use crate::failure::Failure;
use crate::output;

/// Print a shell completion script
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
                  bash:  latch completions bash > ~/.local/share/bash-completion/completions/latch\n  \
                  zsh:   latch completions zsh > ~/.zfunc/_latch    (with ~/.zfunc in fpath)\n  \
                  fish:  latch completions fish > ~/.config/fish/completions/latch.fish\n\n\
                  Needs no engine. With --json the script is printed unchanged.")]
pub(crate) struct CompletionsOptions {
    /// The shell
    shell: Shell,
}

/// Prints the script.
pub(crate) fn run(options: &CompletionsOptions) -> Result<u8, Failure> {
    // Not directly to stdout: the generator panics if the reader closes the pipe.
    let mut script = Vec::new();
    clap_complete::generate(options.shell, &mut Cli::command(), "latch", &mut script);
    output::print(&String::from_utf8_lossy(&script))?;
    Ok(0)
}
