//! The subcommands that inspect and revoke locks, as a user runs them. Every test has a database of its own.

mod cell;
mod closed_output;
mod completions;
mod engines;
mod help;
mod helpers;
mod hostile;
mod json;
mod ls;
#[path = "../run/pty.rs"]
#[allow(dead_code, reason = "shared with the tests of latch run, which use all of it")]
mod pty;
mod release;
mod revoke;
mod status;
#[path = "../run/support.rs"]
#[allow(dead_code, reason = "shared with the tests of latch run, which use all of it")]
mod support;
