//! Reads a reply element by element.

/// The maximum length of a line. The lines of our replies are words and numbers, and error messages. A value
/// that can be long begins with its length.
pub(super) const MAX_LINE: usize = 64 * 1024;

/// An element of a reply: a whole value, or the number of values in an aggregate. RESP types that the engine
/// does not need to tell apart are one.
pub(super) enum Element<'a> {
    Nil,
    Int(i64),
    BulkString(&'a [u8]),
    SimpleString(&'a [u8]),
    Error(&'a [u8]),
    Array(usize),
    Push(usize),
    /// The number of values in an attribute. The value that it annotates follows them.
    Attributes(usize),
}

/// Why no element can be read.
pub(super) enum ReadError {
    /// The element has not arrived in full, and cannot have with fewer bytes than this.
    Incomplete(usize),
    Protocol(String),
}

/// Reads from the start of an element.
pub(super) struct RespReader<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) at: usize,
    /// The line that begins at `at` does not end before this byte.
    pub(super) searched: usize,
}

impl<'a> RespReader<'a> {
    pub(super) fn element(&mut self) -> Result<Element<'a>, ReadError> {
        let [kind, line @ ..] = self.line()? else { return Err(protocol_error("an empty line")) };
        Ok(match kind {
            b':' => Element::Int(number(line)?),
            b'$' => self.string(line)?.map_or(Element::Nil, Element::BulkString),
            b'*' | b'~' => count(line)?.map_or(Element::Nil, Element::Array),
            b'%' => count(line)?.map_or(Element::Nil, |pairs| Element::Array(pairs.saturating_mul(2))),
            b'>' => count(line)?.map_or(Element::Nil, Element::Push),
            b'+' => Element::SimpleString(line),
            b'-' => Element::Error(line),
            b'!' => Element::Error(self.string(line)?.unwrap_or_default()),
            b'_' => Element::Nil,
            b'#' => Element::Int(i64::from(line == b"t")),
            b',' | b'(' => Element::BulkString(line),
            // A verbatim string: three letters for its encoding, a colon, and the text.
            b'=' => self
                .string(line)?
                .map_or(Element::Nil, |text| Element::BulkString(text.get(4..).unwrap_or_default())),
            b'|' => Element::Attributes(count(line)?.unwrap_or(0).saturating_mul(2)),
            _ => return Err(protocol_error(&format!("a reply that begins with byte {kind}"))),
        })
    }

    /// The bytes until the end of the line, without CR LF.
    fn line(&mut self) -> Result<&'a [u8], ReadError> {
        let (from, limit) = (self.searched.max(self.at), self.bytes.len().min(self.at + MAX_LINE + 1));
        let end = self.bytes[from..limit].iter().position(|byte| *byte == b'\r').map(|end| from + end);
        #[cfg(test)]
        work::add(end.unwrap_or(limit) - from + 1);
        let Some(end) = end else {
            if limit - self.at > MAX_LINE {
                return Err(protocol_error(&format!("a line of more than {MAX_LINE} bytes")));
            }
            self.searched = limit;
            return Err(ReadError::Incomplete(limit + 1));
        };
        match self.bytes.get(end + 1) {
            None => {
                self.searched = end;
                Err(ReadError::Incomplete(end + 2))
            }
            Some(b'\n') => {
                let line = &self.bytes[self.at..end];
                self.at = end + 2;
                Ok(line)
            }
            Some(_) => Err(protocol_error("CR without LF in a line")),
        }
    }

    fn string(&mut self, length: &[u8]) -> Result<Option<&'a [u8]>, ReadError> {
        let Some(length) = count(length)? else { return Ok(None) };
        let rest = &self.bytes[self.at..];
        // No memory is reserved for it here: the read buffer refuses a reply that is too long.
        let (Some(text), Some(end)) = (rest.get(..length), rest.get(length..length.saturating_add(2))) else {
            return Err(ReadError::Incomplete(self.at.saturating_add(length).saturating_add(2)));
        };
        if end != b"\r\n" {
            return Err(protocol_error("a string that is longer than its length"));
        }
        self.at += length + 2;
        Ok(Some(text))
    }
}

/// The number of values or bytes that follow; `None` for a null.
fn count(digits: &[u8]) -> Result<Option<usize>, ReadError> {
    match number(digits)? {
        -1 => Ok(None),
        number => usize::try_from(number).map(Some).map_err(|_| protocol_error("a negative length")),
    }
}

fn number(digits: &[u8]) -> Result<i64, ReadError> {
    let number = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok());
    number.ok_or_else(|| protocol_error("a number that is not decimal"))
}

pub(super) fn protocol_error(why: &str) -> ReadError {
    ReadError::Protocol(why.to_owned())
}

/// How many bytes of lines the reader scanned on this thread.
#[cfg(test)]
pub(super) mod work {
    use std::cell::Cell;

    thread_local! {
        static DONE: Cell<usize> = const { Cell::new(0) };
    }

    pub(in super::super) fn add(bytes: usize) {
        DONE.set(DONE.get() + bytes);
    }

    pub(in super::super) fn done() -> usize {
        DONE.get()
    }
}
