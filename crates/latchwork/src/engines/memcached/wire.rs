//! The few words of memcached's meta protocol that locks need.

use std::io::Write as _;
use std::time::Duration;

/// The longest line of a reply. Ours are far shorter, and so are the server's complaints.
const LONGEST_LINE: usize = 512;
/// The longest value that is read: what a server stores at a key unless it was told to store more (`-I`).
const LONGEST_VALUE: usize = 1024 * 1024;
/// The longest reply.
pub(super) const LONGEST_REPLY: usize = LONGEST_LINE + LONGEST_VALUE + 2;
/// From so many seconds on, memcached takes an expiry for a date.
const A_DATE: u64 = 60 * 60 * 24 * 30;

/// Requests that are sent in one go, and how many replies they have.
#[derive(Default)]
pub(super) struct Requests {
    pub(super) bytes: Vec<u8>,
    pub(super) count: usize,
}

impl Requests {
    /// Stores the value if nothing is there: of all who ask, one is told that it did.
    pub(super) fn add(key: &str, value: &[u8], ttl: Duration) -> Self {
        let mut add = Self::default();
        add.store(key, value, format_args!("ME T{}", expiry(ttl)));
        add
    }

    /// Stores the value if nobody has changed what is there since it had this CAS id.
    pub(super) fn swap(&mut self, key: &str, value: &[u8], cas: u64, expiry: u64) {
        self.store(key, value, format_args!("C{cas} T{expiry}"));
    }

    /// Value, CAS id and seconds left of one key.
    pub(super) fn glance(key: &str) -> Self {
        let mut look = Self::default();
        look.look(key);
        look
    }

    /// The same among other requests.
    pub(super) fn look(&mut self, key: &str) {
        self.line(format_args!("mg {key} v c t\r\n"));
    }

    /// Deletes what is there if nobody has changed it since it had this CAS id.
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
        // A vector takes everything.
        let _ = self.bytes.write_fmt(line);
    }
}

/// How many seconds more than promised are asked for: the server counts in whole ones, the first of which may be all but
/// over, and its clock may tick late.
pub(super) const MORE: u64 = 2;

/// The seconds to ask for.
pub(super) fn expiry(ttl: Duration) -> u64 {
    let whole = ttl.as_secs() + u64::from(ttl.subsec_nanos() > 0);
    (whole + MORE).min(A_DATE)
}

/// One reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    /// It was done, and what is stored has this CAS id.
    Done(u64),
    /// Something is there already.
    NotStored,
    /// What is there was changed.
    Changed,
    /// Nothing is there.
    Missing,
    /// What is there.
    Item(Item),
    /// The server could not do it, and says why.
    Refused(String),
}

/// What stands at a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Item {
    pub(super) value: Vec<u8>,
    pub(super) cas: u64,
    /// Whole seconds until it expires; none if it never does.
    pub(super) left: Option<u64>,
}

/// A reply that is none. Whatever follows it cannot be understood either.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ProtocolError(pub(super) String);

/// The first reply in `bytes` and its length; none if it has not come in full.
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

/// The first line, and where the next begins.
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
            let (cas, left) = (flag(flags, 'c').unwrap_or(0), flag(flags, 't'));
            Ok(Some((Item { value: value.to_vec(), cas, left }, end + 2)))
        }
        Some(_) => Err(ProtocolError(format!("a value that is not {length} bytes long"))),
    }
}

/// The number behind a flag, if there is one: `t-1` is for ever, and none.
fn flag(flags: &str, name: char) -> Option<u64> {
    flags.split(' ').find_map(|flag| flag.strip_prefix(name)?.parse().ok())
}

/// What a server said, as it may be shown: not much, and nothing that moves a cursor.
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
        let item = |value: &[u8], cas, left| Reply::Item(Item { value: value.to_vec(), cas, left });
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
        both.look("j");
        assert_eq!((both.count, text(both)), (2, "ms k 1 C5 T3 c\r\nv\r\nmg j v c t\r\n".to_owned()));
        assert_eq!([1, 999, 1_000, 1_001].map(|millis| expiry(Duration::from_millis(millis))), [3, 3, 3, 4]);
        assert_eq!(expiry(Duration::MAX.saturating_sub(10 * second)), A_DATE, "never a date");
    }
}
