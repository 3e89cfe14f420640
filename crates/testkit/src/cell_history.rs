//! The reads and writes of one cell, and a check that they are linearizable.
//!
//! Versions give the order of all writes, so no search is needed: every answer names its place in that order.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Mutex;

use latchwork::clock::{Clock, Moment};
use latchwork::{Cell, CellState, Effect, Result, Version, Written};

use crate::cell_file::CellFile;

/// One call and its answer.
#[derive(Clone, Debug)]
pub struct Operation {
    /// Before it was sent.
    pub began: Moment,
    /// After it was answered.
    pub ended: Moment,
    /// The call and its answer.
    pub did: Did,
}

/// A call with its answer.
#[derive(Clone, Debug)]
pub enum Did {
    /// A read.
    Read(CellState),
    /// A write of this value, conditional on this version.
    Wrote {
        /// The version that the write expected.
        seen: Version,
        /// The written value.
        value: Vec<u8>,
        /// The answer; `None` if it is unknown whether the write took effect.
        answer: Option<Written>,
    },
}

/// All calls on one cell that is never deleted.
#[derive(Default)]
pub struct CellHistory {
    operations: Mutex<Vec<Operation>>,
    /// The file to which other processes write their calls as well.
    file: Option<CellFile>,
}

impl CellHistory {
    /// Records all calls in a file to which many processes may append.
    ///
    /// # Panics
    /// If the file cannot be opened.
    pub fn shared(path: &Path) -> Self {
        Self { operations: Mutex::default(), file: Some(CellFile::open(path)) }
    }

    /// Reads the file written by [`CellHistory::shared`]. A call that began and was not answered may or may
    /// not have taken effect.
    ///
    /// # Panics
    /// If the file cannot be read.
    pub fn read(path: &Path) -> Self {
        Self { operations: Mutex::new(CellFile::read(path)), file: None }
    }

    /// Reads the cell and records the call.
    ///
    /// # Errors
    /// The error of [`Cell::get`]; a failed read is not recorded.
    pub async fn get(&self, cell: &Cell) -> Result<CellState> {
        let began = Clock::boottime().now();
        let found = cell.get().await?;
        self.note(began, Did::Read(found.clone()));
        Ok(found)
    }

    /// Writes the cell and records the call.
    ///
    /// # Errors
    /// The error of [`Cell::set_if`].
    pub async fn set_if(&self, cell: &Cell, seen: Version, value: &[u8]) -> Result<Written> {
        let began = Clock::boottime().now();
        if let Some(file) = &self.file {
            let did = Did::Wrote { seen, value: value.to_vec(), answer: None };
            file.note(&Operation { began, ended: Moment::NEVER, did });
        }
        let answer = cell.set_if(seen, value).await;
        let is_known = !matches!(&answer, Err(error) if error.effect() == Effect::None);
        if is_known {
            let answer = answer.as_ref().ok().copied();
            self.note(began, Did::Wrote { seen, value: value.to_vec(), answer });
        }
        answer
    }

    /// Records a call of another client.
    pub fn note(&self, began: Moment, did: Did) {
        let operation = Operation { began, ended: Clock::boottime().now(), did };
        match &self.file {
            Some(file) => file.note(&operation),
            None => {
                self.operations.lock().expect("no thread panicked while holding the lock").push(operation)
            }
        }
    }

    /// Checks the recorded calls.
    ///
    /// # Errors
    /// The first violation, in words.
    pub fn check(&self) -> Result<(), String> {
        check(&self.operations.lock().expect("no thread panicked while holding the lock"))
    }

    /// How many calls were answered.
    pub fn len(&self) -> usize {
        self.operations.lock().expect("no thread panicked while holding the lock").len()
    }

    /// Whether no call was recorded.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Checks that a single cell, never deleted, could have given these answers (linearizability).
///
/// # Errors
/// The first violation, in words.
pub fn check(operations: &[Operation]) -> Result<(), String> {
    let written = writes(operations)?;
    let maybe: BTreeSet<&[u8]> = operations.iter().filter_map(maybe_written).collect();
    for operation in operations {
        explained(operation, operations, &written, &maybe)?;
    }
    in_real_time(operations)
}

/// The writes that certainly took effect, by version. No two clients write the same value, and at most one
/// write follows each version.
fn writes(operations: &[Operation]) -> Result<BTreeMap<Version, &[u8]>, String> {
    let (mut written, mut followed) = (BTreeMap::new(), BTreeSet::new());
    for operation in operations {
        let Did::Wrote { seen, value, answer: Some(Written::Done(version)) } = &operation.did else {
            continue;
        };
        if version <= seen {
            return Err(format!("a write over version {seen} got version {version}"));
        }
        if written.insert(*version, value.as_slice()).is_some() {
            return Err(format!("two writes got version {version}"));
        }
        if !followed.insert(*seen) {
            return Err(format!("two writes replaced version {seen}"));
        }
    }
    Ok(written)
}

fn maybe_written(operation: &Operation) -> Option<&[u8]> {
    match &operation.did {
        Did::Wrote { value, answer: None, .. } => Some(value),
        _ => None,
    }
}

/// Checks that every answer is explained by a write.
fn explained(
    operation: &Operation,
    operations: &[Operation],
    written: &BTreeMap<Version, &[u8]>,
    maybe: &BTreeSet<&[u8]>,
) -> Result<(), String> {
    match &operation.did {
        Did::Read(state @ CellState { version, value: Some(found) }) => match written.get(version) {
            Some(value) if value == found => Ok(()),
            None if maybe.contains(found.as_slice()) => Ok(()),
            _ => Err(format!("nobody wrote what was read: {state:?}")),
        },
        Did::Wrote { seen, answer: Some(Written::Changed), .. } => {
            let is_newer = |other: &&Operation| match &other.did {
                Did::Wrote { answer: Some(Written::Done(version)), .. } => version > seen,
                Did::Wrote { answer, .. } => answer.is_none(),
                Did::Read(_) => false,
            };
            let changed = operations.iter().filter(is_newer).any(|other| other.began < operation.ended);
            changed
                .then_some(())
                .ok_or_else(|| format!("nobody had replaced version {seen}, and it was refused"))
        }
        _ => Ok(()),
    }
}

/// Checks that a later call sees no older version.
fn in_real_time(operations: &[Operation]) -> Result<(), String> {
    let mut by_end: Vec<_> = operations.iter().collect();
    by_end.sort_by_key(|operation| operation.ended);
    let mut by_begin = by_end.clone();
    by_begin.sort_by_key(|operation| operation.began);
    let (mut ended, mut newest) = (by_end.into_iter().peekable(), Version::ABSENT);
    for operation in by_begin {
        while let Some(earlier) = ended.next_if(|earlier| earlier.ended < operation.began) {
            newest = newest.max(places(&earlier.did).1);
        }
        let (saw, _) = places(&operation.did);
        if let Some(saw) = saw
            && saw < newest
        {
            return Err(format!("version {newest} was there before {:?} was asked", operation.did));
        }
    }
    Ok(())
}

/// The version that the call found, if known, and a lower bound of the newest version at the time of the
/// answer.
fn places(did: &Did) -> (Option<Version>, Version) {
    match did {
        Did::Read(state) => (Some(state.version), state.version),
        Did::Wrote { seen, answer: Some(Written::Done(version)), .. } => (Some(*seen), *version),
        Did::Wrote { .. } => (None, Version::ABSENT),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(began: u64, ended: u64, did: Did) -> Operation {
        Operation { began: Moment::from_micros(began), ended: Moment::from_micros(ended), did }
    }

    fn read(version: u128, value: &str) -> Did {
        Did::Read(CellState::new(Version::new(version), value.into()))
    }

    fn write(seen: u128, value: &str, version: Option<u128>) -> Did {
        let answer = version.map(|version| match version {
            0 => Written::Changed,
            version => Written::Done(Version::new(version)),
        });
        Did::Wrote { seen: Version::new(seen), value: value.into(), answer }
    }

    #[test]
    fn answers_of_a_single_cell_pass() {
        let fine = [
            at(1, 9, Did::Read(CellState::ABSENT)),
            at(2, 3, write(0, "a", Some(5))),
            at(2, 4, write(0, "b", Some(0))),
            at(5, 6, read(5, "a")),
            at(7, 8, write(5, "c", None)),
            at(7, 12, read(5, "a")),
            at(9, 10, read(6, "c")),
            at(11, 12, write(5, "d", Some(0))),
        ];
        assert_eq!(check(&fine), Ok(()));
    }

    #[test]
    fn every_violation_is_found() {
        let first = || at(1, 2, write(0, "a", Some(5)));
        for (says, rest) in [
            ("two writes got version 5", vec![at(3, 4, write(4, "b", Some(5)))]),
            (
                "two writes replaced version 5",
                vec![at(3, 4, write(5, "b", Some(6))), at(3, 4, write(5, "c", Some(7)))],
            ),
            ("a write over version 5 got version 4", vec![at(3, 4, write(5, "b", Some(4)))]),
            ("nobody wrote what was read", vec![at(3, 4, read(5, "b"))]),
            ("nobody wrote what was read", vec![at(3, 4, read(6, "a"))]),
            ("nobody had replaced version 5", vec![at(3, 4, write(5, "b", Some(0)))]),
            ("version 5 was there before", vec![at(3, 4, Did::Read(CellState::ABSENT))]),
            ("version 6 was there before", vec![at(3, 4, write(5, "b", Some(6))), at(5, 6, read(5, "a"))]),
            (
                "version 6 was there before",
                vec![at(3, 4, write(5, "b", Some(6))), at(5, 6, write(5, "c", Some(6)))],
            ),
        ] {
            let found = check(&[vec![first()], rest].concat()).expect_err(says);
            assert!(
                found.contains(says) || says.starts_with("version 6") && found.contains("two writes"),
                "{found}"
            );
        }
    }
}
