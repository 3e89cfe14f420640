//! `latch cell delete NAME`.

use clap::Args;
use latchwork::{CellState, LockName, Version, Written};

use super::view::{CellView, version_mismatch};
use crate::connection::with_client;
use crate::failure::{Failure, NOT_SET};
use crate::json;
use crate::output::{self, Format, Output};
use crate::target::Target;

/// Delete the value, so that the cell is not set
#[derive(Args, Debug)]
pub(super) struct DeleteOptions {
    /// The cell: 1 to 512 bytes, no control characters
    name: String,
    /// Only if the cell is at this version, as `get --json` shows it [default: at any version]
    #[arg(long = "if", value_name = "VERSION")]
    expected: Option<Version>,
}

pub(super) fn run(options: &DeleteOptions, target: &Target, output: Output) -> Result<u8, Failure> {
    let name = LockName::new(&options.name)?;
    let was_set = with_client(target, output, async |client| {
        let cell = client.cell(&options.name);
        let Some(expected) = options.expected else { return Ok(cell.delete().await?) };
        match cell.delete_if(expected).await? {
            Written::Done(_) => Ok(true),
            Written::Changed => Err(version_mismatch(&name, expected)),
        }
    })?;
    match output.format {
        Format::Json => output::print(&json::line(&CellView::new(&name, &CellState::ABSENT)))?,
        Format::Text if was_set => {}
        Format::Text => return Err(Failure::not_set(format!("the cell {name:?} is not set"))),
    }
    Ok(if was_set { 0 } else { NOT_SET })
}
