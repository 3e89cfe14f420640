//! The command phase of MySQL and MariaDB, as [`Pipeline`](crate::net::pipeline::Pipeline) needs it.

use super::WireError;
use super::column_definition::ColumnDefinition;
use super::com_quit::COM_QUIT;
use super::err_packet::{self, err_packet};
use super::packet::{HEADER_LENGTH, MAX_PAYLOAD, next_payload};
use super::packet_reader::protocol_error;
use super::reply::Reply;
use super::response::{PartialResponse, ResponseTo};
use crate::net::pipeline::Codec;

/// The codec of one connection.
pub(super) struct MysqlCodec {
    pub(super) deprecates_eof: bool,
}

/// The response that belongs to a command.
#[derive(Clone, Copy, Debug)]
pub(super) struct ExpectedResponse {
    pub(super) to: ResponseTo,
    /// If the command is refused, the connection ends before any later command is answered.
    pub(super) must_succeed: bool,
}

/// A response that has not arrived in full.
#[derive(Default)]
pub(super) struct ResponseProgress {
    partial: Option<(PartialResponse, ExpectedResponse)>,
    /// Kept between responses for its capacity.
    columns: Vec<ColumnDefinition>,
}

impl Codec for MysqlCodec {
    type Reply = Result<Reply, WireError>;
    type Expected = ExpectedResponse;
    type ParseProgress = ResponseProgress;

    const MAX_UNREAD: usize = MAX_PAYLOAD + HEADER_LENGTH;
    const TERMINATE: Option<&'static [u8]> = Some(COM_QUIT);

    fn decode(
        &self,
        bytes: &mut &[u8],
        progress: &mut ResponseProgress,
        expected: impl FnOnce() -> Option<ExpectedResponse>,
    ) -> Result<Option<Self::Reply>, String> {
        self.decode_packets(bytes, progress, expected).map_err(|wire_error| match wire_error {
            WireError::Refused { words, .. } | WireError::Unable(words) => words,
            WireError::Ended(error) => error.to_string(),
        })
    }
}

impl MysqlCodec {
    fn decode_packets(
        &self,
        bytes: &mut &[u8],
        progress: &mut ResponseProgress,
        expected: impl FnOnce() -> Option<ExpectedResponse>,
    ) -> Result<Option<Result<Reply, WireError>>, WireError> {
        let mut expected = Some(expected);
        while let Some(payload) = next_payload(bytes)? {
            let (partial, expected) = match &mut progress.partial {
                Some(partial) => partial,
                slot => match expected.take().and_then(|expected| expected()) {
                    Some(expected) => {
                        slot.insert((PartialResponse::new(expected.to, self.deprecates_eof), expected))
                    }
                    None => return Err(unsolicited(payload)?),
                },
            };
            if let Some(reply) = partial.take(payload, &mut progress.columns)? {
                let must_succeed = expected.must_succeed;
                progress.partial = None;
                return match reply {
                    Err(refusal) if must_succeed => Err(refusal),
                    reply => Ok(Some(reply)),
                };
            }
        }
        Ok(None)
    }
}

/// A packet that answers no command: the server says why it ends the connection.
fn unsolicited(payload: &[u8]) -> Result<WireError, WireError> {
    match payload.split_first() {
        Some((&err_packet::HEADER, rest)) => err_packet(rest),
        _ => Err(protocol_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OK: &[u8] = &[7, 0, 0, 1, 0, 1, 0, 2, 0, 0, 0];
    const ERR: &[u8] = b"\x0b\0\0\x01\xff\xbd\x04#40001no";

    fn decode(
        mut bytes: &[u8],
        progress: &mut ResponseProgress,
        expected: Option<ExpectedResponse>,
    ) -> (Result<Option<bool>, String>, usize) {
        let before = bytes.len();
        let decoded = MysqlCodec { deprecates_eof: true }.decode(&mut bytes, progress, || expected);
        (decoded.map(|reply| reply.map(|reply| reply.is_ok())), before - bytes.len())
    }

    #[test]
    fn a_response_may_arrive_in_pieces_of_any_length() {
        let query = Some(ExpectedResponse { to: ResponseTo::Query, must_succeed: false });
        for cut in 0..OK.len() {
            let mut progress = ResponseProgress::default();
            assert_eq!(decode(&OK[..cut], &mut progress, query), (Ok(None), 0), "{cut}");
            assert_eq!(decode(OK, &mut progress, query), (Ok(Some(true)), OK.len()), "{cut}");
        }
        // Packets that were parsed are not seen again.
        let column = [&[19, 0, 0, 2][..], &[0; 6], &[0x0c, 63, 0, 0, 0, 0, 0, 0xfc, 0, 0, 0, 0, 0]].concat();
        let head = [&[1, 0, 0, 1, 1][..], &column].concat();
        let mut progress = ResponseProgress::default();
        assert_eq!(decode(&[&head[..], &[2, 0]].concat(), &mut progress, query), (Ok(None), head.len()));
        let rest = [2, 0, 0, 3, 1, b'a', 1, 0, 0, 4, 0xfe];
        assert_eq!(decode(&rest, &mut progress, None), (Ok(Some(true)), rest.len()));
    }

    #[test]
    fn a_command_that_must_succeed_ends_the_connection_if_it_is_refused() {
        for (must_succeed, decoded) in [(true, Err("no".to_owned())), (false, Ok(Some(false)))] {
            let expected = Some(ExpectedResponse { to: ResponseTo::Query, must_succeed });
            assert_eq!(decode(ERR, &mut ResponseProgress::default(), expected).0, decoded);
            assert_eq!(decode(OK, &mut ResponseProgress::default(), expected).0, Ok(Some(true)));
        }
    }

    #[test]
    fn an_error_that_answers_no_command_is_why_the_connection_ends() {
        assert_eq!(decode(ERR, &mut ResponseProgress::default(), None).0, Err("no".to_owned()));
        let (decoded, _) = decode(OK, &mut ResponseProgress::default(), None);
        assert!(decoded.is_err_and(|why| why.contains("protocol")));
    }
}
