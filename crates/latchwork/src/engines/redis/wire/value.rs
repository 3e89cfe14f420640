//! What is answered, and what is said without being asked.

/// So deep values may stand in each other.
const DEEPEST: usize = 16;

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

/// The first reply in `bytes`, and its length; `None` if it has not come in full.
///
/// # Errors
/// If it is none.
pub(in crate::engines::redis) fn read(bytes: &[u8]) -> Result<Option<(Value, usize)>, String> {
    let mut reader = Reader { bytes, at: 0 };
    match reader.value(DEEPEST) {
        Ok(value) => Ok(Some((value, reader.at))),
        Err(Stop::Incomplete) => Ok(None),
        Err(Stop::Strange(why)) => Err(why),
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// Why there is no value.
enum Stop {
    Incomplete,
    Strange(String),
}

impl<'a> Reader<'a> {
    fn value(&mut self, depth: usize) -> Result<Value, Stop> {
        let Some(left) = depth.checked_sub(1) else {
            return Err(Stop::Strange("values that stand in each other too deep".to_owned()));
        };
        let [kind, line @ ..] = self.line()? else { return Err(Stop::Strange("an empty line".to_owned())) };
        Ok(match kind {
            b':' => Value::Int(number(line)?),
            b'$' => self.string(line)?.map_or(Value::Nil, |text| Value::BulkString(text.to_vec())),
            b'*' | b'~' => self.values(line, 1, left)?.map_or(Value::Nil, Value::Array),
            b'%' => self.values(line, 2, left)?.map_or(Value::Nil, Value::Array),
            b'>' => self.values(line, 1, left)?.map_or(Value::Nil, Value::Push),
            b'+' => Value::Status(text(line)),
            b'-' => Value::Refused(text(line)),
            b'!' => Value::Refused(self.string(line)?.map_or_else(String::new, text)),
            b'_' => Value::Nil,
            b'#' => Value::Int(i64::from(line == b"t")),
            b',' | b'(' => Value::BulkString(line.to_vec()),
            // Behind three letters that say how it is to be shown, and a colon.
            b'=' => match self.string(line)? {
                Some(text) => Value::BulkString(text.get(4..).unwrap_or_default().to_vec()),
                None => Value::Nil,
            },
            // Remarks on the reply that follows.
            b'|' => {
                self.values(line, 2, left)?;
                self.value(left)?
            }
            _ => return Err(Stop::Strange(format!("a reply that begins with byte {kind}"))),
        })
    }

    /// Until the end of the line, without that.
    fn line(&mut self) -> Result<&'a [u8], Stop> {
        let rest = &self.bytes[self.at..];
        let end = rest.iter().position(|byte| *byte == b'\r').ok_or(Stop::Incomplete)?;
        match rest.get(end + 1) {
            None => Err(Stop::Incomplete),
            Some(b'\n') => {
                self.at += end + 2;
                Ok(&rest[..end])
            }
            Some(_) => Err(Stop::Strange("a line that ends in the middle".to_owned())),
        }
    }

    fn string(&mut self, length: &[u8]) -> Result<Option<&'a [u8]>, Stop> {
        let Some(length) = count(length)? else { return Ok(None) };
        let rest = &self.bytes[self.at..];
        // It must fit before it can be there: what is too long is refused by whoever has to keep it.
        let (Some(text), Some(end)) = (rest.get(..length), rest.get(length..length.saturating_add(2))) else {
            return Err(Stop::Incomplete);
        };
        if end != b"\r\n" {
            return Err(Stop::Strange("a string that does not end where it should".to_owned()));
        }
        self.at += length + 2;
        Ok(Some(text))
    }

    fn values(&mut self, number: &[u8], each: usize, depth: usize) -> Result<Option<Vec<Value>>, Stop> {
        let Some(number) = count(number)?.map(|number| number.saturating_mul(each)) else { return Ok(None) };
        // Not for as many as it says: none is shorter than three bytes.
        let mut values = Vec::with_capacity(number.min((self.bytes.len() - self.at) / 3));
        for _ in 0..number {
            values.push(self.value(depth)?);
        }
        Ok(Some(values))
    }
}

/// How many follow; `None` if there is nothing.
fn count(digits: &[u8]) -> Result<Option<usize>, Stop> {
    match number(digits)? {
        -1 => Ok(None),
        number => {
            usize::try_from(number).map(Some).map_err(|_| Stop::Strange("a negative length".to_owned()))
        }
    }
}

fn number(digits: &[u8]) -> Result<i64, Stop> {
    let number = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok());
    number.ok_or_else(|| Stop::Strange("something else where a number should be".to_owned()))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

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
            }
        }
    }

    #[test]
    fn what_is_none_is_refused_and_takes_no_memory() {
        let nested = "*1\r\n".repeat(99);
        for strange in
            ["HTTP/1.1 400\r\n", "\r\n", ":x\r\n", "$-2\r\n", "$1\r\nab\r\n", ":1\rx", nested.as_str()]
        {
            assert!(read(strange.as_bytes()).is_err(), "{strange:?}");
        }
        for endless in ["*9999999999999\r\n", "$9223372036854775807\r\n", "%9223372036854775807\r\n:1\r\n"] {
            assert_eq!(read(endless.as_bytes()), Ok(None), "{endless:?}");
        }
    }

    /// Whatever arrives, in whatever pieces: an answer, or none, but no panic.
    #[test]
    fn no_bytes_make_it_panic() {
        let words = [
            "*2\r\n",
            "$3\r\n",
            "abc",
            "\r\n",
            ":1\r\n",
            ">1\r\n",
            "-",
            "%1\r\n",
            "\r",
            "|1\r\n",
            "$-1\r\n",
            "\u{1f512}",
        ];
        let mut seed = 7_u64;
        for _ in 0..20_000 {
            let mut bytes = Vec::new();
            for _ in 0..seed % 9 {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                bytes.extend_from_slice(words[(seed >> 33) as usize % words.len()].as_bytes());
            }
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(3);
            if let Ok(Some((_, length))) = read(&bytes) {
                assert!(length <= bytes.len());
            }
        }
    }
}
