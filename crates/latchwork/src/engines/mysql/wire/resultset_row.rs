//! `ProtocolText::ResultsetRow` and `ProtocolBinary::ResultsetRow`.

use super::WireError;
use super::column_definition::ColumnDefinition;
use super::packet_reader::{PacketReader, protocol_error};
use crate::engines::sql::SqlValue;

/// `NULL` in a row of text.
const TEXT_NULL: u8 = 0xfb;

const MYSQL_TYPE_DECIMAL: u8 = 0x00;
const MYSQL_TYPE_TINY: u8 = 0x01;
const MYSQL_TYPE_SHORT: u8 = 0x02;
const MYSQL_TYPE_LONG: u8 = 0x03;
pub(super) const MYSQL_TYPE_LONGLONG: u8 = 0x08;
const MYSQL_TYPE_INT24: u8 = 0x09;
const MYSQL_TYPE_YEAR: u8 = 0x0d;
const MYSQL_TYPE_VARCHAR: u8 = 0x0f;
const MYSQL_TYPE_BIT: u8 = 0x10;
/// The first of the types that are all sent as strings: JSON, NEWDECIMAL, ENUM, SET, blobs and strings.
const MYSQL_TYPE_JSON: u8 = 0xf5;

/// Appends the values of a row of text.
///
/// # Errors
/// If it is cut short.
pub(super) fn text_row(
    payload: &[u8],
    columns: &[ColumnDefinition],
    row: &mut Vec<SqlValue>,
) -> Result<(), WireError> {
    let mut reader = PacketReader(payload);
    for _ in columns {
        row.push(match reader.0.split_first() {
            Some((&TEXT_NULL, rest)) => {
                reader.0 = rest;
                SqlValue::Null
            }
            _ => SqlValue::Bytes(reader.lenenc_string()?.to_vec()),
        });
    }
    Ok(())
}

/// Appends the values of a binary row.
///
/// # Errors
/// If it is cut short, or has a value of another type.
pub(super) fn binary_row(
    payload: &[u8],
    columns: &[ColumnDefinition],
    row: &mut Vec<SqlValue>,
) -> Result<(), WireError> {
    let mut reader = PacketReader(payload.strip_prefix(&[0]).ok_or_else(protocol_error)?);
    // The first two bits of the bitmap are reserved.
    let null_bitmap = reader.bytes((columns.len() + 2).div_ceil(8))?;
    let is_null = |index: usize| null_bitmap[(index + 2) / 8] & 1 << ((index + 2) % 8) != 0;
    for (index, column) in columns.iter().enumerate() {
        row.push(if is_null(index) { SqlValue::Null } else { binary_value(&mut reader, column)? });
    }
    Ok(())
}

/// Integers and bytes. No statement of an engine returns times or floating-point numbers.
fn binary_value(reader: &mut PacketReader<'_>, column: &ColumnDefinition) -> Result<SqlValue, WireError> {
    let length = match column.column_type {
        MYSQL_TYPE_TINY => 1,
        MYSQL_TYPE_SHORT | MYSQL_TYPE_YEAR => 2,
        MYSQL_TYPE_LONG | MYSQL_TYPE_INT24 => 4,
        MYSQL_TYPE_LONGLONG => 8,
        MYSQL_TYPE_DECIMAL | MYSQL_TYPE_VARCHAR | MYSQL_TYPE_BIT | MYSQL_TYPE_JSON.. => {
            return Ok(SqlValue::Bytes(reader.lenenc_string()?.to_vec()));
        }
        other => return Err(WireError::ended(&format!("a column of the unsupported type {other:#x}"))),
    };
    let number = reader.fixed_int(length)? as i64;
    let unused_bits = 64 - 8 * length as u32;
    Ok(SqlValue::Int(if column.is_unsigned { number } else { number << unused_bits >> unused_bits }))
}
