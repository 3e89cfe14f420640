//! `COM_STMT_EXECUTE`: a prepared statement with its parameters.

use super::com_stmt_prepare::StatementId;
use super::packet_reader::put_lenenc_int;
use super::resultset_row::MYSQL_TYPE_LONGLONG;
use crate::engines::sql::SqlValue;

pub(super) const COM_STMT_EXECUTE: u8 = 0x17;
const CURSOR_TYPE_NO_CURSOR: u8 = 0;
const ITERATION_COUNT: u32 = 1;
const NEW_PARAMS_BIND_FLAG: u8 = 1;

const MYSQL_TYPE_NULL: u8 = 0x06;
const MYSQL_TYPE_BLOB: u8 = 0xfc;
const MYSQL_TYPE_VAR_STRING: u8 = 0xfd;

/// A parameter of a statement.
#[derive(Clone, Copy, Debug)]
pub(in crate::engines::mysql) enum MysqlParam<'a> {
    Null,
    Int(i64),
    Bytes(&'a [u8]),
    Text(&'a str),
}

impl<'a> From<&'a SqlValue> for MysqlParam<'a> {
    fn from(value: &'a SqlValue) -> Self {
        match value {
            SqlValue::Null => Self::Null,
            SqlValue::Int(number) => Self::Int(*number),
            SqlValue::Bytes(bytes) => Self::Bytes(bytes),
            SqlValue::Text(text) => Self::Text(text),
        }
    }
}

/// Adds the payload.
pub(super) fn put_com_stmt_execute(
    payload: &mut Vec<u8>,
    StatementId(statement_id): StatementId,
    values: &[MysqlParam<'_>],
) {
    payload.push(COM_STMT_EXECUTE);
    payload.extend_from_slice(&statement_id.to_le_bytes());
    payload.push(CURSOR_TYPE_NO_CURSOR);
    payload.extend_from_slice(&ITERATION_COUNT.to_le_bytes());
    if values.is_empty() {
        return;
    }
    // The bitmap of those that are NULL.
    for eight in values.chunks(8) {
        let bit =
            |(index, value): (usize, &MysqlParam<'_>)| u8::from(matches!(value, MysqlParam::Null)) << index;
        payload.push(eight.iter().enumerate().map(bit).sum());
    }
    payload.push(NEW_PARAMS_BIND_FLAG);
    for value in values {
        let param_type = match value {
            MysqlParam::Null => MYSQL_TYPE_NULL,
            MysqlParam::Int(_) => MYSQL_TYPE_LONGLONG,
            MysqlParam::Bytes(_) => MYSQL_TYPE_BLOB,
            MysqlParam::Text(_) => MYSQL_TYPE_VAR_STRING,
        };
        payload.extend_from_slice(&[param_type, 0]);
    }
    for value in values {
        match value {
            MysqlParam::Null => {}
            MysqlParam::Int(number) => payload.extend_from_slice(&number.to_le_bytes()),
            MysqlParam::Bytes(bytes) => put_lenenc_string(payload, bytes),
            MysqlParam::Text(text) => put_lenenc_string(payload, text.as_bytes()),
        }
    }
}

fn put_lenenc_string(payload: &mut Vec<u8>, bytes: &[u8]) {
    put_lenenc_int(payload, bytes.len());
    payload.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn com_stmt_execute_has_the_null_bitmap_types_and_values() {
        let mut packet = Vec::new();
        let values =
            [SqlValue::Null, SqlValue::Int(1), SqlValue::Bytes(vec![7; 3]), SqlValue::Text("a".to_owned())];
        put_com_stmt_execute(&mut packet, StatementId(5), &values.each_ref().map(MysqlParam::from));
        let head = [COM_STMT_EXECUTE, 5, 0, 0, 0, 0, 1, 0, 0, 0];
        let kinds = [
            0b0001,
            1,
            MYSQL_TYPE_NULL,
            0,
            MYSQL_TYPE_LONGLONG,
            0,
            MYSQL_TYPE_BLOB,
            0,
            MYSQL_TYPE_VAR_STRING,
            0,
        ];
        assert_eq!(
            packet,
            [&head[..], &kinds, &[1, 0, 0, 0, 0, 0, 0, 0], &[3, 7, 7, 7], &[1, b'a']].concat()
        );
        packet.clear();
        put_com_stmt_execute(&mut packet, StatementId(5), &[]);
        assert_eq!(packet, head, "nothing is said of values where there are none");
        packet.clear();
        put_com_stmt_execute(&mut packet, StatementId(5), &[MysqlParam::Null; 9]);
        assert_eq!(packet[head.len()..][..3], [0xff, 1, 1], "one byte for every eight");
    }
}
