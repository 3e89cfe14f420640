//! Requests and replies, encoded.

use std::io;

use tokio_postgres::error::SqlState;

use crate::net::connection_error::ConnectionError;
use crate::net::pipeline::Codec;
use crate::net::tls_failure::TlsFailure;

/// The longest message, and the longest reply, in bytes. It is far more than any expected reply, and limits
/// the memory that a server can make this process use.
pub(in crate::engines::postgres) const MAX_MESSAGE: usize = 64 << 20;

/// The reason in the error for bytes that are not a message of this protocol.
pub(in crate::engines::postgres) const NOT_POSTGRES: &str =
    "the server does not speak the PostgreSQL protocol";

/// The reason in the error for a reply beyond [`MAX_MESSAGE`].
pub(in crate::engines::postgres) fn reply_too_long() -> String {
    format!("a reply of more than {} MB", MAX_MESSAGE >> 20)
}

/// Why a request has no result.
#[derive(Clone, Debug)]
pub(in crate::engines::postgres) enum WireError {
    /// The server refused the request.
    Refused { code: String, message: String },
    /// The connection ended, or cannot be used any more.
    Ended(ConnectionError),
}

impl WireError {
    fn ended(why: &str) -> Self {
        Self::Ended(why.into())
    }
}

impl From<io::Error> for WireError {
    fn from(error: io::Error) -> Self {
        Self::Ended(error.into())
    }
}

impl From<ConnectionError> for WireError {
    fn from(error: ConnectionError) -> Self {
        Self::Ended(error)
    }
}

impl From<&tokio_postgres::Error> for WireError {
    fn from(error: &tokio_postgres::Error) -> Self {
        match error.as_db_error() {
            Some(refused) => Self::Refused {
                code: refused.code().code().to_owned(),
                message: refused.message().to_owned(),
            },
            None => {
                let source = std::error::Error::source(error).map(|source| format!(": {source}"));
                let why = format!("{error}{}", source.unwrap_or_default());
                Self::Ended(ConnectionError::new(why, TlsFailure::of(error)))
            }
        }
    }
}

/// The name of a prepared statement on its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engines::postgres) struct StatementName(pub(super) u32);

/// The type of a statement's parameter, with its OID on the server.
#[derive(Clone, Copy, Debug)]
pub(in crate::engines::postgres) enum ParamType {
    Bytes = 17,
    Int = 20,
    Text = 25,
}

/// A parameter of a statement.
#[derive(Clone, Copy, Debug)]
pub(in crate::engines::postgres) enum StatementParam<'a> {
    Int(i64),
    /// Also for text.
    Bytes(&'a [u8]),
}

/// Adds a message: its type, its length, and the body that `put` adds. Returns false, and adds nothing, if it
/// is too long.
fn put_message(out: &mut Vec<u8>, kind: u8, put: impl FnOnce(&mut Vec<u8>)) -> bool {
    let begin = out.len();
    out.extend_from_slice(&[kind, 0, 0, 0, 0]);
    put(out);
    let length = out.len() - begin - 1;
    if length > MAX_MESSAGE {
        out.truncate(begin);
        return false;
    }
    out[begin + 1..begin + 5].copy_from_slice(&(length as u32).to_be_bytes());
    true
}

/// Adds a string. It must not contain a zero byte, and no caller passes one.
fn put_text(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(text.as_bytes());
    out.push(0);
}

fn put_count(out: &mut Vec<u8>, count: usize) {
    out.extend_from_slice(&(count as u16).to_be_bytes());
}

fn put_name(out: &mut Vec<u8>, StatementName(number): StatementName) {
    out.push(b's');
    out.extend_from_slice(number.to_string().as_bytes());
    out.push(0);
}

/// Adds `Sync`, after which the server replies.
fn put_sync(out: &mut Vec<u8>) -> bool {
    put_message(out, b'S', |_| {})
}

/// Adds `Query`. As the functions below, it returns false and adds nothing if the message is too long.
pub(super) fn put_query(out: &mut Vec<u8>, text: &str) -> bool {
    put_message(out, b'Q', |out| put_text(out, text))
}

/// Adds `Parse` and `Sync`.
pub(super) fn put_prepare(
    out: &mut Vec<u8>,
    statement: StatementName,
    text: &str,
    types: &[ParamType],
) -> bool {
    let is_put = put_message(out, b'P', |out| {
        put_name(out, statement);
        put_text(out, text);
        put_count(out, types.len());
        types.iter().for_each(|oid| out.extend_from_slice(&(*oid as u32).to_be_bytes()));
    });
    is_put && put_sync(out)
}

/// Adds `Bind`, `Execute` and `Sync`.
pub(super) fn put_execute(
    out: &mut Vec<u8>,
    statement: StatementName,
    params: &[StatementParam<'_>],
) -> bool {
    let is_put = put_message(out, b'B', |out| {
        // The unnamed portal.
        out.push(0);
        put_name(out, statement);
        // One format code, for all parameters: binary.
        out.extend_from_slice(&[0, 1, 0, 1]);
        put_count(out, params.len());
        for value in params {
            let number;
            let bytes = match value {
                StatementParam::Int(int) => {
                    number = int.to_be_bytes();
                    &number[..]
                }
                StatementParam::Bytes(bytes) => bytes,
            };
            out.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
            out.extend_from_slice(bytes);
        }
        // One format code, for all columns of the reply: binary.
        out.extend_from_slice(&[0, 1, 0, 1]);
    });
    // The unnamed portal, without a limit on the number of rows.
    is_put && put_message(out, b'E', |out| out.extend_from_slice(&[0; 5])) && put_sync(out)
}

/// The rows of a reply: the `DataRow` messages without their type, one after the other.
#[derive(Debug, Default)]
pub(in crate::engines::postgres) struct Reply(Vec<u8>);

impl Reply {
    pub(in crate::engines::postgres) fn rows(&self) -> impl Iterator<Item = ReplyRow<'_>> {
        let mut left = &self.0[..];
        std::iter::from_fn(move || {
            let length = u32::from_be_bytes(*left.first_chunk()?) as usize;
            let (row, rest) = left.split_at_checked(length)?;
            left = rest;
            Some(ReplyRow(&row[size_of::<u32>()..]))
        })
    }

    pub(in crate::engines::postgres) fn first(&self) -> Option<ReplyRow<'_>> {
        self.rows().next()
    }
}

/// One row: the number of its values, and each value after its length.
#[derive(Clone, Copy, Debug)]
pub(in crate::engines::postgres) struct ReplyRow<'a>(&'a [u8]);

impl<'a> ReplyRow<'a> {
    /// The value of a column; `None` if there is no such column, or it is null.
    pub(in crate::engines::postgres) fn bytes(&self, column: usize) -> Option<&'a [u8]> {
        let mut left = self.0.get(2..)?;
        for current in 0.. {
            let (length, rest) = left.split_first_chunk()?;
            // A negative length is null.
            let length = usize::try_from(i32::from_be_bytes(*length));
            match (current == column, length) {
                (true, length) => return rest.get(..length.ok()?),
                (false, Ok(length)) => left = rest.get(length..)?,
                (false, Err(_)) => left = rest,
            }
        }
        None
    }

    pub(in crate::engines::postgres) fn int(&self, column: usize) -> Option<i64> {
        Some(i64::from_be_bytes(self.bytes(column)?.try_into().ok()?))
    }

    pub(in crate::engines::postgres) fn bool(&self, column: usize) -> Option<bool> {
        match self.bytes(column)? {
            [yes] => Some(*yes != 0),
            _ => None,
        }
    }

    pub(in crate::engines::postgres) fn text(&self, column: usize) -> Option<&'a str> {
        std::str::from_utf8(self.bytes(column)?).ok()
    }
}

/// The protocol of PostgreSQL.
pub(super) struct PostgresCodec;

/// A reply that has not arrived in full.
#[derive(Debug, Default)]
pub(super) struct PartialReply {
    /// Whether its first message has arrived.
    is_begun: bool,
    reply: Reply,
    refused: Option<WireError>,
}

impl Codec for PostgresCodec {
    type Reply = Result<Reply, WireError>;
    type Expected = ();
    type ParseProgress = PartialReply;

    const MAX_UNREAD: usize = MAX_MESSAGE + 1;
    const TERMINATE: Option<&'static [u8]> = Some(&[b'X', 0, 0, 0, 4]);

    fn decode(
        &self,
        bytes: &mut &[u8],
        partial: &mut PartialReply,
        expected: impl FnOnce() -> Option<()>,
    ) -> Result<Option<Self::Reply>, String> {
        self.decode_messages(bytes, partial, expected).map_err(|wire_error| match wire_error {
            WireError::Refused { message, .. } => message,
            WireError::Ended(error) => error.to_string(),
        })
    }
}

impl PostgresCodec {
    fn decode_messages(
        &self,
        bytes: &mut &[u8],
        partial: &mut PartialReply,
        expected: impl FnOnce() -> Option<()>,
    ) -> Result<Option<Result<Reply, WireError>>, WireError> {
        let mut expected = Some(expected);
        while let Some(length) = Self::length(bytes)? {
            let (message, rest) = bytes.split_at(length);
            *bytes = rest;
            // Called at most once: after it, the reply has begun, or no reply is expected.
            partial.is_begun |= expected.take().is_some_and(|expected| expected().is_some());
            if !partial.is_begun {
                self.take_asynchronous(message)?;
            } else if let Some(answer) = self.take(partial, message)? {
                return Ok(Some(answer));
            }
        }
        Ok(None)
    }

    fn length(arrived: &[u8]) -> Result<Option<usize>, WireError> {
        let [_, rest @ ..] = arrived else { return Ok(None) };
        let Some(length) = rest.first_chunk() else { return Ok(None) };
        match u32::from_be_bytes(*length) as usize {
            length @ 4..=MAX_MESSAGE => Ok((rest.len() >= length).then_some(length + 1)),
            _ => Err(protocol_error()),
        }
    }

    /// Takes a message of a reply. `Some`: it was the last one.
    fn take(
        &self,
        partial: &mut PartialReply,
        message: &[u8],
    ) -> Result<Option<Result<Reply, WireError>>, WireError> {
        match message[0] {
            // ReadyForQuery.
            b'Z' => {
                let PartialReply { reply, refused, .. } = std::mem::take(partial);
                return Ok(Some(refused.map_or(Ok(reply), Err)));
            }
            // DataRow.
            b'D' if partial.reply.0.len() + message.len() > MAX_MESSAGE => {
                return Err(WireError::ended(&reply_too_long()));
            }
            b'D' => partial.reply.0.extend_from_slice(&message[1..]),
            // ErrorResponse.
            b'E' => partial.refused = Some(read_error(message)?),
            // ParseComplete, BindComplete, RowDescription, NoData, ParameterDescription, CommandComplete,
            // EmptyQueryResponse.
            b'1' | b'2' | b'T' | b'n' | b't' | b'C' | b'I' => {}
            _ => self.take_asynchronous(message)?,
        }
        Ok(None)
    }

    /// Takes an asynchronous message: NoticeResponse, ParameterStatus or NotificationResponse. An
    /// ErrorResponse is the reason why the connection ends.
    fn take_asynchronous(&self, message: &[u8]) -> Result<(), WireError> {
        match message[0] {
            b'N' | b'S' | b'A' => Ok(()),
            b'E' => Err(read_error(message)?),
            _ => Err(protocol_error()),
        }
    }

    /// The error for a request that is too long to be sent.
    pub(super) fn request_too_long() -> WireError {
        let message = format!("a request of more than {} MB", MAX_MESSAGE >> 20);
        WireError::Refused { code: SqlState::PROGRAM_LIMIT_EXCEEDED.code().to_owned(), message }
    }
}

/// The length of a message's type and length field.
const HEADER_LENGTH: usize = 5;

/// Reads an ErrorResponse: fields, each a letter and a text.
///
/// # Errors
/// If the connection ends with it.
fn read_error(message: &[u8]) -> Result<WireError, WireError> {
    let fields = message[HEADER_LENGTH..].split(|byte| *byte == 0).filter_map(<[u8]>::split_first);
    let (mut code, mut reason, mut is_fatal) = (String::new(), String::new(), false);
    for (field, text) in fields {
        match field {
            b'C' => code = String::from_utf8_lossy(text).into_owned(),
            b'M' => reason = String::from_utf8_lossy(text).into_owned(),
            // The severity, which is never translated.
            b'V' => is_fatal = matches!(text, b"FATAL" | b"PANIC"),
            _ => {}
        }
    }
    match is_fatal {
        true => Err(WireError::ended(&format!("{reason} ({code})"))),
        false => Ok(WireError::Refused { code, message: reason }),
    }
}

/// The error for bytes that are not a message of this protocol.
fn protocol_error() -> WireError {
    WireError::ended(NOT_POSTGRES)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u8, body: &[u8]) -> Vec<u8> {
        let mut message = Vec::new();
        put_message(&mut message, kind, |out| out.extend_from_slice(body));
        message
    }

    /// The result of a reply in these messages.
    fn answer(messages: &[Vec<u8>]) -> Result<Result<Reply, WireError>, WireError> {
        let (all, mut partial, mut at) = (messages.concat(), PartialReply::default(), 0);
        loop {
            let length = PostgresCodec::length(&all[at..])?.expect("the answer is not over");
            let done = PostgresCodec.take(&mut partial, &all[at..at + length])?;
            at += length;
            if let Some(answer) = done {
                assert_eq!(at, all.len(), "it was over before");
                return Ok(answer);
            }
        }
    }

    #[test]
    fn parse_bind_and_execute_are_encoded() {
        let mut out = Vec::new();
        put_prepare(&mut out, StatementName(12), "SELECT $1", &[ParamType::Int, ParamType::Bytes]);
        assert_eq!(out, b"P\0\0\0\x1cs12\0SELECT $1\0\0\x02\0\0\0\x14\0\0\0\x11S\0\0\0\x04");
        out.clear();
        put_execute(&mut out, StatementName(3), &[StatementParam::Int(-2), StatementParam::Bytes(b"ab")]);
        let bind = b"B\0\0\0\x24\0s3\0\0\x01\0\x01\0\x02\0\0\0\x08\xff\xff\xff\xff\xff\xff\xff\xfe\0\0\0\x02ab\0\x01\0\x01";
        assert_eq!(out, [&bind[..], b"E\0\0\0\x09\0\0\0\0\0", b"S\0\0\0\x04"].concat());
    }

    #[test]
    fn rows_are_read_with_nulls_and_without_notices() {
        let row =
            message(b'D', b"\0\x04\0\0\0\x08\0\0\0\0\0\0\0\x07\xff\xff\xff\xff\0\0\0\x01\x01\0\0\0\x02ab");
        let messages =
            [message(b'2', b""), message(b'N', b"M\0"), row.clone(), row, message(b'C', b"SELECT 2\0")];
        let ready = message(b'Z', b"I");
        let reply = answer(&[messages.concat(), ready.clone()]).expect("understood").expect("rows");
        assert_eq!(reply.rows().count(), 2);
        let row = reply.first().expect("a row");
        assert_eq!(
            (row.int(0), row.bytes(1), row.bool(2), row.text(3)),
            (Some(7), None, Some(true), Some("ab"))
        );
        assert_eq!(
            (row.int(2), row.bool(0), row.bytes(4)),
            (None, None, None),
            "of another type, or missing"
        );
        assert!(answer(&[ready]).expect("understood").expect("an answer").first().is_none());
    }

    #[test]
    fn errors_and_fatal_errors_are_distinguished() {
        let [error, fatal] = ["ERROR", "FATAL"]
            .map(|severity| message(b'E', format!("SFEHLER\0V{severity}\0C55P03\0Mtoo late\0\0").as_bytes()));
        let ready = message(b'Z', b"I");
        let refused = answer(&[error.clone(), ready]).expect("understood").expect_err("refused");
        assert!(
            matches!(&refused, WireError::Refused { code, message } if code == "55P03" && message == "too late")
        );
        assert!(
            matches!(answer(std::slice::from_ref(&fatal)), Err(WireError::Ended(why)) if why.to_string().contains("too late"))
        );
        assert!(matches!(PostgresCodec.take_asynchronous(&fatal), Err(WireError::Ended(_))));
        assert!(PostgresCodec.take_asynchronous(&message(b'S', b"TimeZone\0UTC\0")).is_ok());
        assert!(PostgresCodec.take_asynchronous(&message(b'Z', b"I")).is_err(), "no request is under way");
    }

    #[test]
    fn asynchronous_messages_are_not_a_part_of_a_reply_at_any_split() {
        let (notice, row, ready) = (message(b'N', b"M\0"), message(b'D', b"\0\0"), message(b'Z', b"I"));
        let all = [&notice[..], &row, &notice, &ready].concat();
        let mut partial = PartialReply::default();
        let mut idle = &all[..notice.len()];
        assert!(matches!(PostgresCodec.decode(&mut idle, &mut partial, || None), Ok(None)));
        for cut in 0..all.len() {
            let (mut first, mut partial) = (&all[..cut], PartialReply::default());
            assert!(matches!(PostgresCodec.decode(&mut first, &mut partial, || Some(())), Ok(None)), "{cut}");
            let mut rest = &all[cut - first.len()..];
            let answer = PostgresCodec.decode(&mut rest, &mut partial, || Some(())).expect("understood");
            let rows = answer.expect("all of it").expect("an answer");
            assert_eq!((rows.rows().count(), rest.len()), (1, 0), "{cut}");
        }
        let mut fatal = &message(b'E', b"VFATAL\0C57P01\0Mshutdown\0\0")[..];
        let why =
            PostgresCodec.decode(&mut fatal, &mut PartialReply::default(), || None).expect_err("the end");
        assert_eq!(why, "shutdown (57P01)");
    }

    #[test]
    fn invalid_messages_are_errors_without_a_panic() {
        assert!(PostgresCodec::length(b"HTTP/1.1 400").is_err());
        assert!(PostgresCodec::length(b"D\0\0\0\x03").is_err());
        assert!(matches!(PostgresCodec::length(b"D\0\0\0"), Ok(None)));
        let mut seed = 1_u64;
        let mut draw = move || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 40) as u8
        };
        for _ in 0..20_000 {
            let mut partial = PartialReply::default();
            for _ in 0..4 {
                let kind = b"DDEZC2N?"[usize::from(draw() % 8)];
                let body: Vec<u8> = (0..draw() % 24).map(|_| draw() % 12).collect();
                let message = message(kind, &body);
                assert_eq!(PostgresCodec::length(&message).ok(), Some(Some(message.len())));
                if let Ok(Some(Ok(reply))) = PostgresCodec.take(&mut partial, &message) {
                    for row in reply.rows() {
                        let _ = (row.int(0), row.bool(1), row.text(2), row.bytes(3));
                    }
                }
            }
        }
    }
}
