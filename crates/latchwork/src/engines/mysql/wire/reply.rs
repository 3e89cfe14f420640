//! Answers, packet by packet.

use super::Trouble;
use super::bytes::{Reader, strange};
use crate::engines::sql::Value;

/// What came back.
#[derive(Debug, Default)]
pub(in crate::engines::mysql) struct Reply {
    pub(in crate::engines::mysql) rows: Vec<Vec<Value>>,
    /// How many rows matched, whether they were changed by it or not.
    pub(in crate::engines::mysql) matched: u64,
    /// What `LAST_INSERT_ID(...)` was in this statement. Only if something matched: otherwise it is that of an earlier one.
    pub(in crate::engines::mysql) insert_id: u64,
    /// The number of a statement that was prepared.
    pub(super) statement: u32,
}

/// What is expected of the next packet.
#[derive(Debug)]
pub(super) enum Next {
    /// The answer to something prepared (binary rows) or written out (rows of text).
    First {
        is_binary: bool,
    },
    FirstOfPrepared,
    /// What values and columns are called, which nobody asked for.
    Skip(u32),
    Columns(Vec<Column>, u64, bool),
    EndOfColumns(Vec<Column>, bool),
    Rows(Vec<Column>, bool),
}

#[derive(Debug)]
pub(super) struct Column {
    kind: u8,
    is_unsigned: bool,
}

/// An answer that is arriving.
#[derive(Debug)]
pub(super) struct Arriving {
    next: Next,
    reply: Reply,
}

impl Arriving {
    pub(super) fn new(next: Next) -> Self {
        Self { next, reply: Reply::default() }
    }

    /// Takes a packet. `Some`: it was the last.
    ///
    /// # Errors
    /// The connection cannot be used any more. That the server refused is an answer.
    pub(super) fn take(&mut self, packet: &[u8]) -> Result<Option<Result<Reply, Trouble>>, Trouble> {
        let is_end = packet.first() == Some(&0xfe) && packet.len() < 9;
        if packet.first() == Some(&0xff) {
            return Ok(Some(Err(refusal(&packet[1..])?)));
        }
        self.next = match std::mem::replace(&mut self.next, Next::Skip(0)) {
            Next::First { is_binary } => match packet.first() {
                Some(0x00) => {
                    self.done(packet)?;
                    return Ok(Some(Ok(std::mem::take(&mut self.reply))));
                }
                _ => Next::Columns(Vec::new(), Reader(packet).length()?, is_binary),
            },
            Next::FirstOfPrepared => {
                let mut reader = Reader(packet.strip_prefix(&[0]).ok_or_else(strange)?);
                self.reply.statement = reader.number(4)? as u32;
                let (columns, values) = (reader.number(2)? as u32, reader.number(2)? as u32);
                // Each list has an end of its own.
                let packets = |count: u32| if count == 0 { 0 } else { count + 1 };
                Next::Skip(packets(columns) + packets(values))
            }
            Next::Skip(left) => Next::Skip(left.saturating_sub(1)),
            Next::Columns(mut columns, count, is_binary) => {
                columns.push(column(packet)?);
                match columns.len() as u64 == count {
                    true => Next::EndOfColumns(columns, is_binary),
                    false => Next::Columns(columns, count, is_binary),
                }
            }
            Next::EndOfColumns(columns, is_binary) if is_end => Next::Rows(columns, is_binary),
            Next::EndOfColumns(..) => return Err(strange()),
            Next::Rows(..) if is_end => return Ok(Some(Ok(std::mem::take(&mut self.reply)))),
            Next::Rows(columns, is_binary) => {
                let row = if is_binary { binary_row(packet, &columns)? } else { text_row(packet, &columns)? };
                self.reply.rows.push(row);
                Next::Rows(columns, is_binary)
            }
        };
        let is_done = matches!(self.next, Next::Skip(0));
        Ok(is_done.then(|| Ok(std::mem::take(&mut self.reply))))
    }

    fn done(&mut self, packet: &[u8]) -> Result<(), Trouble> {
        let mut reader = Reader(&packet[1..]);
        self.reply.matched = reader.length()?;
        self.reply.insert_id = reader.length()?;
        Ok(())
    }
}

/// What the server refused, and why: its number, the state of the standard, its words.
pub(super) fn refusal(packet: &[u8]) -> Result<Trouble, Trouble> {
    let mut reader = Reader(packet);
    let code = reader.number(2)? as u16;
    let words = match reader.0.split_first() {
        Some((b'#', rest)) => rest.get(5..).unwrap_or_default(),
        _ => reader.0,
    };
    Ok(Trouble::Refused { code, words: String::from_utf8_lossy(words).into_owned() })
}

fn column(packet: &[u8]) -> Result<Column, Trouble> {
    let mut reader = Reader(packet);
    for _ in 0..6 {
        reader.text()?;
    }
    // The length of what follows, character set, width.
    reader.take(1 + 2 + 4)?;
    let kind = reader.byte()?;
    let flags = reader.number(2)?;
    Ok(Column { kind, is_unsigned: flags & 0x20 != 0 })
}

fn text_row(packet: &[u8], columns: &[Column]) -> Result<Vec<Value>, Trouble> {
    let mut reader = Reader(packet);
    let mut row = Vec::with_capacity(columns.len());
    for _ in columns {
        row.push(match reader.0.split_first() {
            Some((0xfb, rest)) => {
                reader.0 = rest;
                Value::Null
            }
            _ => Value::Bytes(reader.text()?.to_vec()),
        });
    }
    Ok(row)
}

fn binary_row(packet: &[u8], columns: &[Column]) -> Result<Vec<Value>, Trouble> {
    let mut reader = Reader(packet.strip_prefix(&[0]).ok_or_else(strange)?);
    // The first two bits are the protocol's own.
    let nulls = reader.take((columns.len() + 2).div_ceil(8))?;
    let is_null = |index: usize| nulls[(index + 2) / 8] & 1 << ((index + 2) % 8) != 0;
    let mut row = Vec::with_capacity(columns.len());
    for (index, column) in columns.iter().enumerate() {
        row.push(if is_null(index) { Value::Null } else { value(&mut reader, column)? });
    }
    Ok(row)
}

/// Whole numbers and bytes. Times and fractions are for those who read them.
fn value(reader: &mut Reader<'_>, column: &Column) -> Result<Value, Trouble> {
    let bytes = match column.kind {
        0x01 => 1,
        0x02 | 0x0d => 2,
        0x03 | 0x09 => 4,
        0x08 => 8,
        // Decimals, texts, bytes, all as text.
        0x00 | 0x0f | 0x10 | 0xf5..=0xff => return Ok(Value::Bytes(reader.text()?.to_vec())),
        kind => return Err(Trouble::Ended(format!("a column of the kind {kind:#x}, which is not ours"))),
    };
    let number = reader.number(bytes)? as i64;
    let unused = 64 - 8 * bytes as u32;
    Ok(Value::Int(if column.is_unsigned { number } else { number << unused >> unused }))
}
