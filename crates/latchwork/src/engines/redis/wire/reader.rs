//! Replies, part by part.

/// The longest line. Ours are words and numbers, and what a server complains of; what can be long says its length first.
pub(super) const LONGEST_LINE: usize = 64 * 1024;

/// What stands in a reply: all of a value, or how many others it consists of. Kinds that mean the same to us are one.
pub(super) enum Part<'a> {
    Nil,
    Int(i64),
    Text(&'a [u8]),
    Status(&'a [u8]),
    Refused(&'a [u8]),
    Array(usize),
    Push(usize),
    /// So many values of remarks, and then the value that they are about.
    Remarks(usize),
}

/// Why there is none.
pub(super) enum Stop {
    /// It has not come in full. With fewer bytes than this it cannot have.
    Incomplete(usize),
    Protocol(String),
}

/// Reads from the beginning of a part.
pub(super) struct Reader<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) at: usize,
    /// Until here no line ends that begins where this is.
    pub(super) searched: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn part(&mut self) -> Result<Part<'a>, Stop> {
        let [kind, line @ ..] = self.line()? else { return Err(protocol_error("an empty line")) };
        Ok(match kind {
            b':' => Part::Int(number(line)?),
            b'$' => self.string(line)?.map_or(Part::Nil, Part::Text),
            b'*' | b'~' => count(line)?.map_or(Part::Nil, Part::Array),
            b'%' => count(line)?.map_or(Part::Nil, |pairs| Part::Array(pairs.saturating_mul(2))),
            b'>' => count(line)?.map_or(Part::Nil, Part::Push),
            b'+' => Part::Status(line),
            b'-' => Part::Refused(line),
            b'!' => Part::Refused(self.string(line)?.unwrap_or_default()),
            b'_' => Part::Nil,
            b'#' => Part::Int(i64::from(line == b"t")),
            b',' | b'(' => Part::Text(line),
            // Behind three letters that say how it is to be shown, and a colon.
            b'=' => {
                self.string(line)?.map_or(Part::Nil, |text| Part::Text(text.get(4..).unwrap_or_default()))
            }
            b'|' => Part::Remarks(count(line)?.unwrap_or(0).saturating_mul(2)),
            _ => return Err(protocol_error(&format!("a reply that begins with byte {kind}"))),
        })
    }

    /// Until the end of the line, without that.
    fn line(&mut self) -> Result<&'a [u8], Stop> {
        let (from, limit) = (self.searched.max(self.at), self.bytes.len().min(self.at + LONGEST_LINE + 1));
        let end = self.bytes[from..limit].iter().position(|byte| *byte == b'\r').map(|end| from + end);
        #[cfg(test)]
        work::add(end.unwrap_or(limit) - from + 1);
        let Some(end) = end else {
            if limit - self.at > LONGEST_LINE {
                return Err(protocol_error(&format!("a line of more than {LONGEST_LINE} bytes")));
            }
            self.searched = limit;
            return Err(Stop::Incomplete(limit + 1));
        };
        match self.bytes.get(end + 1) {
            None => {
                self.searched = end;
                Err(Stop::Incomplete(end + 2))
            }
            Some(b'\n') => {
                let line = &self.bytes[self.at..end];
                self.at = end + 2;
                Ok(line)
            }
            Some(_) => Err(protocol_error("a line that ends in the middle")),
        }
    }

    fn string(&mut self, length: &[u8]) -> Result<Option<&'a [u8]>, Stop> {
        let Some(length) = count(length)? else { return Ok(None) };
        let rest = &self.bytes[self.at..];
        // It must fit before it can be there: what is too long is refused by whoever has to keep it.
        let (Some(text), Some(end)) = (rest.get(..length), rest.get(length..length.saturating_add(2))) else {
            return Err(Stop::Incomplete(self.at.saturating_add(length).saturating_add(2)));
        };
        if end != b"\r\n" {
            return Err(protocol_error("a string that does not end where it should"));
        }
        self.at += length + 2;
        Ok(Some(text))
    }
}

/// How many follow; `None` if there is nothing.
fn count(digits: &[u8]) -> Result<Option<usize>, Stop> {
    match number(digits)? {
        -1 => Ok(None),
        number => usize::try_from(number).map(Some).map_err(|_| protocol_error("a negative length")),
    }
}

fn number(digits: &[u8]) -> Result<i64, Stop> {
    let number = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok());
    number.ok_or_else(|| protocol_error("something else where a number should be"))
}

pub(super) fn protocol_error(why: &str) -> Stop {
    Stop::Protocol(why.to_owned())
}

/// How much tests made this thread look at, in bytes of lines.
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
