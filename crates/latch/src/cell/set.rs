//! `latch cell set NAME VALUE`.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

use clap::Args;
use latchwork::{CellState, LockName, Version, Written};

use super::view::{CellView, version_mismatch};
use crate::connection::with_client;
use crate::failure::Failure;
use crate::json;
use crate::output::{self, Format, Output};
use crate::target::Target;

/// Set the value and print its version
#[derive(Args, Debug)]
pub(super) struct SetOptions {
    /// The cell: 1 to 512 bytes, no control characters
    name: String,
    /// The value: at most 512 KiB (arguments show in ps)
    value: OsString,
    /// Only if the cell is at this version, as `get --json` shows it; 0: only if it is not set [default: at
    /// any version]
    #[arg(long = "if", value_name = "VERSION")]
    expected: Option<Version>,
}

pub(super) fn run(options: &SetOptions, target: &Target, output: Output) -> Result<u8, Failure> {
    let name = LockName::new(&options.name)?;
    let value = options.value.as_bytes();
    let version = with_client(target, output, async |client| {
        let cell = client.cell(&options.name);
        let Some(expected) = options.expected else { return Ok(cell.set(value).await?) };
        match cell.set_if(expected, value).await? {
            Written::Done(version) => Ok(version),
            Written::Changed => Err(version_mismatch(&name, expected)),
        }
    })?;
    match output.format {
        Format::Text => output::print(&format!("{version}\n"))?,
        Format::Json => {
            let state = CellState::new(version, value.to_vec());
            output::print(&json::line(&CellView::new(&name, &state)))?;
        }
    }
    Ok(0)
}
