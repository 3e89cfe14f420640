//! The commands of memcached's meta protocol that locks need: `ms` (store), `mg` (read), `md` (delete).

use std::io::Write as _;
use std::time::Duration;

/// The maximum length of a line. Lines of expected replies and error messages are far shorter.
const LONGEST_LINE: usize = 512;
/// The maximum length of a value: what a server stores at a key unless `-I` allows more.
const LONGEST_VALUE: usize = 1024 * 1024;
/// The maximum length of a reply.
pub(super) const LONGEST_REPLY: usize = LONGEST_LINE + LONGEST_VALUE + 2;
/// memcached takes a greater expiry for a date, in seconds since 1970.
const MAX_EXPIRY: u64 = 60 * 60 * 24 * 30;

/// Requests that are sent together, and the number of their replies.
#[derive(Default)]
pub(super) struct Requests {
    pub(super) bytes: Vec<u8>,
    pub(super) count: usize,
}

impl Requests {
    /// Stores the value if nothing is there. Of all clients that do, one succeeds.
    pub(super) fn add(key: &str, value: &[u8], ttl: Duration) -> Self {
        let mut add = Self::default();
        add.store(key, value, format_args!("ME T{}", expiry(ttl)));
        add
    }

    /// Stores the value if the stored one still has this CAS id.
    pub(super) fn swap(&mut self, key: &str, value: &[u8], cas: u64, expiry: u64) {
        self.store(key, value, format_args!("C{cas} T{expiry}"));
    }

    /// Reads value, CAS id and seconds left.
    pub(super) fn read_one(key: &str) -> Self {
        let mut requests = Self::default();
        requests.read(key);
        requests
    }

    /// [`Requests::read_one`], among other requests.
    pub(super) fn read(&mut self, key: &str) {
        self.line(format_args!("mg {key} v c t\r\n"));
    }

    /// Deletes the value if it still has this CAS id.
    pub(super) fn delete(key: &str, cas: u64) -> Self {
        let mut delete = Self::default();
        delete.line(format_args!("md {key} C{cas}\r\n"));
        delete
    }

    fn store(&mut self, key: &str, value: &[u8], flags: std::fmt::Arguments<'_>) {
        self.line(format_args!("ms {key} {} {flags} c\r\n", value.len()));
        self.bytes.extend_from_slice(value);
        self.bytes.extend_from_slice(b"\r\n");
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        self.count += 1;
        // Writing to a vector cannot fail.
        let _ = self.bytes.write_fmt(line);
    }
}

/// A client asks for so many seconds more than the lease: the server counts in whole seconds, the first of
/// which may be all but over, and its clock may tick late.
pub(super) const EXTRA_SECONDS: u64 = 2;

/// The seconds to ask for.
pub(super) fn expiry(ttl: Duration) -> u64 {
    let whole = ttl.as_secs() + u64::from(ttl.subsec_nanos() > 0);
    (whole + EXTRA_SECONDS).min(MAX_EXPIRY)
}

/// One reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    /// Success (`HD`), with the CAS id of the stored value.
    Done(u64),
    /// A value is there already (`NS`).
    NotStored,
    /// The stored value has another CAS id (`EX`).
    Changed,
    /// Nothing is there (`NF`, `EN`).
    Missing,
    /// The stored value (`VA`).
    Item(Item),
    /// The server could not do it (`SERVER_ERROR`), and says why.
    Refused(String),
}

/// The value at a key, and what the server knows about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Item {
    pub(super) value: Vec<u8>,
    pub(super) cas: u64,
    /// Whole seconds until it expires. `None`: never.
    pub(super) expires_in: Option<u64>,
}

/// Bytes that are no reply. Nothing behind them can be parsed either.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ProtocolError(pub(super) String);

/// The first reply in `bytes` and its length. `None` if it has not arrived in full.
pub(super) fn read(bytes: &[u8]) -> Result<Option<(Reply, usize)>, ProtocolError> {
    let Some((line, start)) = line(bytes)? else { return Ok(None) };
    let (code, rest) = line.split_once(' ').unwrap_or((line, ""));
    let reply = match code {
        "HD" => Reply::Done(flag(rest, 'c').unwrap_or(0)),
        "NS" => Reply::NotStored,
        "EX" => Reply::Changed,
        "NF" | "EN" => Reply::Missing,
        "VA" => return item(bytes, start, rest).map(|item| item.map(|(item, end)| (Reply::Item(item), end))),
        "SERVER_ERROR" => Reply::Refused(shown(rest)),
        _ => return Err(ProtocolError(shown(line))),
    };
    Ok(Some((reply, start)))
}

/// The first line, and the position of the next. `None` if it has not arrived in full.
pub(super) fn line(bytes: &[u8]) -> Result<Option<(&str, usize)>, ProtocolError> {
    let head = &bytes[..bytes.len().min(LONGEST_LINE)];
    let Some(end) = head.windows(2).position(|two| two == b"\r\n") else {
        return match head.len() {
            LONGEST_LINE => Err(ProtocolError(shown(&String::from_utf8_lossy(head)))),
            _ => Ok(None),
        };
    };
    let line = std::str::from_utf8(&head[..end]);
    line.map(|line| Some((line, end + 2)))
        .map_err(|_| ProtocolError(shown(&String::from_utf8_lossy(&head[..end]))))
}

fn item(bytes: &[u8], start: usize, rest: &str) -> Result<Option<(Item, usize)>, ProtocolError> {
    let (length, flags) = rest.split_once(' ').unwrap_or((rest, ""));
    let length: usize = length.parse().map_err(|_| ProtocolError(shown(rest)))?;
    if length > LONGEST_VALUE {
        return Err(ProtocolError(format!(
            "a value of {length} bytes; locks are read up to {LONGEST_VALUE}"
        )));
    }
    let end = start + length;
    let Some(value) = bytes.get(start..end) else { return Ok(None) };
    match bytes.get(end..end + 2) {
        None => Ok(None),
        Some(b"\r\n") => {
            let (cas, expires_in) = (flag(flags, 'c').unwrap_or(0), flag(flags, 't'));
            Ok(Some((Item { value: value.to_vec(), cas, expires_in }, end + 2)))
        }
        Some(_) => Err(ProtocolError(format!("a value that is not {length} bytes long"))),
    }
}

/// The number behind a flag. `None` also for `t-1`, which is for ever.
fn flag(flags: &str, name: char) -> Option<u64> {
    flags.split(' ').find_map(|flag| flag.strip_prefix(name)?.parse().ok())
}

/// Text of a server that is safe to show: short, and without control characters.
pub(super) fn shown(text: &str) -> String {
    text.chars().take(100).map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_read_one_after_the_other_however_they_are_cut() {
        let stream = b"HD c7\r\nNS c0\r\nEX c0\r\nNF\r\nEN\r\nVA 4 c9 t-1\r\n\r\nab\r\nVA 0 c1 t30\r\n\r\n\
                       SERVER_ERROR out of memory storing object\r\n";
        let item =
            |value: &[u8], cas, expires_in| Reply::Item(Item { value: value.to_vec(), cas, expires_in });
        let expected = [
            Reply::Done(7),
            Reply::NotStored,
            Reply::Changed,
            Reply::Missing,
            Reply::Missing,
            item(b"\r\nab", 9, None),
            item(b"", 1, Some(30)),
            Reply::Refused("out of memory storing object".to_owned()),
        ];
        let mut at = 0;
        for expected in expected {
            let whole = read(&stream[at..]).unwrap().expect("a reply");
            assert_eq!(whole.0, expected);
            for cut in 0..whole.1 {
                assert_eq!(read(&stream[at..at + cut]), Ok(None), "{expected:?} cut at {cut}");
            }
            at += whole.1;
        }
        assert_eq!(at, stream.len());
    }

    #[test]
    fn hostile_replies_are_errors_of_a_bounded_size() {
        let endless = "x".repeat(100_000);
        for strange in [
            "\r\n",
            "HDX\r\n",
            "ERROR\r\n",
            "CLIENT_ERROR bad data chunk\r\n",
            "STORED\r\n",
            "VA\r\n",
            "VA x c1\r\n",
            "VA -1 c1\r\n",
            "VA 18446744073709551615 c1\r\n",
            "VA 99999999999999999999999 c1\r\n",
            "VA 1048577 c1\r\n",
            "VA 2 c1\r\nabcd\r\n",
            &endless,
            "\u{1b}[2J\r\n",
        ] {
            let Err(ProtocolError(why)) = read(strange.as_bytes()) else { panic!("{strange:.40}") };
            assert!(why.len() < 500 && !why.chars().any(char::is_control), "{why}");
        }
        assert!(read(b"\xff\xfe\r\n").is_err());
        // A number too large to be one is no number.
        assert_eq!(read(b"HD c99999999999999999999999\r\n"), Ok(Some((Reply::Done(0), 29))));
    }

    #[test]
    fn requests_say_what_they_must() {
        let text = |requests: Requests| String::from_utf8(requests.bytes).unwrap();
        let second = Duration::from_secs(1);
        assert_eq!(text(Requests::add("k", b"v", 30 * second)), "ms k 1 ME T32 c\r\nv\r\n");
        assert_eq!(text(Requests::delete("k", 5)), "md k C5\r\n");
        let mut both = Requests::default();
        both.swap("k", b"v", 5, 3);
        both.read("j");
        assert_eq!((both.count, text(both)), (2, "ms k 1 C5 T3 c\r\nv\r\nmg j v c t\r\n".to_owned()));
        assert_eq!([1, 999, 1_000, 1_001].map(|millis| expiry(Duration::from_millis(millis))), [3, 3, 3, 4]);
        assert_eq!(expiry(Duration::MAX.saturating_sub(10 * second)), MAX_EXPIRY, "never a date");
    }
}
