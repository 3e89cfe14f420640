//! A cell as `latch` prints it, as text or as JSON.

use std::io::{self, IsTerminal, Write};

use latchwork::{CellState, LockName, Version};
use serde::Serialize;

use crate::failure::{Failure, NO_OUTPUT};
use crate::json;
use crate::output::{Format, Output};
use crate::sanitize::sanitize;

/// A cell as JSON.
#[derive(Debug, Serialize)]
pub(super) struct CellView<'a> {
    name: &'a str,
    set: bool,
    /// A string: the number may not fit a double.
    version: String,
    /// `None` if the cell is not set, or if the value is not UTF-8.
    value: Option<&'a str>,
    /// The bytes of a value that is not UTF-8.
    value_hex: Option<String>,
}

impl<'a> CellView<'a> {
    pub(super) fn new(name: &'a LockName, state: &'a CellState) -> Self {
        let value = state.text().ok().flatten();
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        Self {
            name: name.as_str(),
            set: state.is_set(),
            version: state.version.to_string(),
            value,
            value_hex: state.bytes().filter(|_| value.is_none()).map(hex),
        }
    }
}

/// Whether the reader of stdout still reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reader {
    Open,
    Closed,
}

/// Prints the value unchanged; on a terminal, sanitized.
pub(super) fn show(value: &[u8]) -> Result<Reader, Failure> {
    match io::stdout().is_terminal() {
        true => write(format!("{}\n", sanitize(&String::from_utf8_lossy(value))).as_bytes()),
        false => write(value),
    }
}

/// Prints one of several values, on a line of its own.
pub(super) fn show_line(name: &LockName, state: &CellState, output: Output) -> Result<Reader, Failure> {
    match (output.format, state.bytes()) {
        (Format::Json, _) => write(json::line(&CellView::new(name, state)).as_bytes()),
        (Format::Text, Some(value)) => {
            write(format!("{}\n", sanitize(&String::from_utf8_lossy(value))).as_bytes())
        }
        (Format::Text, None) => {
            output.notice(&format!("the cell {name:?} is not set"));
            Ok(Reader::Open)
        }
    }
}

/// Another process has changed the cell, or the version is wrong.
pub(super) fn version_mismatch(name: &LockName, expected: Version) -> Failure {
    let message = format!("the cell {name:?} is not at version {expected}; it was not changed");
    Failure::not_set(message).hint(format!("latch cell get --json {name}"))
}

fn write(bytes: &[u8]) -> Result<Reader, Failure> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        Ok(()) => Ok(Reader::Open),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(Reader::Closed),
        Err(error) => Err(Failure::new(NO_OUTPUT, format!("cannot write to stdout: {error}"))),
    }
}
