//! Answers, packet by packet.

use super::WireError;
use super::bytes::{Reader, protocol_error};
use crate::engines::sql::SqlValue as Value;

/// The largest answer: far more than any that was asked for, and not all the memory that a server could wish for.
const MOST: usize = 64 << 20;
const MOST_COLUMNS: u64 = 4_096;

/// What came back.
#[derive(Debug, Default)]
pub(in crate::engines::mysql) struct Reply {
    pub(in crate::engines::mysql) rows: Rows,
    /// How many rows matched, whether they were changed by it or not.
    pub(in crate::engines::mysql) matched: u64,
    /// What `LAST_INSERT_ID(...)` was in this statement. Only if something matched: otherwise it is that of an earlier one.
    pub(in crate::engines::mysql) insert_id: u64,
    /// The number of a statement that was prepared.
    pub(super) statement: u32,
}

/// Rows, one behind the other.
#[derive(Debug, Default)]
pub(in crate::engines::mysql) struct Rows {
    values: Vec<Value>,
    width: usize,
}

impl Rows {
    pub(in crate::engines::mysql) fn iter(&self) -> impl Iterator<Item = &[Value]> {
        self.values.chunks(self.width.max(1))
    }

    pub(in crate::engines::mysql) fn first(&self) -> Option<&[Value]> {
        self.iter().next()
    }

    /// Each by itself.
    pub(in crate::engines::mysql) fn apart(self) -> Vec<Vec<Value>> {
        self.iter().map(<[Value]>::to_vec).collect()
    }
}

/// Whether the end of a list of columns is told by a packet of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Ends {
    #[default]
    Told,
    Untold,
}

/// What is expected of the next packet.
#[derive(Clone, Copy, Debug)]
pub(super) enum Next {
    /// The answer to something prepared (binary rows) or written out (rows of text).
    First {
        is_binary: bool,
    },
    FirstOfPrepared,
    /// What values and columns are called, which nobody asked for.
    Skip(u32),
    /// So many of them are left.
    Columns {
        left: u64,
        is_binary: bool,
    },
    EndOfColumns {
        is_binary: bool,
    },
    Rows {
        is_binary: bool,
    },
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
    ends: Ends,
    reply: Reply,
    /// What it takes so far, in about as many bytes.
    size: usize,
}

impl Arriving {
    pub(super) fn new(next: Next, ends: Ends) -> Self {
        Self { next, ends, reply: Reply::default(), size: 0 }
    }

    /// Takes a packet; the columns are kept in between. `Some`: it was the last.
    ///
    /// # Errors
    /// The connection cannot be used any more. That the server refused is an answer.
    pub(super) fn take(
        &mut self,
        packet: &[u8],
        columns: &mut Vec<Column>,
    ) -> Result<Option<Result<Reply, WireError>>, WireError> {
        let width = if let Next::Rows { .. } = self.next { columns.len() } else { 1 };
        self.size += packet.len() + width * size_of::<Value>();
        if self.size > MOST {
            return Err(WireError::Ended(format!("an answer of more than {} MB", MOST >> 20)));
        }
        // A row cannot begin so: its first column would be longer than a packet.
        let is_end = packet.first() == Some(&0xfe);
        if packet.first() == Some(&0xff) {
            return Ok(Some(Err(refusal(&packet[1..])?)));
        }
        self.next = match self.next {
            Next::First { is_binary } => match packet.first() {
                Some(0x00) => {
                    self.done(packet)?;
                    return Ok(Some(Ok(std::mem::take(&mut self.reply))));
                }
                _ => match Reader(packet).length()? {
                    left @ 1..=MOST_COLUMNS => {
                        columns.clear();
                        Next::Columns { left, is_binary }
                    }
                    _ => return Err(protocol_error()),
                },
            },
            Next::FirstOfPrepared => {
                let mut reader = Reader(packet.strip_prefix(&[0]).ok_or_else(protocol_error)?);
                self.reply.statement = reader.number(4)? as u32;
                let (results, values) = (reader.number(2)? as u32, reader.number(2)? as u32);
                // Each list has an end of its own, unless ends are not told.
                let end = u32::from(self.ends == Ends::Told);
                let packets = |count: u32| if count == 0 { 0 } else { count + end };
                Next::Skip(packets(results) + packets(values))
            }
            Next::Skip(left) => Next::Skip(left.saturating_sub(1)),
            Next::Columns { left, is_binary } => {
                columns.push(column(packet)?);
                match (left, self.ends) {
                    (1, Ends::Told) => Next::EndOfColumns { is_binary },
                    (1, Ends::Untold) => Next::Rows { is_binary },
                    _ => Next::Columns { left: left - 1, is_binary },
                }
            }
            Next::EndOfColumns { is_binary } if is_end => Next::Rows { is_binary },
            Next::EndOfColumns { .. } => return Err(protocol_error()),
            Next::Rows { .. } if is_end => return Ok(Some(Ok(std::mem::take(&mut self.reply)))),
            Next::Rows { is_binary } => {
                let Rows { values, width } = &mut self.reply.rows;
                *width = columns.len();
                match is_binary {
                    true => binary_row(packet, columns, values)?,
                    false => text_row(packet, columns, values)?,
                }
                Next::Rows { is_binary }
            }
        };
        let is_done = matches!(self.next, Next::Skip(0));
        Ok(is_done.then(|| Ok(std::mem::take(&mut self.reply))))
    }

    fn done(&mut self, packet: &[u8]) -> Result<(), WireError> {
        let mut reader = Reader(&packet[1..]);
        self.reply.matched = reader.length()?;
        self.reply.insert_id = reader.length()?;
        Ok(())
    }
}

/// What the server refused, and why: its number, the state of the standard, its words.
pub(super) fn refusal(packet: &[u8]) -> Result<WireError, WireError> {
    let mut reader = Reader(packet);
    let code = reader.number(2)? as u16;
    let words = match reader.0.split_first() {
        Some((b'#', rest)) => rest.get(5..).unwrap_or_default(),
        _ => reader.0,
    };
    Ok(WireError::Refused { code, words: String::from_utf8_lossy(words).into_owned() })
}

/// What it is called, in six texts, nobody asks. Behind them stand the length of the rest, its character set and width, its kind, its
/// flags, and four bytes more.
fn column(packet: &[u8]) -> Result<Column, WireError> {
    let [.., 0x0c, _, _, _, _, _, _, kind, flags, _, _, _, _] = packet else { return Err(protocol_error()) };
    Ok(Column { kind: *kind, is_unsigned: flags & 0x20 != 0 })
}

fn text_row(packet: &[u8], columns: &[Column], row: &mut Vec<Value>) -> Result<(), WireError> {
    let mut reader = Reader(packet);
    for _ in columns {
        row.push(match reader.0.split_first() {
            Some((0xfb, rest)) => {
                reader.0 = rest;
                Value::Null
            }
            _ => Value::Bytes(reader.text()?.to_vec()),
        });
    }
    Ok(())
}

fn binary_row(packet: &[u8], columns: &[Column], row: &mut Vec<Value>) -> Result<(), WireError> {
    let mut reader = Reader(packet.strip_prefix(&[0]).ok_or_else(protocol_error)?);
    // The first two bits are the protocol's own.
    let nulls = reader.take((columns.len() + 2).div_ceil(8))?;
    let is_null = |index: usize| nulls[(index + 2) / 8] & 1 << ((index + 2) % 8) != 0;
    for (index, column) in columns.iter().enumerate() {
        row.push(if is_null(index) { Value::Null } else { value(&mut reader, column)? });
    }
    Ok(())
}

/// Whole numbers and bytes. Times and fractions are for those who read them.
fn value(reader: &mut Reader<'_>, column: &Column) -> Result<Value, WireError> {
    let bytes = match column.kind {
        0x01 => 1,
        0x02 | 0x0d => 2,
        0x03 | 0x09 => 4,
        0x08 => 8,
        // Decimals, texts, bytes, all as text.
        0x00 | 0x0f | 0x10 | 0xf5..=0xff => return Ok(Value::Bytes(reader.text()?.to_vec())),
        kind => return Err(WireError::Ended(format!("a column of the kind {kind:#x}, which is not ours"))),
    };
    let number = reader.number(bytes)? as i64;
    let unused = 64 - 8 * bytes as u32;
    Ok(Value::Int(if column.is_unsigned { number } else { number << unused >> unused }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A column of this kind, whose names nobody reads.
    fn column_of(kind: u8, flags: u8) -> Vec<u8> {
        let mut packet = vec![0; 6];
        packet.extend([0x0c, 63, 0, 0, 0, 0, 0, kind, flags, 0, 0, 0, 0]);
        packet
    }

    fn answer(next: Next, packets: &[&[u8]]) -> Result<Reply, WireError> {
        answer_with(Ends::Told, next, packets)
    }

    fn answer_with(ends: Ends, next: Next, packets: &[&[u8]]) -> Result<Reply, WireError> {
        let (mut arriving, mut columns) = (Arriving::new(next, ends), Vec::new());
        for (place, packet) in packets.iter().enumerate() {
            if let Some(answer) = arriving.take(packet, &mut columns)? {
                assert_eq!(place + 1, packets.len(), "it was over before");
                return answer;
            }
        }
        panic!("it is not over");
    }

    #[test]
    fn rows_of_numbers_and_bytes_are_read_with_their_signs_and_gaps() {
        let end = [0xfe, 0, 0, 2, 0];
        let (long, tiny, small, bytes) =
            (column_of(0x08, 0), column_of(0x01, 0), column_of(0x01, 0x20), column_of(0xfc, 0));
        let mut row = vec![0, 0b0010_0000];
        row.extend((-2_i64).to_le_bytes());
        row.extend([0xff, 0xff]);
        let packets: [&[u8]; 8] = [&[4], &long, &tiny, &small, &bytes, &end, &row, &end];
        let reply = answer(Next::First { is_binary: true }, &packets).expect("rows");
        assert_eq!(reply.rows.apart(), [[Value::Int(-2), Value::Int(-1), Value::Int(255), Value::Null]]);
    }

    #[test]
    fn without_ends_the_last_column_is_followed_by_rows_or_by_none() {
        let (small, done) = (column_of(0x01, 0x20), [0xfe, 0, 0, 2, 0, 0, 0]);
        let rows: [&[u8]; 4] = [&[1], &small, &[0, 0, 7], &done];
        let reply = answer_with(Ends::Untold, Next::First { is_binary: true }, &rows).expect("a row");
        assert_eq!(reply.rows.apart(), [[Value::Int(7)]]);
        let none: [&[u8]; 3] = [&[1], &small, &done];
        let reply = answer_with(Ends::Untold, Next::First { is_binary: false }, &none).expect("no row");
        assert!(reply.rows.first().is_none());
        let prepared: [&[u8]; 2] = [&[0, 7, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0], &column_of(0xfc, 0)];
        let reply = answer_with(Ends::Untold, Next::FirstOfPrepared, &prepared).expect("prepared");
        assert_eq!(reply.statement, 7);
    }

    #[test]
    fn what_was_done_refused_and_prepared_is_told_apart() {
        let done = answer(Next::First { is_binary: true }, &[&[0, 1, 0xfd, 1, 2, 3, 2, 0]]).expect("done");
        assert_eq!((done.matched, done.insert_id), (1, 0x03_02_01));
        let refused = answer(Next::First { is_binary: true }, &[b"\xff\xbd\x04#40001Deadlock found"]);
        assert!(
            matches!(refused, Err(WireError::Refused { code: 1213, words }) if words == "Deadlock found")
        );
        let end = [0xfe, 0, 0, 2, 0];
        let prepared: [&[u8]; 3] = [&[0, 7, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0], &column_of(0xfc, 0), &end];
        assert_eq!(answer(Next::FirstOfPrepared, &prepared).expect("prepared").statement, 7);
    }

    /// A server that wants a file of ours, and bytes without any sense.
    #[test]
    fn what_the_protocol_does_not_have_ends_the_connection_without_a_panic() {
        let mut arriving = Arriving::new(Next::First { is_binary: false }, Ends::Told);
        assert!(arriving.take(b"\xfb/etc/passwd", &mut Vec::new()).is_err());
        let mut seed = 1_u64;
        let mut draw = move || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 40) as u8
        };
        for _ in 0..20_000 {
            let next = match draw() % 3 {
                0 => Next::FirstOfPrepared,
                kind => Next::First { is_binary: kind == 1 },
            };
            let ends = if draw() % 2 == 0 { Ends::Told } else { Ends::Untold };
            let (mut arriving, mut columns) = (Arriving::new(next, ends), Vec::new());
            for _ in 0..8 {
                let packet: Vec<u8> = (0..draw() % 24).map(|_| draw() % 12).collect();
                if !matches!(arriving.take(&packet, &mut columns), Ok(None)) {
                    break;
                }
            }
        }
    }
}
