//! A server's version, settings and statistics: the first requests on every connection, and their replies.

use std::time::Duration;

use super::keys::LIFE;
use super::wire::{self, ProtocolError, Reply};
use crate::clock::random_bytes;
use crate::engine::ClaimId;
use crate::engines::claim_id_hex::{encode_id, parse_id};
use crate::net::connection_error::ConnectionError;
use crate::{Error, ErrorKind, Result};

/// The oldest version whose meta commands are those of the newest.
const OLDEST: [u32; 3] = [1, 6, 10];
/// The server counts its uptime from two seconds before its start, in whole seconds.
const UPTIME_AHEAD: u64 = 3;

/// The maximum length of the replies, which are a few kilobytes long.
pub(super) const MAX_REPLY: usize = 64 * 1024;

/// A server's version, settings and statistics.
#[derive(Debug)]
pub(super) struct ServerStats {
    /// Another one after every start of the server: CAS ids begin at 1 again then.
    pub(super) life: ClaimId,
    /// The server has run for at least this long.
    pub(super) uptime: Duration,
    version: String,
    /// The number of items that it has evicted so far.
    evicted: u64,
    /// Whether the server evicts items when it is out of memory, instead of refusing to store.
    pub(super) evicts: bool,
    has_cas: bool,
}

/// All requests in one round trip. A client that finds no life on the server gives it one.
pub(super) fn requests() -> Vec<u8> {
    let mine = encode_id(ClaimId::from_bytes(random_bytes()));
    let ask = format!("stats\r\nstats settings\r\nms {LIFE} {} ME T0\r\n", mine.len());
    [ask.as_bytes(), &mine, format!("\r\nmg {LIFE} v\r\n").as_bytes()].concat()
}

/// Why a server cannot be used.
#[derive(Debug)]
pub(super) enum WireError {
    /// The connection ended.
    Ended(ConnectionError),
    ProtocolError(ProtocolError),
    /// The server requires authentication.
    Unauthenticated,
}

impl WireError {
    pub(super) fn too_long() -> Self {
        Self::ProtocolError(ProtocolError(format!("more than {MAX_REPLY} bytes of it")))
    }
}

impl From<std::io::Error> for WireError {
    fn from(error: std::io::Error) -> Self {
        Self::Ended(error.into())
    }
}

impl From<ConnectionError> for WireError {
    fn from(error: ConnectionError) -> Self {
        Self::Ended(error)
    }
}

impl ServerStats {
    /// Parses the replies. `None` if they have not arrived in full.
    ///
    /// # Errors
    /// If they are not those of a memcached server, or it requires authentication.
    pub(super) fn parse(bytes: &[u8]) -> Result<Option<Self>, WireError> {
        // A life that is shared with no other connection, for a server that has no room for one.
        let life = ClaimId::from_bytes(random_bytes());
        let mut stats = Self {
            life,
            uptime: Duration::ZERO,
            version: String::new(),
            evicted: 0,
            evicts: true,
            has_cas: false,
        };
        let mut at = 0;
        for _ in ["stats", "stats settings"] {
            loop {
                let Some((line, length)) = wire::line(&bytes[at..]).map_err(WireError::ProtocolError)? else {
                    return Ok(None);
                };
                at += length;
                match line.strip_prefix("STAT ").map(|stat| stat.split_once(' ').unwrap_or((stat, ""))) {
                    Some((stat, value)) => stats.take(stat, value),
                    None if line == "END" => break,
                    None if line.starts_with("CLIENT_ERROR unauthenticated") => {
                        return Err(WireError::Unauthenticated);
                    }
                    None => return Err(WireError::ProtocolError(ProtocolError(wire::shown(line)))),
                }
            }
        }
        for _ in ["ms", "mg"] {
            match wire::read(&bytes[at..]).map_err(WireError::ProtocolError)? {
                None => return Ok(None),
                Some((reply, length)) => {
                    at += length;
                    if let Reply::Item(item) = reply {
                        stats.life = parse_id(&item.value).unwrap_or(life);
                    }
                }
            }
        }
        Ok(Some(stats))
    }

    fn take(&mut self, stat: &str, value: &str) {
        match (stat, value) {
            ("uptime", value) => {
                let seconds = value.parse::<u64>().unwrap_or(0).saturating_sub(UPTIME_AHEAD);
                self.uptime = Duration::from_secs(seconds);
            }
            ("version", value) => self.version = wire::shown(value),
            // In `stats`, `evictions` is a count; in `stats settings` it is `on` or `off`.
            ("evictions", "off") => self.evicts = false,
            ("evictions", value) => self.evicted = value.parse().unwrap_or(self.evicted),
            ("cas_enabled", value) => self.has_cas = value == "yes",
            _ => {}
        }
    }

    /// # Errors
    /// [`ErrorKind::Unsupported`] for a server that is too old, or keeps no CAS ids.
    pub(super) fn check(&self, place: &str) -> Result<()> {
        let unsupported =
            |why: String| Err(Error::new(ErrorKind::Unsupported, format!("memcached at {place} {why}")));
        let mut numbers =
            self.version.split(|c: char| !c.is_ascii_digit()).map(|number| number.parse().unwrap_or(0));
        if [(); 3].map(|()| numbers.next().unwrap_or(0)) < OLDEST {
            return unsupported(format!("is version {:?}; it must be 1.6.10 or newer", self.version));
        }
        match self.has_cas {
            true => Ok(()),
            // Every id would be 0, and a release would delete any value that is there.
            false => unsupported(
                "keeps no CAS ids, so a client could release the lock of another; start it without -C".into(),
            ),
        }
    }

    /// The settings that a user should change.
    pub(super) fn warnings(&self, place: &str) -> Vec<String> {
        let evicts = self.evicts && self.evicted > 0;
        let warning = match (evicts, self.evicts) {
            (true, _) => format!(
                "memcached at {place} is out of memory and has evicted {} items: a lock that is held can be next; \
                 start it with more (-m), or give locks a server of their own",
                self.evicted
            ),
            (false, false) => format!(
                "memcached at {place} was started with -M: once its memory is full, a renewal deletes the lock that it \
                 was to extend; start it without"
            ),
            (false, true) => return Vec::new(),
        };
        vec![warning]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANSWER: &str = "STAT pid 7\r\nSTAT uptime 12\r\nSTAT version 1.6.18\r\nSTAT evictions 0\r\nEND\r\n\
                          STAT evictions on\r\nSTAT cas_enabled yes\r\nEND\r\nNS\r\n\
                          VA 32\r\n000102030405060708090a0b0c0d0e0f\r\n";

    fn read(answer: &str) -> ServerStats {
        ServerStats::parse(answer.as_bytes()).unwrap().expect("all of it")
    }

    #[test]
    fn stats_are_read_however_it_is_cut() {
        let stats = read(ANSWER);
        assert_eq!((stats.uptime.as_secs(), stats.life.as_bytes()[15]), (9, 15));
        assert!(stats.check("h").is_ok() && stats.warnings("h").is_empty());
        for cut in 0..ANSWER.len() {
            assert!(ServerStats::parse(&ANSWER.as_bytes()[..cut]).unwrap().is_none(), "{cut}");
        }
    }

    #[test]
    fn a_server_that_cannot_be_used_is_refused_with_the_reason() {
        let refused = |from: &str, to: &str| {
            read(&ANSWER.replace(from, to)).check("h").expect_err("refused").to_string()
        };
        assert!(refused("1.6.18", "1.6.9").contains("1.6.10 or newer"));
        assert!(refused("1.6.18", "").contains("1.6.10 or newer"));
        assert!(refused("cas_enabled yes", "cas_enabled no").contains("without -C"));
        assert!(read(&ANSWER.replace("1.6.18", "1.10.0-rc1")).check("h").is_ok());
        let warned = |from: &str, to: &str| read(&ANSWER.replace(from, to)).warnings("h").remove(0);
        assert!(warned("evictions 0", "evictions 9").contains("evicted 9 items"));
        assert!(warned("evictions on", "evictions off").contains("without"));
        let refused = ServerStats::parse(b"CLIENT_ERROR unauthenticated\r\n");
        assert!(matches!(refused, Err(WireError::Unauthenticated)));
        for unexpected in ["ERROR\r\n", "HTTP/1.1 400 Bad Request\r\n", &"x".repeat(600)] {
            assert!(
                matches!(ServerStats::parse(unexpected.as_bytes()), Err(WireError::ProtocolError(_))),
                "{unexpected}"
            );
        }
    }

    /// Two connections that were told no life share none.
    #[test]
    fn a_server_without_room_for_its_life_has_another_on_every_connection() {
        let full = ANSWER.replace(
            "NS\r\nVA 32\r\n000102030405060708090a0b0c0d0e0f\r\n",
            "SERVER_ERROR out of memory storing object\r\nEN\r\n",
        );
        assert_ne!(read(&full).life, read(&full).life);
        let unexpected = ANSWER.replace("VA 32\r\n000102030405060708090a0b0c0d0e0f", "VA 1\r\nx");
        assert_ne!(read(&unexpected).life, read(&unexpected).life);
    }
}
