//! A history: which client asked for which lock, with which outcome, and when; across processes, on one
//! clock.
//!
//! Record it with a [`Recorder`], in one line around the public API with a [`RecordedClient`]; then pass it
//! to the [`checks`]. A history that breaks a guarantee yields a [`Violation`], which shows the events around
//! it.

mod assemble;
mod attempt;
pub mod checks;
mod event;
mod fault;
mod heading;
mod hold;
mod line;
mod point;
mod recorded;
mod recorded_election;
mod recorded_guard;
mod recorded_multi;
mod recorder;
mod tag;
mod timeline;
mod violation;
mod witness;

pub use attempt::Attempt;
pub use event::{Event, GaveUp, What};
pub use fault::Fault;
pub use hold::Hold;
pub use point::Point;
pub use recorded::{RecordedClient, RecordedLock};
pub use recorded_election::{RecordedElection, RecordedObserver};
pub use recorded_guard::RecordedGuard;
pub use recorded_multi::{RecordedMultiGuard, RecordedMultiLock};
pub use recorder::Recorder;
pub use tag::Tag;
pub use violation::Violation;
pub use witness::Witness;

use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use latchwork::LockName;
use latchwork::clock::Moment;

use assemble::Assembly;

/// The recorded events, in order of time, and the attempts and holds assembled from them.
#[derive(Debug, Default)]
pub struct History {
    events: Vec<Event>,
    attempts: Vec<Attempt>,
    holds: Vec<Hold>,
    locks: BTreeMap<LockName, OneLock>,
    torn: usize,
}

/// The attempts and holds of one lock, in order of time.
#[derive(Debug, Default)]
pub(crate) struct OneLock {
    pub(crate) attempts: Vec<usize>,
    pub(crate) holds: Vec<usize>,
}

impl History {
    /// Sorts and assembles events. Events with equal times keep their order.
    pub fn new(mut events: Vec<Event>) -> Self {
        events.sort_by_key(|event| event.at);
        let mut assembly = Assembly::default();
        for (index, event) in events.iter().enumerate() {
            assembly.take(index, event);
        }
        let (attempts, holds) = assembly.finish();
        let mut locks = BTreeMap::<_, OneLock>::new();
        for (index, attempt) in attempts.iter().enumerate() {
            one_lock(&mut locks, &attempt.lock).attempts.push(index);
        }
        for (index, hold) in holds.iter().enumerate() {
            one_lock(&mut locks, &hold.lock).holds.push(index);
        }
        Self { events, attempts, holds, locks, torn: 0 }
    }

    /// Reads the file written by [`Recorder::shared`].
    ///
    /// # Panics
    /// If the file cannot be read, or has a complete line that is not an event.
    pub fn read(path: &Path) -> Self {
        let file = File::open(path).expect("the history can be read");
        Self::parse(BufReader::new(file))
    }

    fn parse(text: impl BufRead) -> Self {
        let (mut events, mut torn, mut names) = (Vec::new(), 0, HashSet::new());
        for line in text.split(b'\n') {
            let line = line.expect("the history can be read");
            if line.is_empty() {
                continue;
            }
            // A line that was cut short in the middle of a character is not valid text.
            let line = str::from_utf8(&line).unwrap_or_default();
            let Some(whole) = line.strip_suffix(recorder::END_OF_LINE) else {
                torn += 1;
                continue;
            };
            let mut event: Event = whole.parse().unwrap_or_else(|problem| panic!("{problem}"));
            // A million events of one lock share its name.
            if let Some(name) = &mut event.lock {
                match names.get(name) {
                    Some(known) => *name = LockName::clone(known),
                    None => drop(names.insert(name.clone())),
                }
            }
            events.push(event);
        }
        Self { torn, ..Self::new(events) }
    }

    /// All events, in order of time.
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// All attempts, in the order of their calls.
    pub fn attempts(&self) -> &[Attempt] {
        &self.attempts
    }

    /// All holds, in the order in which they began.
    pub fn holds(&self) -> &[Hold] {
        &self.holds
    }

    /// The holds of one lock, in the order in which they began.
    pub fn holds_of(&self, lock: &LockName) -> impl Iterator<Item = &Hold> {
        let indices = self.locks.get(lock).map(|lock| lock.holds.as_slice()).unwrap_or_default();
        indices.iter().map(|index| &self.holds[*index])
    }

    /// The number of lines that were cut short by a kill.
    pub fn torn(&self) -> usize {
        self.torn
    }

    /// The time of the last known event or lease end.
    pub fn end(&self) -> Moment {
        self.events.last().map_or(Moment::from_micros(0), |event| event.at)
    }

    /// The index of the event at this point. If the point is the end of a lease, the index of the last event
    /// before it.
    pub(crate) fn event_at(&self, point: Point) -> usize {
        match self.events.get(point.index) {
            Some(event) if event.at == point.at => point.index,
            _ => self.events.partition_point(|event| event.at < point.at).saturating_sub(1),
        }
    }

    pub(crate) fn locks(&self) -> impl Iterator<Item = (&LockName, &OneLock)> {
        self.locks.iter()
    }
}

fn one_lock<'a>(locks: &'a mut BTreeMap<LockName, OneLock>, name: &LockName) -> &'a mut OneLock {
    if !locks.contains_key(name) {
        locks.insert(name.clone(), OneLock::default());
    }
    locks.get_mut(name).expect("inserted above")
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A history from lines as they appear in a file, with any indentation.
    pub(crate) fn script(lines: &str) -> History {
        History::new(lines.lines().map(str::trim).filter(|line| !line.is_empty()).map(read).collect())
    }

    fn read(line: &str) -> Event {
        line.parse().unwrap_or_else(|problem| panic!("{problem}"))
    }

    /// An orderly history of about `events` events: eight clients acquire two locks in turns.
    pub(crate) fn orderly(events: u64) -> History {
        let mut lines = String::new();
        for hold in 0..events / 4 {
            let (process, lock, at) = (hold % 8 + 1, ["a", "b"][(hold % 2) as usize], hold * 10);
            let mut line = |micros: u64, what: &str| {
                let (seconds, part) = ((at + micros) / 1_000_000, (at + micros) % 1_000_000);
                lines += &format!("{seconds}.{part:06} {process}.1 #{hold} {lock} {what}\n");
            };
            line(0, "invoked exclusive");
            line(2, &format!("acquired token={} until=999999.0", hold << 8));
            line(8, "release");
            line(11, "released");
        }
        script(&lines)
    }

    #[test]
    fn events_are_sorted_by_time_and_those_of_one_moment_keep_their_order() {
        let history = script(
            "2.0 1.1 #1 a acquired token=1 until=9.0
             1.0 1.1 #1 a invoked exclusive
             3.0 1.1 #1 a release
             3.0 2.1 #1 a acquired token=2 until=9.0",
        );
        let kinds: Vec<_> = history.events().iter().map(|event| event.what.to_string()).collect();
        assert_eq!(
            kinds.iter().map(|kind| kind.split(' ').next().unwrap()).collect::<Vec<_>>(),
            ["invoked", "acquired", "release", "acquired"]
        );
        assert_eq!(history.holds().len(), 2);
        assert!(history.holds()[0].end < history.holds()[1].start);
    }

    #[test]
    fn a_hold_is_certain_until_the_first_thing_that_ends_it() {
        for (ending, end) in [
            ("3.0 1.1 #1 a release", 3),
            ("4.0 1.1 #1 a told Unreachable until=9.0", 4),
            ("5.0 1.0 #0 - killed", 5),
            ("6.0 1.1 #1 a found-lost Removed", 2),
            ("1.5 1.0 #0 - killed", 2),
            ("12.0 1.1 #1 a release", 9),
            ("8.0 1.1 #1 a extended until=20.0\n12.0 1.1 #1 a release", 12),
            ("8.0 1.1 #1 a extended until=20.0\n12.0 1.1 #1 a found-lost Expired", 8),
            ("1.5 1.0 #0 - killed\n1.6 1.0 #0 - started\n3.0 1.1 #1 a release", 2),
        ] {
            let begin = "1.0 1.1 #1 a invoked exclusive\n2.0 1.1 #1 a acquired token=1 until=9.0\n";
            let history = script(&format!("{begin}{ending}"));
            assert_eq!(history.holds()[0].end.at, Moment::from_micros(end * 1_000_000), "{ending}");
        }
    }

    #[test]
    fn a_process_that_started_again_under_the_same_id_is_alive() {
        let history = script(
            "1.0 1.0 #0 - killed
             2.0 1.0 #0 - started
             3.0 1.1 #1 a invoked exclusive
             4.0 1.1 #1 a acquired token=1 until=9.0",
        );
        assert_eq!(history.holds()[0].end.at, Moment::from_micros(9_000_000));
    }

    #[test]
    fn a_line_that_a_kill_cut_short_is_left_out_and_spoils_no_other() {
        let text = b"\n1.0 1.1 #1 a queued .\n2.0 1.1 #1 a acquired token=4\n2.5 1.1 #1 na\xc3\n3.0 2.1 #1 a queued .";
        let history = History::parse(text.as_slice());
        assert_eq!((history.events().len(), history.torn()), (2, 2));
    }
}
