//! Replies, and the messages that the server pushes.

use super::reader::{Element, ReadError, RespReader};
use super::scan_progress::{ScanProgress, too_deep};

/// Maximum nesting depth of a reply.
pub(super) const MAX_DEPTH: usize = 16;
/// The number of values for which an array has room at first. For more it grows as they arrive.
const INITIAL_CAPACITY: usize = 1_024;

/// A reply. RESP types that the engine does not need to tell apart are one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::engines::redis) enum Reply {
    Nil,
    Int(i64),
    BulkString(Vec<u8>),
    /// Such as `OK`.
    SimpleString(String),
    /// Also a set; and a map, as keys and values in turn.
    Array(Vec<Reply>),
    /// A pushed message; or the reply to SUBSCRIBE.
    Push(Vec<Reply>),
    Error(String),
}

/// The first reply in `bytes`, and its length; `None` if it has not arrived in full. The same reply is then
/// parsed again, with `progress` as this left it, when more bytes are behind these.
///
/// # Errors
/// If the bytes are not a reply.
pub(in crate::engines::redis) fn parse(
    bytes: &[u8],
    progress: &mut ScanProgress,
) -> Result<Option<(Reply, usize)>, String> {
    if !progress.is_ready(bytes)? {
        return Ok(None);
    }
    let mut reader = RespReader { bytes, at: 0, searched: 0 };
    match value(&mut reader, MAX_DEPTH) {
        Ok(reply) => {
            progress.end();
            Ok(Some((reply, reader.at)))
        }
        Err(ReadError::Incomplete(_)) => {
            progress.begin();
            Ok(None)
        }
        Err(ReadError::Protocol(why)) => Err(why),
    }
}

fn value(reader: &mut RespReader<'_>, depth: usize) -> Result<Reply, ReadError> {
    let left = depth.checked_sub(1).ok_or_else(too_deep)?;
    Ok(match reader.element()? {
        Element::Nil => Reply::Nil,
        Element::Int(number) => Reply::Int(number),
        Element::BulkString(bytes) => Reply::BulkString(bytes.to_vec()),
        Element::SimpleString(line) => Reply::SimpleString(text(line)),
        Element::Error(message) => Reply::Error(text(message)),
        Element::Array(count) => Reply::Array(values(reader, count, left)?),
        Element::Push(count) => Reply::Push(values(reader, count, left)?),
        Element::Attributes(count) => {
            for _ in 0..count {
                value(reader, left)?;
            }
            value(reader, left)?
        }
    })
}

fn values(reader: &mut RespReader<'_>, count: usize, depth: usize) -> Result<Vec<Reply>, ReadError> {
    // Not for `count` values: the server may send any number.
    let mut values = Vec::with_capacity(count.min(INITIAL_CAPACITY));
    for _ in 0..count {
        values.push(value(reader, depth)?);
    }
    Ok(values)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::super::reader::{MAX_LINE, work};
    use super::*;

    fn parse(bytes: &[u8]) -> Result<Option<(Reply, usize)>, String> {
        super::parse(bytes, &mut ScanProgress::default())
    }

    /// Parses reply after reply while the bytes arrive in pieces that end at `cuts`. Each parse must return
    /// what parsing all bytes that are there at once returns.
    fn parse_in_pieces(bytes: &[u8], cuts: impl IntoIterator<Item = usize>) {
        let (mut progress, mut from) = (ScanProgress::default(), 0);
        for cut in cuts {
            while from < cut {
                let (there, shown) = (&bytes[from..cut], String::from_utf8_lossy(bytes));
                let at_once = parse(there);
                assert_eq!(super::parse(there, &mut progress), at_once, "{shown:?} from {from} until {cut}");
                match at_once {
                    Ok(Some((_, length))) => from += length,
                    Ok(None) => break,
                    Err(_) => return,
                }
            }
        }
    }

    fn draw(seed: &mut u64) -> usize {
        *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*seed >> 33) as usize
    }

    fn bulk(text: &str) -> Reply {
        Reply::BulkString(text.as_bytes().to_vec())
    }

    /// A reply that arrives in pieces is the same as one that arrives at once, wherever it is cut.
    #[test]
    fn every_type_is_parsed_and_a_part_of_it_is_not() {
        let kinds: [(&str, Reply); 17] = [
            ("_\r\n", Reply::Nil),
            ("$-1\r\n", Reply::Nil),
            ("*-1\r\n", Reply::Nil),
            (":-7\r\n", Reply::Int(-7)),
            ("#t\r\n", Reply::Int(1)),
            ("#f\r\n", Reply::Int(0)),
            ("$4\r\na\r\nb\r\n", bulk("a\r\nb")),
            ("$0\r\n\r\n", bulk("")),
            ("=8\r\ntxt:text\r\n", bulk("text")),
            (",1.5\r\n", bulk("1.5")),
            ("+OK\r\n", Reply::SimpleString("OK".to_owned())),
            ("-ERR no\r\n", Reply::Error("ERR no".to_owned())),
            ("!6\r\nERR no\r\n", Reply::Error("ERR no".to_owned())),
            (
                "*2\r\n:1\r\n*1\r\n$1\r\nx\r\n",
                Reply::Array(vec![Reply::Int(1), Reply::Array(vec![bulk("x")])]),
            ),
            ("%1\r\n+a\r\n:1\r\n", Reply::Array(vec![Reply::SimpleString("a".to_owned()), Reply::Int(1)])),
            (">2\r\n$7\r\nmessage\r\n_\r\n", Reply::Push(vec![bulk("message"), Reply::Nil])),
            ("|1\r\n+ttl\r\n:9\r\n:1\r\n", Reply::Int(1)),
        ];
        for (text, value) in kinds {
            let followed = format!("{text}:5\r\n");
            assert_eq!(parse(followed.as_bytes()), Ok(Some((value, text.len()))), "{text:?}");
            for cut in 0..text.len() {
                assert_eq!(parse(&text.as_bytes()[..cut]), Ok(None), "{text:?} cut at {cut}");
                parse_in_pieces(followed.as_bytes(), [cut, text.len()]);
            }
            parse_in_pieces(followed.as_bytes(), 1..=followed.len());
        }
    }

    #[test]
    fn malformed_replies_are_refused_and_take_no_memory() {
        let nested = "*1\r\n".repeat(99);
        for malformed in
            ["HTTP/1.1 400\r\n", "\r\n", ":x\r\n", "$-2\r\n", "$1\r\nab\r\n", ":1\rx", nested.as_str()]
        {
            assert!(parse(malformed.as_bytes()).is_err(), "{malformed:?}");
            parse_in_pieces(malformed.as_bytes(), 1..=malformed.len());
        }
        for endless in ["*9999999999999\r\n", "$9223372036854775807\r\n", "%9223372036854775807\r\n:1\r\n"] {
            assert_eq!(parse(endless.as_bytes()), Ok(None), "{endless:?}");
            parse_in_pieces(endless.as_bytes(), 1..=endless.len());
        }
    }

    #[test]
    fn a_line_without_an_end_is_refused_and_a_string_may_be_long() {
        let line = ["+", &"x".repeat(MAX_LINE - 1), "\r\n"].concat();
        assert_eq!(parse(line.as_bytes()).map(|read| read.map(|(_, length)| length)), Ok(Some(line.len())));
        let longer = "+".repeat(MAX_LINE + 1);
        assert!(parse(longer.as_bytes()).is_err() && parse(&longer.as_bytes()[1..]) == Ok(None));
        assert!(parse([longer.as_str(), "\r\n"].concat().as_bytes()).is_err());
        parse_in_pieces(longer.as_bytes(), (1..longer.len()).step_by(1_000).chain([longer.len()]));
        let string = ["$100000\r\n", &"x".repeat(100_000), "\r\n"].concat();
        assert_eq!(
            parse(string.as_bytes()).map(|read| read.map(|(_, length)| length)),
            Ok(Some(string.len()))
        );
    }

    /// Such as the reply for a lock with thousands of waiters: scanned from its first byte with each piece,
    /// it would take a thousand times as long.
    #[test]
    fn a_reply_in_many_pieces_is_scanned_a_few_times_and_no_more() {
        let waiters = "*3\r\n$4\r\nname\r\n|1\r\n+ttl\r\n:9\r\n:12345\r\n*1\r\n+ok\r\n".repeat(10_000);
        let all = ["*10000\r\n", &waiters].concat();
        let line = ["+", &"x".repeat(MAX_LINE - 1), "\r\n"].concat();
        let string = ["$300000\r\n", &"x".repeat(300_000), "\r\n"].concat();
        for (bytes, lines, piece) in [(&all, all.len(), 1_024), (&line, line.len(), 1), (&string, 9, 64)] {
            let (mut progress, mut read, mut pieces, before) =
                (ScanProgress::default(), Ok(None), 0, work::done());
            while read == Ok(None) {
                pieces += 1;
                let there = bytes.len().min(pieces * piece);
                read = super::parse(&bytes.as_bytes()[..there], &mut progress);
            }
            assert_eq!(read.map(|read| read.map(|(_, length)| length)), Ok(Some(bytes.len())));
            let work = work::done() - before;
            assert!(work <= 3 * lines + 2 * pieces, "{work} for {lines} bytes of lines in {pieces} pieces");
        }
    }

    /// Any bytes, in any pieces, are a reply or an error, without a panic, and the same as if they had
    /// arrived at once.
    #[test]
    fn no_bytes_cause_a_panic_and_no_cut_changes_the_reply() {
        let words = [
            "*2\r\n",
            "*3\r\n",
            "*0\r\n",
            "$3\r\n",
            "$3\r\nabc\r\n",
            "abc",
            "\r\n",
            ":1\r\n",
            ">1\r\n",
            "-",
            "-no\r\n",
            "%1\r\n",
            "\r",
            "|1\r\n",
            "|-1\r\n",
            "*-1\r\n",
            "$-1\r\n",
            "_\r\n",
            "=5\r\ntxt:x\r\n",
            "\u{1f512}",
        ];
        let (mut seed, mut whole) = (7_u64, 0);
        for _ in 0..30_000 {
            let mut bytes = Vec::new();
            for _ in 0..draw(&mut seed) % 16 {
                bytes.extend_from_slice(words[draw(&mut seed) % words.len()].as_bytes());
            }
            if let Ok(Some((_, length))) = parse(&bytes) {
                assert!(length <= bytes.len());
                whole += 1;
            }
            let mut cuts: Vec<_> =
                (0..draw(&mut seed) % 8).map(|_| draw(&mut seed) % (bytes.len() + 1)).collect();
            cuts.extend([bytes.len()]);
            cuts.sort_unstable();
            parse_in_pieces(&bytes, cuts);
        }
        assert!(whole > 3_000, "{whole} of them were replies");
    }
}
