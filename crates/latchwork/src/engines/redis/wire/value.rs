//! What is answered, and what is said without being asked.

use super::begun::{Begun, too_deep};
use super::reader::{Part, Reader, Stop};

/// So deep values may stand in each other.
pub(super) const DEEPEST: usize = 16;
/// For so many values there is room at once. For more it grows with them.
const MOST_AT_ONCE: usize = 1_024;

/// A reply. Kinds that mean the same to us are one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::engines::redis) enum Value {
    Nil,
    Int(i64),
    BulkString(Vec<u8>),
    /// A word or two, such as `OK`.
    Status(String),
    /// Also a set; and a map, keys and values in turns.
    Array(Vec<Value>),
    /// What nobody asked for; or what subscribing is answered with.
    Push(Vec<Value>),
    /// The server said no.
    Refused(String),
}

/// The first reply in `bytes`, and its length; `None` if it has not come in full. Then it is to be read again, with `begun`, when there
/// are more behind them.
///
/// # Errors
/// If it is none.
pub(in crate::engines::redis) fn read(
    bytes: &[u8],
    begun: &mut Begun,
) -> Result<Option<(Value, usize)>, String> {
    if !begun.is_worth_reading(bytes)? {
        return Ok(None);
    }
    let mut reader = Reader { bytes, at: 0, searched: 0 };
    match value(&mut reader, DEEPEST) {
        Ok(value) => {
            begun.end();
            Ok(Some((value, reader.at)))
        }
        Err(Stop::Incomplete(_)) => {
            begun.begin();
            Ok(None)
        }
        Err(Stop::Protocol(why)) => Err(why),
    }
}

fn value(reader: &mut Reader<'_>, depth: usize) -> Result<Value, Stop> {
    let left = depth.checked_sub(1).ok_or_else(too_deep)?;
    Ok(match reader.part()? {
        Part::Nil => Value::Nil,
        Part::Int(number) => Value::Int(number),
        Part::Text(bytes) => Value::BulkString(bytes.to_vec()),
        Part::Status(words) => Value::Status(text(words)),
        Part::Refused(words) => Value::Refused(text(words)),
        Part::Array(count) => Value::Array(values(reader, count, left)?),
        Part::Push(count) => Value::Push(values(reader, count, left)?),
        Part::Remarks(count) => {
            for _ in 0..count {
                value(reader, left)?;
            }
            value(reader, left)?
        }
    })
}

fn values(reader: &mut Reader<'_>, count: usize, depth: usize) -> Result<Vec<Value>, Stop> {
    // Not for as many as it says: that may be any number.
    let mut values = Vec::with_capacity(count.min(MOST_AT_ONCE));
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
    use super::super::reader::{LONGEST_LINE, work};
    use super::*;

    fn read(bytes: &[u8]) -> Result<Option<(Value, usize)>, String> {
        super::read(bytes, &mut Begun::default())
    }

    /// Reads these bytes, one reply after the other, when so many of them are there, and then so many: each time the same comes of it
    /// as of all that is there at once.
    fn read_in_pieces(bytes: &[u8], cuts: impl IntoIterator<Item = usize>) {
        let (mut begun, mut from) = (Begun::default(), 0);
        for cut in cuts {
            while from < cut {
                let (there, shown) = (&bytes[from..cut], String::from_utf8_lossy(bytes));
                let at_once = read(there);
                assert_eq!(super::read(there, &mut begun), at_once, "{shown:?} from {from} until {cut}");
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

    fn bulk(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }

    /// What arrives in pieces is the same as what arrives at once, wherever it is cut.
    #[test]
    fn every_kind_is_read_and_a_part_of_it_is_not() {
        let kinds: [(&str, Value); 17] = [
            ("_\r\n", Value::Nil),
            ("$-1\r\n", Value::Nil),
            ("*-1\r\n", Value::Nil),
            (":-7\r\n", Value::Int(-7)),
            ("#t\r\n", Value::Int(1)),
            ("#f\r\n", Value::Int(0)),
            ("$4\r\na\r\nb\r\n", bulk("a\r\nb")),
            ("$0\r\n\r\n", bulk("")),
            ("=8\r\ntxt:text\r\n", bulk("text")),
            (",1.5\r\n", bulk("1.5")),
            ("+OK\r\n", Value::Status("OK".to_owned())),
            ("-ERR no\r\n", Value::Refused("ERR no".to_owned())),
            ("!6\r\nERR no\r\n", Value::Refused("ERR no".to_owned())),
            (
                "*2\r\n:1\r\n*1\r\n$1\r\nx\r\n",
                Value::Array(vec![Value::Int(1), Value::Array(vec![bulk("x")])]),
            ),
            ("%1\r\n+a\r\n:1\r\n", Value::Array(vec![Value::Status("a".to_owned()), Value::Int(1)])),
            (">2\r\n$7\r\nmessage\r\n_\r\n", Value::Push(vec![bulk("message"), Value::Nil])),
            ("|1\r\n+ttl\r\n:9\r\n:1\r\n", Value::Int(1)),
        ];
        for (text, value) in kinds {
            let followed = format!("{text}:5\r\n");
            assert_eq!(read(followed.as_bytes()), Ok(Some((value, text.len()))), "{text:?}");
            for cut in 0..text.len() {
                assert_eq!(read(&text.as_bytes()[..cut]), Ok(None), "{text:?} cut at {cut}");
                read_in_pieces(followed.as_bytes(), [cut, text.len()]);
            }
            read_in_pieces(followed.as_bytes(), 1..=followed.len());
        }
    }

    #[test]
    fn what_is_none_is_refused_and_takes_no_memory() {
        let nested = "*1\r\n".repeat(99);
        for strange in
            ["HTTP/1.1 400\r\n", "\r\n", ":x\r\n", "$-2\r\n", "$1\r\nab\r\n", ":1\rx", nested.as_str()]
        {
            assert!(read(strange.as_bytes()).is_err(), "{strange:?}");
            read_in_pieces(strange.as_bytes(), 1..=strange.len());
        }
        for endless in ["*9999999999999\r\n", "$9223372036854775807\r\n", "%9223372036854775807\r\n:1\r\n"] {
            assert_eq!(read(endless.as_bytes()), Ok(None), "{endless:?}");
            read_in_pieces(endless.as_bytes(), 1..=endless.len());
        }
    }

    #[test]
    fn a_line_without_an_end_is_refused_and_a_string_may_be_long() {
        let line = ["+", &"x".repeat(LONGEST_LINE - 1), "\r\n"].concat();
        assert_eq!(read(line.as_bytes()).map(|read| read.map(|(_, length)| length)), Ok(Some(line.len())));
        let longer = "+".repeat(LONGEST_LINE + 1);
        assert!(read(longer.as_bytes()).is_err() && read(&longer.as_bytes()[1..]) == Ok(None));
        assert!(read([longer.as_str(), "\r\n"].concat().as_bytes()).is_err());
        read_in_pieces(longer.as_bytes(), (1..longer.len()).step_by(1_000).chain([longer.len()]));
        let string = ["$100000\r\n", &"x".repeat(100_000), "\r\n"].concat();
        assert_eq!(
            read(string.as_bytes()).map(|read| read.map(|(_, length)| length)),
            Ok(Some(string.len()))
        );
    }

    /// As of a lock for which thousands wait: read from its beginning with each piece, it would take a thousand times as long.
    #[test]
    fn what_comes_in_many_pieces_is_looked_at_a_few_times_and_no_more() {
        let waiters = "*3\r\n$4\r\nname\r\n|1\r\n+ttl\r\n:9\r\n:12345\r\n*1\r\n+ok\r\n".repeat(10_000);
        let all = ["*10000\r\n", &waiters].concat();
        let line = ["+", &"x".repeat(LONGEST_LINE - 1), "\r\n"].concat();
        let string = ["$300000\r\n", &"x".repeat(300_000), "\r\n"].concat();
        for (bytes, lines, piece) in [(&all, all.len(), 1_024), (&line, line.len(), 1), (&string, 9, 64)] {
            let (mut begun, mut read, mut pieces, before) = (Begun::default(), Ok(None), 0, work::done());
            while read == Ok(None) {
                pieces += 1;
                let there = bytes.len().min(pieces * piece);
                read = super::read(&bytes.as_bytes()[..there], &mut begun);
            }
            assert_eq!(read.map(|read| read.map(|(_, length)| length)), Ok(Some(bytes.len())));
            let work = work::done() - before;
            assert!(work <= 3 * lines + 2 * pieces, "{work} for {lines} bytes of lines in {pieces} pieces");
        }
    }

    /// Whatever arrives, in whatever pieces: an answer, or none, but no panic; and the same as if it had come at once.
    #[test]
    fn no_bytes_make_it_panic_and_no_cut_changes_what_they_are() {
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
            if let Ok(Some((_, length))) = read(&bytes) {
                assert!(length <= bytes.len());
                whole += 1;
            }
            let mut cuts: Vec<_> =
                (0..draw(&mut seed) % 8).map(|_| draw(&mut seed) % (bytes.len() + 1)).collect();
            cuts.extend([bytes.len()]);
            cuts.sort_unstable();
            read_in_pieces(&bytes, cuts);
        }
        assert!(whole > 3_000, "{whole} of them were replies");
    }
}
