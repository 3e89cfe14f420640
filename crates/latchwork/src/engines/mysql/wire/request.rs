//! What is asked, as bytes.

use super::bytes::put_length;
use super::reply::Next;
use crate::engines::sql::Value;

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

/// A command without values: it must not have anything in it that somebody else wrote.
pub(super) fn query(text: &str) -> (Vec<u8>, Next) {
    ([&[QUERY], text.as_bytes()].concat(), Next::First { is_binary: false })
}

pub(super) fn prepare(text: &str) -> (Vec<u8>, Next) {
    ([&[PREPARE], text.as_bytes()].concat(), Next::FirstOfPrepared)
}

pub(super) fn execute(statement: Prepared, values: &[Value]) -> (Vec<u8>, Next) {
    let bytes = values.iter().map(|value| match value {
        Value::Bytes(bytes) => bytes.len(),
        Value::Text(text) => text.len(),
        Value::Null | Value::Int(_) => 0,
    });
    let mut packet = Vec::with_capacity(16 + 12 * values.len() + bytes.sum::<usize>());
    packet.push(EXECUTE);
    packet.extend(statement.0.to_le_bytes());
    // No cursor; once.
    packet.extend([0, 1, 0, 0, 0]);
    if !values.is_empty() {
        for eight in values.chunks(8) {
            let bit = |(index, value): (usize, &Value)| u8::from(*value == Value::Null) << index;
            packet.push(eight.iter().enumerate().map(bit).sum());
        }
        packet.push(1);
        for value in values {
            packet.extend([
                match value {
                    Value::Null => NULL,
                    Value::Int(_) => NUMBER,
                    Value::Bytes(_) => BYTES,
                    Value::Text(_) => TEXT,
                },
                0,
            ]);
        }
        for value in values {
            match value {
                Value::Null => {}
                Value::Int(number) => packet.extend(number.to_le_bytes()),
                Value::Bytes(bytes) => put_bytes(&mut packet, bytes),
                Value::Text(text) => put_bytes(&mut packet, text.as_bytes()),
            }
        }
    }
    (packet, Next::First { is_binary: true })
}

fn put_bytes(packet: &mut Vec<u8>, bytes: &[u8]) {
    put_length(packet, bytes.len());
    packet.extend(bytes);
}
