//! What is asked, and what is answered, as bytes.

use std::io;

use tokio_postgres::error::SqlState;

use crate::net::connection_error::ConnectionError;
use crate::net::pipeline::Codec;
use crate::net::tls_failure::TlsFailure;

/// The largest message, and the largest answer: far more than any that was asked for, and not all the memory that a server could wish
/// for.
pub(in crate::engines::postgres) const MOST: usize = 64 << 20;

/// Why there is no answer, or a bad one.
#[derive(Clone, Debug)]
pub(in crate::engines::postgres) enum WireError {
    /// The server said no.
    Refused { code: String, words: String },
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
            Some(refused) => {
                Self::Refused { code: refused.code().code().to_owned(), words: refused.message().to_owned() }
            }
            None => {
                let source = std::error::Error::source(error).map(|source| format!(": {source}"));
                let why = format!("{error}{}", source.unwrap_or_default());
                Self::Ended(ConnectionError::new(why, TlsFailure::of(error)))
            }
        }
    }
}

/// A statement that a connection knows. Its values are always sent apart from its words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engines::postgres) struct Prepared(pub(super) u32);

/// What kinds of values a statement takes, by the server's numbers.
#[derive(Clone, Copy, Debug)]
pub(in crate::engines::postgres) enum Kind {
    Bytes = 17,
    Int = 20,
    Text = 25,
}

/// A value that goes with a statement.
#[derive(Clone, Copy, Debug)]
pub(in crate::engines::postgres) enum Param<'a> {
    Int(i64),
    /// Also those of a text.
    Bytes(&'a [u8]),
}

/// Adds a message: what it is, its length, what `put` adds. False if that is too long, and nothing was added.
fn put_message(out: &mut Vec<u8>, kind: u8, put: impl FnOnce(&mut Vec<u8>)) -> bool {
    let begin = out.len();
    out.extend_from_slice(&[kind, 0, 0, 0, 0]);
    put(out);
    let length = out.len() - begin - 1;
    if length > MOST {
        out.truncate(begin);
        return false;
    }
    out[begin + 1..begin + 5].copy_from_slice(&(length as u32).to_be_bytes());
    true
}

/// A text must not have a zero in it: none of ours has.
fn put_text(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(text.as_bytes());
    out.push(0);
}

fn put_count(out: &mut Vec<u8>, count: usize) {
    out.extend_from_slice(&(count as u16).to_be_bytes());
}

fn put_name(out: &mut Vec<u8>, Prepared(number): Prepared) {
    out.push(b's');
    out.extend_from_slice(number.to_string().as_bytes());
    out.push(0);
}

/// From here on the server answers.
fn put_sync(out: &mut Vec<u8>) -> bool {
    put_message(out, b'S', |_| {})
}

/// Each of these is false if it is too long, and adds nothing then.
pub(super) fn put_query(out: &mut Vec<u8>, text: &str) -> bool {
    put_message(out, b'Q', |out| put_text(out, text))
}

pub(super) fn put_prepare(out: &mut Vec<u8>, statement: Prepared, text: &str, kinds: &[Kind]) -> bool {
    let is_put = put_message(out, b'P', |out| {
        put_name(out, statement);
        put_text(out, text);
        put_count(out, kinds.len());
        kinds.iter().for_each(|kind| out.extend_from_slice(&(*kind as u32).to_be_bytes()));
    });
    is_put && put_sync(out)
}

pub(super) fn put_execute(out: &mut Vec<u8>, statement: Prepared, values: &[Param<'_>]) -> bool {
    let is_put = put_message(out, b'B', |out| {
        // What is executed needs no name of its own.
        out.push(0);
        put_name(out, statement);
        // All values are as the server keeps them, and what comes back is as well.
        out.extend_from_slice(&[0, 1, 0, 1]);
        put_count(out, values.len());
        for value in values {
            let number;
            let bytes = match value {
                Param::Int(int) => {
                    number = int.to_be_bytes();
                    &number[..]
                }
                Param::Bytes(bytes) => bytes,
            };
            out.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
            out.extend_from_slice(bytes);
        }
        out.extend_from_slice(&[0, 1, 0, 1]);
    });
    // All rows of it.
    is_put && put_message(out, b'E', |out| out.extend_from_slice(&[0; 5])) && put_sync(out)
}

/// What came back: rows, each as it was sent, one behind the other.
#[derive(Debug, Default)]
pub(in crate::engines::postgres) struct Reply(Vec<u8>);

impl Reply {
    pub(in crate::engines::postgres) fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        let mut left = &self.0[..];
        std::iter::from_fn(move || {
            let length = u32::from_be_bytes(*left.first_chunk()?) as usize;
            let (row, rest) = left.split_at_checked(length)?;
            left = rest;
            Some(Row(&row[4..]))
        })
    }

    pub(in crate::engines::postgres) fn first(&self) -> Option<Row<'_>> {
        self.rows().next()
    }
}

/// One row: how many values it has, and each behind its length.
#[derive(Clone, Copy, Debug)]
pub(in crate::engines::postgres) struct Row<'a>(&'a [u8]);

impl<'a> Row<'a> {
    /// The value in this place; `None` if there is none, or nothing is known of it.
    pub(in crate::engines::postgres) fn bytes(&self, place: usize) -> Option<&'a [u8]> {
        let mut left = self.0.get(2..)?;
        for at in 0.. {
            let (length, rest) = left.split_first_chunk()?;
            // A length below zero says that nothing is known.
            let length = usize::try_from(i32::from_be_bytes(*length));
            match (at == place, length) {
                (true, length) => return rest.get(..length.ok()?),
                (false, Ok(length)) => left = rest.get(length..)?,
                (false, Err(_)) => left = rest,
            }
        }
        None
    }

    pub(in crate::engines::postgres) fn int(&self, place: usize) -> Option<i64> {
        Some(i64::from_be_bytes(self.bytes(place)?.try_into().ok()?))
    }

    pub(in crate::engines::postgres) fn bool(&self, place: usize) -> Option<bool> {
        match self.bytes(place)? {
            [yes] => Some(*yes != 0),
            _ => None,
        }
    }

    pub(in crate::engines::postgres) fn text(&self, place: usize) -> Option<&'a str> {
        std::str::from_utf8(self.bytes(place)?).ok()
    }
}

/// How PostgreSQL talks.
pub(super) struct Talk;

/// An answer that is arriving.
#[derive(Debug, Default)]
pub(super) struct Arriving {
    /// Some of it has arrived.
    is_begun: bool,
    reply: Reply,
    refused: Option<WireError>,
}

impl Codec for Talk {
    type Reply = Result<Reply, WireError>;
    type Expected = ();
    type ParseProgress = Arriving;

    const MAX_UNREAD: usize = MOST + 1;
    const TERMINATE: Option<&'static [u8]> = Some(&[b'X', 0, 0, 0, 4]);

    fn decode(
        &self,
        bytes: &mut &[u8],
        arriving: &mut Arriving,
        expected: impl FnOnce() -> Option<()>,
    ) -> Result<Option<Self::Reply>, String> {
        self.decode_messages(bytes, arriving, expected).map_err(|wire_error| match wire_error {
            WireError::Refused { words, .. } => words,
            WireError::Ended(error) => error.to_string(),
        })
    }
}

impl Talk {
    fn decode_messages(
        &self,
        bytes: &mut &[u8],
        arriving: &mut Arriving,
        expected: impl FnOnce() -> Option<()>,
    ) -> Result<Option<Result<Reply, WireError>>, WireError> {
        let mut expected = Some(expected);
        while let Some(length) = Self::length(bytes)? {
            let (message, rest) = bytes.split_at(length);
            *bytes = rest;
            // Asked at most once: from then on the answer is begun, or it is known that there is none.
            arriving.is_begun |= expected.take().is_some_and(|expected| expected().is_some());
            if !arriving.is_begun {
                self.hear(message)?;
            } else if let Some(answer) = self.take(arriving, message)? {
                return Ok(Some(answer));
            }
        }
        Ok(None)
    }

    fn length(arrived: &[u8]) -> Result<Option<usize>, WireError> {
        let [_, rest @ ..] = arrived else { return Ok(None) };
        let Some(length) = rest.first_chunk() else { return Ok(None) };
        match u32::from_be_bytes(*length) as usize {
            length @ 4..=MOST => Ok((rest.len() >= length).then_some(length + 1)),
            _ => Err(protocol_error()),
        }
    }

    /// Takes a message of an answer. `Some`: it was the last.
    fn take(
        &self,
        arriving: &mut Arriving,
        message: &[u8],
    ) -> Result<Option<Result<Reply, WireError>>, WireError> {
        match message[0] {
            // It is ready for the next.
            b'Z' => {
                let Arriving { reply, refused, .. } = std::mem::take(arriving);
                return Ok(Some(refused.map_or(Ok(reply), Err)));
            }
            b'D' if arriving.reply.0.len() + message.len() > MOST => {
                return Err(WireError::ended(&format!("an answer of more than {} MB", MOST >> 20)));
            }
            b'D' => arriving.reply.0.extend_from_slice(&message[1..]),
            b'E' => arriving.refused = Some(refusal(message)?),
            // Prepared, bound, described, done, without anything to do.
            b'1' | b'2' | b'T' | b'n' | b't' | b'C' | b'I' => {}
            _ => self.hear(message)?,
        }
        Ok(None)
    }

    /// Remarks, settings that changed, messages to all; or why it ends.
    fn hear(&self, message: &[u8]) -> Result<(), WireError> {
        match message[0] {
            b'N' | b'S' | b'A' => Ok(()),
            b'E' => Err(refusal(message)?),
            _ => Err(protocol_error()),
        }
    }

    /// What those are told whose question is too long to be sent.
    pub(super) fn too_long() -> WireError {
        let words = format!("a request of more than {} MB", MOST >> 20);
        WireError::Refused { code: SqlState::PROGRAM_LIMIT_EXCEEDED.code().to_owned(), words }
    }
}

/// What the server refused, and why: fields, each a letter and a text.
///
/// # Errors
/// If it says goodbye with that.
fn refusal(message: &[u8]) -> Result<WireError, WireError> {
    let fields = message[5..].split(|byte| *byte == 0).filter_map(<[u8]>::split_first);
    let (mut code, mut words, mut is_the_end) = (String::new(), String::new(), false);
    for (field, text) in fields {
        match field {
            b'C' => code = String::from_utf8_lossy(text).into_owned(),
            b'M' => words = String::from_utf8_lossy(text).into_owned(),
            // How grave it is, in a language that is always the same.
            b'V' => is_the_end = matches!(text, b"FATAL" | b"PANIC"),
            _ => {}
        }
    }
    match is_the_end {
        true => Err(WireError::ended(&format!("{words} ({code})"))),
        false => Ok(WireError::Refused { code, words }),
    }
}

/// A message that this protocol does not have.
fn protocol_error() -> WireError {
    WireError::ended("it does not speak the protocol of PostgreSQL")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u8, body: &[u8]) -> Vec<u8> {
        let mut message = Vec::new();
        put_message(&mut message, kind, |out| out.extend_from_slice(body));
        message
    }

    /// What comes of an answer that arrives so.
    fn answer(messages: &[Vec<u8>]) -> Result<Result<Reply, WireError>, WireError> {
        let (all, mut arriving, mut at) = (messages.concat(), Arriving::default(), 0);
        loop {
            let length = Talk::length(&all[at..])?.expect("the answer is not over");
            let done = Talk.take(&mut arriving, &all[at..at + length])?;
            at += length;
            if let Some(answer) = done {
                assert_eq!(at, all.len(), "it was over before");
                return Ok(answer);
            }
        }
    }

    #[test]
    fn a_statement_goes_with_its_name_its_kinds_and_its_values() {
        let mut out = Vec::new();
        put_prepare(&mut out, Prepared(12), "SELECT $1", &[Kind::Int, Kind::Bytes]);
        assert_eq!(out, b"P\0\0\0\x1cs12\0SELECT $1\0\0\x02\0\0\0\x14\0\0\0\x11S\0\0\0\x04");
        out.clear();
        put_execute(&mut out, Prepared(3), &[Param::Int(-2), Param::Bytes(b"ab")]);
        let bind = b"B\0\0\0\x24\0s3\0\0\x01\0\x01\0\x02\0\0\0\x08\xff\xff\xff\xff\xff\xff\xff\xfe\0\0\0\x02ab\0\x01\0\x01";
        assert_eq!(out, [&bind[..], b"E\0\0\0\x09\0\0\0\0\0", b"S\0\0\0\x04"].concat());
    }

    #[test]
    fn rows_are_read_with_their_gaps_and_remarks_are_no_part_of_them() {
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
            "of another kind, or not there"
        );
        assert!(answer(&[ready]).expect("understood").expect("an answer").first().is_none());
    }

    #[test]
    fn what_is_refused_and_what_ends_the_connection_are_told_apart() {
        let [error, fatal] = ["ERROR", "FATAL"]
            .map(|grave| message(b'E', format!("SFEHLER\0V{grave}\0C55P03\0Mtoo late\0\0").as_bytes()));
        let ready = message(b'Z', b"I");
        let refused = answer(&[error.clone(), ready]).expect("understood").expect_err("refused");
        assert!(
            matches!(&refused, WireError::Refused { code, words } if code == "55P03" && words == "too late")
        );
        assert!(
            matches!(answer(std::slice::from_ref(&fatal)), Err(WireError::Ended(why)) if why.to_string().contains("too late"))
        );
        assert!(matches!(Talk.hear(&fatal), Err(WireError::Ended(_))));
        assert!(Talk.hear(&message(b'S', b"TimeZone\0UTC\0")).is_ok());
        assert!(Talk.hear(&message(b'Z', b"I")).is_err(), "it was not asked");
    }

    #[test]
    fn what_nobody_asked_for_is_no_part_of_an_answer_however_that_arrives() {
        let (remark, row, ready) = (message(b'N', b"M\0"), message(b'D', b"\0\0"), message(b'Z', b"I"));
        let all = [&remark[..], &row, &remark, &ready].concat();
        let mut arriving = Arriving::default();
        let mut idle = &all[..remark.len()];
        assert!(matches!(Talk.decode(&mut idle, &mut arriving, || None), Ok(None)));
        for cut in 0..all.len() {
            let (mut first, mut arriving) = (&all[..cut], Arriving::default());
            assert!(matches!(Talk.decode(&mut first, &mut arriving, || Some(())), Ok(None)), "{cut}");
            let mut rest = &all[cut - first.len()..];
            let answer = Talk.decode(&mut rest, &mut arriving, || Some(())).expect("understood");
            let rows = answer.expect("all of it").expect("an answer");
            assert_eq!((rows.rows().count(), rest.len()), (1, 0), "{cut}");
        }
        let mut fatal = &message(b'E', b"VFATAL\0C57P01\0Mshutdown\0\0")[..];
        let why = Talk.decode(&mut fatal, &mut Arriving::default(), || None).expect_err("the end");
        assert_eq!(why, "shutdown (57P01)");
    }

    #[test]
    fn what_the_protocol_does_not_have_ends_the_connection_without_a_panic() {
        assert!(Talk::length(b"HTTP/1.1 400").is_err());
        assert!(Talk::length(b"D\0\0\0\x03").is_err());
        assert!(matches!(Talk::length(b"D\0\0\0"), Ok(None)));
        let mut seed = 1_u64;
        let mut draw = move || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 40) as u8
        };
        for _ in 0..20_000 {
            let mut arriving = Arriving::default();
            for _ in 0..4 {
                let kind = b"DDEZC2N?"[usize::from(draw() % 8)];
                let body: Vec<u8> = (0..draw() % 24).map(|_| draw() % 12).collect();
                let message = message(kind, &body);
                assert_eq!(Talk::length(&message).ok(), Some(Some(message.len())));
                if let Ok(Some(Ok(reply))) = Talk.take(&mut arriving, &message) {
                    for row in reply.rows() {
                        let _ = (row.int(0), row.bool(1), row.text(2), row.bytes(3));
                    }
                }
            }
        }
    }
}
