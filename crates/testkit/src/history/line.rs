//! An event as a line of text, for people and for other processes.
//!
//! `12.000345678 4711.1 #17 orders/42 acquired token=4352 until=42.000345678`: seconds on the history's
//! clock, process and client, attempt, lock, and what happened. In a lock's name, space and `%` are written
//! as `%20` and `%25`.

use std::fmt;
use std::str::{FromStr, Split};
use std::time::Duration;

use latchwork::clock::Moment;
use latchwork::engine::Mode;
use latchwork::{LockName, Loss};

use super::event::{Event, GaveUp, What};

const START: Moment = Moment::from_micros(0);
const LOSSES: [Loss; 5] =
    [Loss::Expired, Loss::Revoked, Loss::Removed, Loss::SessionEnded, Loss::Unreachable];

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} #{} ", Seconds(self.at), self.who, self.attempt)?;
        match &self.lock {
            Some(lock) => write_name(lock.as_str(), f)?,
            None => f.write_str("-")?,
        }
        write!(f, " {}", self.what)
    }
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Started => f.write_str("started"),
            Self::Invoked(mode) => write_mode(*mode, f),
            Self::Queued => f.write_str("queued"),
            Self::Acquired { token: Some(token), lease_end } => {
                write!(f, "acquired token={token} until={}", Seconds(*lease_end))
            }
            Self::Acquired { token: None, lease_end } => {
                write!(f, "acquired token=none until={}", Seconds(*lease_end))
            }
            Self::Extended { lease_end } => write!(f, "extended until={}", Seconds(*lease_end)),
            Self::GaveUp(GaveUp::Busy) => f.write_str("gave-up busy"),
            Self::GaveUp(GaveUp::TimedOut) => f.write_str("gave-up timed-out"),
            Self::Failed => f.write_str("failed"),
            Self::Unknown { held_until } => write!(f, "unknown until={}", Seconds(*held_until)),
            Self::Cancelled { held_until } => write!(f, "cancelled until={}", Seconds(*held_until)),
            Self::ReleaseInvoked => f.write_str("release"),
            Self::Released => f.write_str("released"),
            Self::ReleaseFailed => f.write_str("release-failed"),
            Self::Listening => f.write_str("listening"),
            Self::Deaf { lease_end } => write!(f, "deaf until={}", Seconds(*lease_end)),
            Self::Told { loss, lease_end } => write!(f, "told {loss:?} until={}", Seconds(*lease_end)),
            Self::FoundLost(loss) => write!(f, "found-lost {loss:?}"),
            Self::Watching => f.write_str("watching"),
            Self::Saw { term } => write!(f, "saw {term}"),
            Self::LookedAway => f.write_str("looked-away"),
            Self::Named { term: Some(term), asked } => write!(f, "named {term} asked={}", Seconds(*asked)),
            Self::Named { term: None, asked } => write!(f, "named nobody asked={}", Seconds(*asked)),
            Self::Stopped => f.write_str("stopped"),
            Self::Killed => f.write_str("killed"),
            Self::FaultBegan(fault) => write!(f, "fault-began {fault}"),
            Self::FaultEnded(fault) => write!(f, "fault-ended {fault}"),
            Self::Quiesced => f.write_str("quiesced"),
        }
    }
}

impl FromStr for Event {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let mut words = line.split(' ');
        let event = (|| {
            Some(Self {
                at: read_seconds(words.next()?)?,
                who: words.next()?.parse().ok()?,
                attempt: words.next()?.strip_prefix('#')?.parse().ok()?,
                lock: match words.next()? {
                    "-" => None,
                    name => Some(read_name(name)?),
                },
                what: read_what(&mut words)?,
            })
        })();
        event.filter(|_| words.next().is_none()).ok_or_else(|| format!("not an event: {line:?}"))
    }
}

fn read_what(words: &mut Split<'_, char>) -> Option<What> {
    Some(match words.next()? {
        "started" => What::Started,
        "invoked" => What::Invoked(read_mode(words.next()?)?),
        "queued" => What::Queued,
        "acquired" => What::Acquired { token: read_token(words.next()?)?, lease_end: read_until(words)? },
        "extended" => What::Extended { lease_end: read_until(words)? },
        "gave-up" => What::GaveUp(match words.next()? {
            "busy" => GaveUp::Busy,
            "timed-out" => GaveUp::TimedOut,
            _ => return None,
        }),
        "failed" => What::Failed,
        "unknown" => What::Unknown { held_until: read_until(words)? },
        "cancelled" => What::Cancelled { held_until: read_until(words)? },
        "release" => What::ReleaseInvoked,
        "released" => What::Released,
        "release-failed" => What::ReleaseFailed,
        "listening" => What::Listening,
        "deaf" => What::Deaf { lease_end: read_until(words)? },
        "told" => What::Told { loss: read_loss(words.next()?)?, lease_end: read_until(words)? },
        "found-lost" => What::FoundLost(read_loss(words.next()?)?),
        "watching" => What::Watching,
        "saw" => What::Saw { term: words.next()?.parse().ok()? },
        "looked-away" => What::LookedAway,
        "named" => What::Named { term: read_term(words.next()?)?, asked: read_moment(words, "asked=")? },
        "stopped" => What::Stopped,
        "killed" => What::Killed,
        "fault-began" => What::FaultBegan(words.next()?.parse().ok()?),
        "fault-ended" => What::FaultEnded(words.next()?.parse().ok()?),
        "quiesced" => What::Quiesced,
        _ => return None,
    })
}

/// A moment in seconds, to the nanosecond.
pub(super) struct Seconds(pub(super) Moment);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == Moment::NEVER {
            return f.write_str("never");
        }
        let since = self.0.since(START);
        write!(f, "{}.{:09}", since.as_secs(), since.subsec_nanos())
    }
}

fn read_seconds(text: &str) -> Option<Moment> {
    if text == "never" {
        return Some(Moment::NEVER);
    }
    let (whole, part) = text.split_once('.')?;
    let digits = u32::try_from(part.len()).ok().filter(|digits| (1..=9).contains(digits))?;
    let nanos = part.parse::<u32>().ok()? * 10_u32.pow(9 - digits);
    Some(START.after(Duration::new(whole.parse().ok()?, nanos)))
}

fn read_until(words: &mut Split<'_, char>) -> Option<Moment> {
    read_moment(words, "until=")
}

fn read_moment(words: &mut Split<'_, char>, what: &str) -> Option<Moment> {
    read_seconds(words.next()?.strip_prefix(what)?)
}

fn read_term(word: &str) -> Option<Option<u64>> {
    match word {
        "nobody" => Some(None),
        number => number.parse().ok().map(Some),
    }
}

fn read_token(word: &str) -> Option<Option<u64>> {
    match word.strip_prefix("token=")? {
        "none" => Some(None),
        number => number.parse().ok().map(Some),
    }
}

fn read_loss(word: &str) -> Option<Loss> {
    LOSSES.into_iter().find(|loss| format!("{loss:?}") == word)
}

fn write_mode(mode: Mode, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match mode {
        Mode::Exclusive => f.write_str("invoked exclusive"),
        Mode::Read => f.write_str("invoked read"),
        Mode::Write => f.write_str("invoked write"),
        Mode::Permit { of } => write!(f, "invoked permit/{of}"),
        other => write!(f, "invoked {other:?}"),
    }
}

fn read_mode(word: &str) -> Option<Mode> {
    Some(match word {
        "exclusive" => Mode::Exclusive,
        "read" => Mode::Read,
        "write" => Mode::Write,
        permit => Mode::Permit { of: permit.strip_prefix("permit/")?.parse().ok()? },
    })
}

/// A name that is a lone hyphen is escaped too: that would mean "no lock".
fn write_name(name: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    if name == "-" {
        return f.write_str("%2D");
    }
    let mut rest = name;
    while let Some(at) = rest.find([' ', '%']) {
        write!(f, "{}%{:02X}", &rest[..at], rest.as_bytes()[at])?;
        rest = &rest[at + 1..];
    }
    f.write_str(rest)
}

fn read_name(text: &str) -> Option<LockName> {
    if !text.contains('%') {
        return LockName::new(text).ok();
    }
    let mut parts = text.split('%');
    let mut name = parts.next()?.to_owned();
    for part in parts {
        let code = part.get(..2)?;
        name.push(char::from(u8::from_str_radix(code, 16).ok()?));
        name.push_str(&part[2..]);
    }
    LockName::new(name).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{Fault, Tag};

    fn event(lock: Option<&str>, what: What) -> Event {
        Event {
            at: START.after(Duration::from_nanos(12_000_345_678)),
            who: Tag { process: 4711, client: 1 },
            attempt: 17,
            lock: lock.map(|name| LockName::new(name).unwrap()),
            what,
        }
    }

    #[test]
    fn every_kind_of_event_is_read_as_it_was_written() {
        let lease_end = Moment::from_micros(42_000_345);
        let kinds = [
            What::Started,
            What::Invoked(Mode::Exclusive),
            What::Invoked(Mode::Read),
            What::Invoked(Mode::Write),
            What::Invoked(Mode::Permit { of: 3 }),
            What::Queued,
            What::Acquired { token: Some(4352), lease_end },
            What::Acquired { token: None, lease_end: Moment::NEVER },
            What::Extended { lease_end },
            What::GaveUp(GaveUp::Busy),
            What::GaveUp(GaveUp::TimedOut),
            What::Failed,
            What::Unknown { held_until: lease_end },
            What::Cancelled { held_until: lease_end },
            What::ReleaseInvoked,
            What::Released,
            What::ReleaseFailed,
            What::Listening,
            What::Deaf { lease_end },
            What::Told { loss: Loss::Unreachable, lease_end },
            What::FoundLost(Loss::SessionEnded),
            What::Watching,
            What::Saw { term: 512 },
            What::LookedAway,
            What::Named { term: Some(512), asked: lease_end },
            What::Named { term: None, asked: lease_end },
            What::Stopped,
            What::Killed,
            What::FaultBegan(Fault::HolderPause),
            What::FaultEnded(Fault::Trouble),
            What::Quiesced,
        ];
        for what in kinds {
            let written = event(Some("a"), what);
            assert_eq!(written.to_string().parse::<Event>().as_ref(), Ok(&written), "{written}");
        }
    }

    #[test]
    fn a_name_may_be_anything() {
        for name in ["orders/42", " ", "two words", "-", "--", "100%", "%20", "naïve 🔒\u{2028}", "#1", "."]
        {
            let written = event(Some(name), What::Queued);
            assert_eq!(written.to_string().parse::<Event>().as_ref(), Ok(&written), "{written}");
            assert_eq!(written.to_string().split(' ').count(), 5, "{written}");
        }
        assert_eq!(event(None, What::Killed).to_string().parse(), Ok(event(None, What::Killed)));
    }

    #[test]
    fn an_event_is_readable() {
        let acquired = What::Acquired { token: Some(9), lease_end: Moment::from_micros(42_500_000) };
        assert_eq!(
            event(Some("a b"), acquired).to_string(),
            "12.000345678 4711.1 #17 a%20b acquired token=9 until=42.500000000"
        );
    }

    #[test]
    fn text_that_is_not_an_event_is_refused() {
        for bad in
            ["", "12.0 1.1 #1 a", "12 1.1 #1 a queued", "12.0 1.1 #1 a queued twice", "12.0 1 #1 a queued"]
        {
            assert!(bad.parse::<Event>().unwrap_err().contains("not an event"), "{bad}");
        }
    }
}
