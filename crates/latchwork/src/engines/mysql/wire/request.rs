//! What is asked, as bytes.

use super::bytes::put_length;
use crate::engines::sql::SqlValue as Value;

const QUERY: u8 = 0x03;
const PREPARE: u8 = 0x16;
const EXECUTE: u8 = 0x17;

/// What kinds of values there are.
const NULL: u8 = 0x06;
const NUMBER: u8 = 0x08;
const BYTES: u8 = 0xfc;
const TEXT: u8 = 0xfd;

/// A statement that a connection knows. Its values are always sent apart from its words.
#[derive(Clone, Copy, Debug)]
pub(in crate::engines::mysql) struct Prepared(pub(super) u32);

/// A value that goes with a statement.
#[derive(Clone, Copy, Debug)]
pub(in crate::engines::mysql) enum Param<'a> {
    Null,
    Int(i64),
    Bytes(&'a [u8]),
    Text(&'a str),
}

impl<'a> From<&'a Value> for Param<'a> {
    fn from(value: &'a Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Int(number) => Self::Int(*number),
            Value::Bytes(bytes) => Self::Bytes(bytes),
            Value::Text(text) => Self::Text(text),
        }
    }
}

/// A command without values: it must not have anything in it that somebody else wrote.
pub(super) fn put_query(packet: &mut Vec<u8>, text: &str) {
    packet.push(QUERY);
    packet.extend_from_slice(text.as_bytes());
}

pub(super) fn put_prepare(packet: &mut Vec<u8>, text: &str) {
    packet.push(PREPARE);
    packet.extend_from_slice(text.as_bytes());
}

pub(super) fn put_execute(packet: &mut Vec<u8>, Prepared(statement): Prepared, values: &[Param<'_>]) {
    packet.push(EXECUTE);
    packet.extend_from_slice(&statement.to_le_bytes());
    // No cursor; once.
    packet.extend_from_slice(&[0, 1, 0, 0, 0]);
    if values.is_empty() {
        return;
    }
    for eight in values.chunks(8) {
        let bit = |(index, value): (usize, &Param<'_>)| u8::from(matches!(value, Param::Null)) << index;
        packet.push(eight.iter().enumerate().map(bit).sum());
    }
    packet.push(1);
    for value in values {
        let kind = match value {
            Param::Null => NULL,
            Param::Int(_) => NUMBER,
            Param::Bytes(_) => BYTES,
            Param::Text(_) => TEXT,
        };
        packet.extend_from_slice(&[kind, 0]);
    }
    for value in values {
        match value {
            Param::Null => {}
            Param::Int(number) => packet.extend_from_slice(&number.to_le_bytes()),
            Param::Bytes(bytes) => put_bytes(packet, bytes),
            Param::Text(text) => put_bytes(packet, text.as_bytes()),
        }
    }
}

fn put_bytes(packet: &mut Vec<u8>, bytes: &[u8]) {
    put_length(packet, bytes.len());
    packet.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_goes_with_its_gaps_its_kinds_and_its_values() {
        let mut packet = Vec::new();
        let values = [Value::Null, Value::Int(1), Value::Bytes(vec![7; 3]), Value::Text("a".to_owned())];
        put_execute(&mut packet, Prepared(5), &values.each_ref().map(Param::from));
        let head = [EXECUTE, 5, 0, 0, 0, 0, 1, 0, 0, 0];
        let kinds = [0b0001, 1, NULL, 0, NUMBER, 0, BYTES, 0, TEXT, 0];
        assert_eq!(
            packet,
            [&head[..], &kinds, &[1, 0, 0, 0, 0, 0, 0, 0], &[3, 7, 7, 7], &[1, b'a']].concat()
        );
        packet.clear();
        put_execute(&mut packet, Prepared(5), &[]);
        assert_eq!(packet, head, "nothing is said of values where there are none");
        packet.clear();
        put_execute(&mut packet, Prepared(5), &[Param::Null; 9]);
        assert_eq!(packet[head.len()..][..3], [0xff, 1, 1], "one byte for every eight");
    }
}
