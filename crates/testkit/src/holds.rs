//! A record of who held a lock when, across processes on one clock, and the check that no two did at once.

use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::Path;

use latchwork::Token;
use latchwork::clock::{Clock, Moment};

/// The log of one process. Every line is one write, so a killed process leaves whole lines.
pub struct HoldLog(File);

impl HoldLog {
    /// Opens the log that all processes of a test append to.
    pub fn open(path: &Path) -> Self {
        Self(OpenOptions::new().append(true).create(true).open(path).expect("the log opens"))
    }

    /// The lock is held from here on.
    pub fn enter(&mut self, token: Token) {
        self.line("enter", token);
    }

    /// The lock is held until here.
    pub fn leave(&mut self, token: Token) {
        self.line("leave", token);
    }

    fn line(&mut self, what: &str, token: Token) {
        let mut line = String::new();
        let _ =
            writeln!(line, "{what} {token} {} {}", Clock::boottime().now().as_micros(), std::process::id());
        self.0.write_all(line.as_bytes()).expect("the log takes a line");
    }
}

/// One hold, as logged.
#[derive(Clone, Copy, Debug)]
pub struct Hold {
    /// Its token.
    pub token: u64,
    /// Microseconds on the boot clock.
    pub enter: u64,
    /// `None` if the holder was killed.
    pub leave: Option<u64>,
    /// The process.
    pub pid: u32,
}

/// Reads a log, in the order of tokens.
pub fn read(path: &Path) -> Vec<Hold> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let mut holds = std::collections::BTreeMap::new();
    for line in text.lines() {
        let mut words = line.split(' ');
        let what = words.next().unwrap_or_default();
        let mut number = || words.next().and_then(|word| word.parse::<u64>().ok()).expect("a whole line");
        let (token, at, pid) = (number(), number(), number() as u32);
        match what {
            "enter" => {
                let hold = Hold { token, enter: at, leave: None, pid };
                assert!(holds.insert(token, hold).is_none(), "token {token} was given out twice");
            }
            _ => holds.get_mut(&token).expect("entered before it left").leave = Some(at),
        }
    }
    holds.into_values().collect()
}

/// Checks that no two holds overlap and that tokens rise in the order of the holds. `killed` says when a process was
/// killed: its last hold lasted at least until then.
///
/// # Panics
/// With the two holds that break the promise.
pub fn check(holds: &[Hold], killed: impl Fn(u32) -> Option<Moment>) {
    for pair in holds.windows(2) {
        let [first, second] = pair else { continue };
        let end = first.leave.or_else(|| killed(first.pid).map(Moment::as_micros));
        let end = end.unwrap_or(first.enter);
        assert!(second.enter >= end, "held twice, or tokens out of order: {first:?} then {second:?}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hold(token: u64, enter: u64, leave: Option<u64>) -> Hold {
        Hold { token, enter, leave, pid: 1 }
    }

    #[test]
    fn orderly_holds_pass() {
        check(&[hold(1, 10, Some(20)), hold(2, 20, None), hold(5, 31, Some(40))], |_| {
            Some(Moment::from_micros(30))
        });
    }

    #[test]
    #[should_panic(expected = "held twice")]
    fn an_overlap_is_found() {
        check(&[hold(1, 10, Some(20)), hold(2, 19, Some(30))], |_| None);
    }

    #[test]
    #[should_panic(expected = "held twice")]
    fn a_token_that_goes_back_is_found() {
        check(&[hold(1, 50, Some(60)), hold(2, 10, Some(20))], |_| None);
    }

    #[test]
    #[should_panic(expected = "held twice")]
    fn a_hold_that_began_before_its_predecessor_was_killed_is_found() {
        check(&[hold(1, 10, None), hold(2, 20, Some(30))], |_| Some(Moment::from_micros(25)));
    }
}
