//! `latch cell get NAME`.

use clap::Args;
use latchwork::LockName;

use super::view::{CellView, show};
use crate::connection::with_client;
use crate::failure::{Failure, NOT_SET};
use crate::json;
use crate::output::{self, Format, Output};
use crate::target::Target;

/// Print the value and nothing else
#[derive(Args, Debug)]
pub(super) struct GetOptions {
    /// The cell: 1 to 512 bytes, no control characters
    name: String,
}

pub(super) fn run(options: &GetOptions, target: &Target, output: Output) -> Result<u8, Failure> {
    // Before the engine is opened: an invalid name must not create a database.
    let name = LockName::new(&options.name)?;
    let state = with_client(target, output, async |client| Ok(client.cell(&options.name).get().await?))?;
    if output.format == Format::Json {
        output::print(&json::line(&CellView::new(&name, &state)))?;
        return Ok(if state.is_set() { 0 } else { NOT_SET });
    }
    let Some(value) = state.bytes() else {
        return Err(Failure::not_set(format!("the cell {name:?} is not set")));
    };
    show(value)?;
    Ok(0)
}
