//! `latch cell delete NAME`.

use clap::Args;
use latchwork::{CellState, LockName, Version, Written};

use super::view::{CellView, not_at};
use crate::connection::with_client;
use crate::failure::{Failure, NOT_SET};
use crate::json;
use crate::target::Target;
use crate::voice::{self, Format, Voice};

/// Delete the value: the cell is not set any more
#[derive(Args, Debug)]
pub(super) struct DeleteOptions {
    /// The cell: 1 to 512 bytes, no control characters
    name: String,
    /// Only if this is its version, as `get --json` shows it [default: whatever it is]
    #[arg(long = "if", value_name = "VERSION")]
    seen: Option<Version>,
}

pub(super) fn run(options: &DeleteOptions, target: &Target, voice: Voice) -> Result<u8, Failure> {
    let name = LockName::new(&options.name)?;
    let was_set = with_client(target, voice, async |client| {
        let cell = client.cell(&options.name);
        let Some(seen) = options.seen else { return Ok(cell.delete().await?) };
        match cell.delete_if(seen).await? {
            Written::Done(_) => Ok(true),
            Written::Changed => Err(not_at(&name, seen)),
        }
    })?;
    match voice.format {
        Format::Json => voice::print(&json::line(&CellView::new(&name, &CellState::ABSENT)))?,
        Format::Text if was_set => {}
        Format::Text => return Err(Failure::not_set(format!("the cell {name:?} is not set"))),
    }
    Ok(if was_set { 0 } else { NOT_SET })
}
