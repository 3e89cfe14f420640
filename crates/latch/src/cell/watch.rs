//! `latch cell watch NAME`.

use clap::Args;
use latchwork::LockName;

use super::view::{Reader, show_line};
use crate::connection::with_client;
use crate::failure::Failure;
use crate::output::Output;
use crate::target::Target;

/// Print the value and each later value, one per line, until interrupted (a cell that is not set is watched
/// too)
#[derive(Args, Debug)]
pub(super) struct WatchOptions {
    /// The cell: 1 to 512 bytes, no control characters
    name: String,
}

pub(super) fn run(options: &WatchOptions, target: &Target, output: Output) -> Result<u8, Failure> {
    let name = LockName::new(&options.name)?;
    with_client(target, output, async |client| {
        let mut states = client.cell(&options.name).watch();
        loop {
            let state = states.next().await?;
            if show_line(&name, &state, output)? == Reader::Closed {
                return Ok(0);
            }
        }
    })
}
