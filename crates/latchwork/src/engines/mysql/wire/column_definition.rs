//! `Protocol::ColumnDefinition41`: how the values of a column are written in a row.

use super::WireError;
use super::packet_reader::protocol_error;

const UNSIGNED_FLAG: u8 = 0x20;

/// As much of it as a row is parsed with.
#[derive(Debug)]
pub(super) struct ColumnDefinition {
    pub(super) column_type: u8,
    pub(super) is_unsigned: bool,
}

impl ColumnDefinition {
    /// Skips the six names, which are of variable length, and parses the packet from its end: the length of
    /// the rest, character set (2 bytes), width (4), type, flags (2), decimals and two bytes of filler.
    ///
    /// # Errors
    /// If it is cut short.
    pub(super) fn parse(payload: &[u8]) -> Result<Self, WireError> {
        let [.., 0x0c, _, _, _, _, _, _, column_type, flags, _, _, _, _] = payload else {
            return Err(protocol_error());
        };
        Ok(Self { column_type: *column_type, is_unsigned: flags & UNSIGNED_FLAG != 0 })
    }
}
