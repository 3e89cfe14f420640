//! The calls on a cell as lines of text, shared between processes.
//!
//! `12345 12399 wrote 7 6162 8` is one call: its start and end in microseconds, its kind, the version it saw,
//! the value in hexadecimal digits, and the version it wrote, `changed` or `?`. A read is `12345 12399 read 8
//! 6162`, or `read none`.

use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::Path;

use latchwork::clock::Moment;
use latchwork::{CellState, Version, Written};

use crate::cell_history::{Did, Operation};

const START: Moment = Moment::from_micros(0);

/// A file to which many processes append. Every call is one `write` of one line. A write is also recorded
/// before it is sent, so that a killed process omits none.
pub(crate) struct CellFile(File);

impl CellFile {
    pub(crate) fn open(path: &Path) -> Self {
        Self(OpenOptions::new().append(true).create(true).open(path).expect("the cell's history opens"))
    }

    pub(crate) fn note(&self, operation: &Operation) {
        // The line break comes first, so that a line cut short by a kill does not swallow the next one.
        let line = format!("\n{} .", line(operation));
        let written = (&self.0).write(line.as_bytes()).expect("the cell's history takes a line");
        assert_eq!(written, line.len(), "the cell's history takes whole lines");
    }

    /// Calls that were answered, and calls that began without an answer.
    pub(crate) fn read(path: &Path) -> Vec<Operation> {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let whole = text.lines().filter_map(|line| line.strip_suffix(" ."));
        let all: Vec<_> =
            whole.map(|line| parse(line).unwrap_or_else(|| panic!("not a call: {line}"))).collect();
        let is_begun = |operation: &Operation| operation.ended == Moment::NEVER;
        let answered: HashSet<_> =
            all.iter().filter(|operation| !is_begun(operation)).filter_map(written).collect();
        let is_over =
            |operation: &Operation| written(operation).is_some_and(|value| answered.contains(&value));
        all.iter().filter(|operation| !is_begun(operation) || !is_over(operation)).cloned().collect()
    }
}

/// No value is written twice.
fn written(operation: &Operation) -> Option<Vec<u8>> {
    match &operation.did {
        Did::Wrote { value, .. } => Some(value.clone()),
        Did::Read(_) => None,
    }
}

fn line(operation: &Operation) -> String {
    let micros = |moment: Moment| match moment {
        Moment::NEVER => "never".to_owned(),
        moment => moment.since(START).as_micros().to_string(),
    };
    let (began, ended) = (micros(operation.began), micros(operation.ended));
    let did = match &operation.did {
        Did::Read(CellState { value: None, .. }) => "read none".to_owned(),
        Did::Read(CellState { version, value: Some(value) }) => format!("read {version} {}", hex(value)),
        Did::Wrote { seen, value, answer } => {
            let answer = match answer {
                Some(Written::Done(version)) => version.to_string(),
                Some(Written::Changed) => "changed".to_owned(),
                None => "?".to_owned(),
            };
            format!("wrote {seen} {} {answer}", hex(value))
        }
    };
    format!("{began} {ended} {did}")
}

fn parse(line: &str) -> Option<Operation> {
    let words: Vec<_> = line.split(' ').collect();
    let moment = |word: &str| match word {
        "never" => Some(Moment::NEVER),
        micros => micros.parse().ok().map(Moment::from_micros),
    };
    let version = |word: &str| word.parse().ok().map(Version::new);
    let did = match words[2..] {
        ["read", "none"] => Did::Read(CellState::ABSENT),
        ["read", found, value] => Did::Read(CellState::new(version(found)?, bytes(value)?)),
        ["wrote", seen, value, answer] => {
            let answer = match answer {
                "?" => None,
                "changed" => Some(Written::Changed),
                done => Some(Written::Done(version(done)?)),
            };
            Did::Wrote { seen: version(seen)?, value: bytes(value)?, answer }
        }
        _ => return None,
    };
    Some(Operation { began: moment(words[0])?, ended: moment(words[1])?, did })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes(hex: &str) -> Option<Vec<u8>> {
    let digits = hex.as_bytes().chunks(2);
    digits.map(|pair| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unanswered_call_may_have_taken_effect() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let record = CellFile::open(file.path());
        let wrote = |value: &str, ended: Moment, answer: Option<Written>| {
            let (seen, value) = (Version::new(1 << 70), value.into());
            let operation = Operation { began: START, ended, did: Did::Wrote { seen, value, answer } };
            record.note(&operation);
        };
        let (later, done) = (Moment::from_micros(7), Written::Done(Version::new((1 << 70) + 1)));
        wrote("answered", Moment::NEVER, None);
        wrote("answered", later, Some(done));
        wrote("killed", Moment::NEVER, None);
        wrote("refused", Moment::NEVER, None);
        wrote("refused", later, Some(Written::Changed));
        let state = CellState::new(Version::new((1 << 70) + 1), b"answered".to_vec());
        record.note(&Operation { began: later, ended: later, did: Did::Read(state) });
        record.note(&Operation { began: START, ended: later, did: Did::Read(CellState::ABSENT) });
        (&record.0).write_all(b"\n12 13 wrote 5").unwrap();
        let read: Vec<_> = CellFile::read(file.path()).iter().map(line).collect();
        let seen = 1_u128 << 70;
        let expected = [
            format!("0 7 wrote {seen} {} {}", hex(b"answered"), seen + 1),
            format!("0 never wrote {seen} {} ?", hex(b"killed")),
            format!("0 7 wrote {seen} {} changed", hex(b"refused")),
            format!("7 7 read {} {}", seen + 1, hex(b"answered")),
            "0 7 read none".to_owned(),
        ];
        assert_eq!(read, expected);
    }
}
