//! The response to a command: one packet or several, parsed one by one.

use super::WireError;
use super::column_definition::ColumnDefinition;
use super::com_stmt_prepare::ComStmtPrepareOk;
use super::eof_packet::is_eof;
use super::err_packet::{self, err_packet};
use super::ok_packet::{self, ok_packet};
use super::packet_reader::{PacketReader, protocol_error};
use super::reply::Reply;
use super::resultset_row::{binary_row, text_row};
use crate::engines::sql::SqlValue;

/// The maximum size of a response: far more than any statement of an engine returns. It bounds the memory
/// that a hostile server can take.
const MAX_RESPONSE: usize = 64 << 20;
const MAX_COLUMNS: u64 = 4_096;

/// The command that a response answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ResponseTo {
    /// Its rows are text.
    Query,
    StmtPrepare,
    /// Its rows are binary.
    StmtExecute,
}

/// The packet that is expected next.
#[derive(Clone, Copy, Debug)]
enum NextPacket {
    First,
    /// Definitions of columns and parameters, of which only the number matters.
    SkippedDefinitions(u32),
    ColumnDefinition {
        left: u64,
    },
    EofOfColumns,
    Row,
}

/// A response that has not arrived in full.
#[derive(Debug)]
pub(super) struct PartialResponse {
    to: ResponseTo,
    deprecates_eof: bool,
    next: NextPacket,
    reply: Reply,
    /// The size of the packets and values so far, in about as many bytes.
    size: usize,
}

impl PartialResponse {
    pub(super) fn new(to: ResponseTo, deprecates_eof: bool) -> Self {
        Self { to, deprecates_eof, next: NextPacket::First, reply: Reply::default(), size: 0 }
    }

    /// Takes the payload of the next packet. `columns` is kept between the packets of a response. `Some`: it
    /// was the last packet.
    ///
    /// # Errors
    /// The connection cannot be used any more. A refusal of the server is a response.
    pub(super) fn take(
        &mut self,
        payload: &[u8],
        columns: &mut Vec<ColumnDefinition>,
    ) -> Result<Option<Result<Reply, WireError>>, WireError> {
        let width = if let NextPacket::Row = self.next { columns.len() } else { 1 };
        self.size += payload.len() + width * size_of::<SqlValue>();
        if self.size > MAX_RESPONSE {
            return Err(WireError::ended(&format!("a response of more than {} MB", MAX_RESPONSE >> 20)));
        }
        if payload.first() == Some(&err_packet::HEADER) {
            return Ok(Some(Err(err_packet(&payload[1..])?)));
        }
        self.next = match self.next {
            NextPacket::First if self.to == ResponseTo::StmtPrepare => {
                let ComStmtPrepareOk { statement_id, num_columns, num_params } =
                    ComStmtPrepareOk::parse(payload)?;
                self.reply.statement_id = statement_id;
                let packets =
                    |count: u32| if count == 0 { 0 } else { count + u32::from(!self.deprecates_eof) };
                NextPacket::SkippedDefinitions(packets(num_columns) + packets(num_params))
            }
            NextPacket::First if payload.first() == Some(&ok_packet::HEADER) => {
                return Ok(Some(Ok(ok_packet(payload)?)));
            }
            NextPacket::First => match PacketReader(payload).lenenc_int()? {
                left @ 1..=MAX_COLUMNS => {
                    columns.clear();
                    NextPacket::ColumnDefinition { left }
                }
                _ => return Err(protocol_error()),
            },
            NextPacket::SkippedDefinitions(left) => NextPacket::SkippedDefinitions(left.saturating_sub(1)),
            NextPacket::ColumnDefinition { left } => {
                columns.push(ColumnDefinition::parse(payload)?);
                match left {
                    1 if self.deprecates_eof => NextPacket::Row,
                    1 => NextPacket::EofOfColumns,
                    _ => NextPacket::ColumnDefinition { left: left - 1 },
                }
            }
            NextPacket::EofOfColumns if is_eof(payload) => NextPacket::Row,
            NextPacket::EofOfColumns => return Err(protocol_error()),
            NextPacket::Row if is_eof(payload) => return Ok(Some(Ok(std::mem::take(&mut self.reply)))),
            NextPacket::Row => {
                let rows = &mut self.reply.rows;
                rows.width = columns.len();
                match self.to {
                    ResponseTo::StmtExecute => binary_row(payload, columns, &mut rows.values)?,
                    _ => text_row(payload, columns, &mut rows.values)?,
                }
                NextPacket::Row
            }
        };
        let is_done = matches!(self.next, NextPacket::SkippedDefinitions(0));
        Ok(is_done.then(|| Ok(std::mem::take(&mut self.reply))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The definition of a column of this type, with empty names.
    fn column_of(column_type: u8, flags: u8) -> Vec<u8> {
        let mut packet = vec![0; 6];
        packet.extend([0x0c, 63, 0, 0, 0, 0, 0, column_type, flags, 0, 0, 0, 0]);
        packet
    }

    fn response(to: ResponseTo, packets: &[&[u8]]) -> Result<Reply, WireError> {
        response_with(false, to, packets)
    }

    fn response_with(deprecates_eof: bool, to: ResponseTo, packets: &[&[u8]]) -> Result<Reply, WireError> {
        let (mut partial, mut columns) = (PartialResponse::new(to, deprecates_eof), Vec::new());
        for (index, packet) in packets.iter().enumerate() {
            if let Some(reply) = partial.take(packet, &mut columns)? {
                assert_eq!(index + 1, packets.len(), "it was over before");
                return reply;
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
        let reply = response(ResponseTo::StmtExecute, &packets).expect("rows");
        assert_eq!(
            reply.rows.to_vecs(),
            [[SqlValue::Int(-2), SqlValue::Int(-1), SqlValue::Int(255), SqlValue::Null]]
        );
    }

    #[test]
    fn with_deprecate_eof_rows_follow_the_last_column_definition() {
        let (small, done) = (column_of(0x01, 0x20), [0xfe, 0, 0, 2, 0, 0, 0]);
        let rows: [&[u8]; 4] = [&[1], &small, &[0, 0, 7], &done];
        let reply = response_with(true, ResponseTo::StmtExecute, &rows).expect("a row");
        assert_eq!(reply.rows.to_vecs(), [[SqlValue::Int(7)]]);
        let none: [&[u8]; 3] = [&[1], &small, &done];
        let reply = response_with(true, ResponseTo::Query, &none).expect("no row");
        assert!(reply.rows.first().is_none());
        let prepared: [&[u8]; 2] = [&[0, 7, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0], &column_of(0xfc, 0)];
        let reply = response_with(true, ResponseTo::StmtPrepare, &prepared).expect("prepared");
        assert_eq!(reply.statement_id.0, 7);
    }

    #[test]
    fn ok_err_and_prepare_ok_packets_are_told_apart() {
        let done = response(ResponseTo::StmtExecute, &[&[0, 1, 0xfd, 1, 2, 3, 2, 0]]).expect("done");
        assert_eq!((done.matched, done.insert_id), (1, 0x03_02_01));
        let refused = response(ResponseTo::StmtExecute, &[b"\xff\xbd\x04#40001Deadlock found"]);
        assert!(
            matches!(refused, Err(WireError::Refused { code: 1213, words }) if words == "Deadlock found")
        );
        let end = [0xfe, 0, 0, 2, 0];
        let prepared: [&[u8]; 3] = [&[0, 7, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0], &column_of(0xfc, 0), &end];
        assert_eq!(response(ResponseTo::StmtPrepare, &prepared).expect("prepared").statement_id.0, 7);
    }

    /// A server that wants a file of ours, and bytes without any sense.
    #[test]
    fn packets_outside_the_protocol_are_errors_and_not_panics() {
        let mut partial = PartialResponse::new(ResponseTo::Query, false);
        assert!(partial.take(b"\xfb/etc/passwd", &mut Vec::new()).is_err());
        let mut seed = 1_u64;
        let mut draw = move || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 40) as u8
        };
        for _ in 0..20_000 {
            let to = match draw() % 3 {
                0 => ResponseTo::StmtPrepare,
                1 => ResponseTo::StmtExecute,
                _ => ResponseTo::Query,
            };
            let (mut partial, mut columns) = (PartialResponse::new(to, draw() % 2 == 0), Vec::new());
            for _ in 0..8 {
                let packet: Vec<u8> = (0..draw() % 24).map(|_| draw() % 12).collect();
                if !matches!(partial.take(&packet, &mut columns), Ok(None)) {
                    break;
                }
            }
        }
    }
}
