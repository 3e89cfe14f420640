//! Records events.

use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use latchwork::clock::Clock;
use latchwork::{Client, LockName};

use super::History;
use super::event::{Event, What};
use super::fault::Fault;
use super::recorded::RecordedClient;
use super::tag::Tag;

/// A line without this ending was cut short.
pub(super) const END_OF_LINE: &str = " .";

/// Appends events. Clones share the record; a process needs one recorder per history.
#[derive(Clone)]
pub struct Recorder(Arc<Inner>);

struct Inner {
    clock: Clock,
    process: u32,
    clients: AtomicU32,
    attempts: AtomicU64,
    sink: Sink,
}

enum Sink {
    Memory(Mutex<Vec<Event>>),
    File(File),
}

impl Recorder {
    /// Records in memory, for one process, on the engine's own clock, because lease ends are compared with
    /// it.
    pub fn in_memory(clock: Clock) -> Self {
        Self::new(clock, Sink::Memory(Mutex::default()))
    }

    /// Records to a file to which many processes may append, on the clock that they share. Every event is one
    /// `write` of one line before the recorded call continues, so a killed process loses no event.
    ///
    /// # Panics
    /// If the file cannot be opened.
    pub fn shared(path: &Path) -> Self {
        let file = OpenOptions::new().append(true).create(true).open(path).expect("the history opens");
        let recorder = Self::new(Clock::boottime(), Sink::File(file));
        recorder.note(Tag::process(recorder.0.process), 0, None, What::Started);
        recorder
    }

    fn new(clock: Clock, sink: Sink) -> Self {
        Self(Arc::new(Inner {
            clock,
            process: std::process::id(),
            clients: AtomicU32::new(0),
            attempts: AtomicU64::new(0),
            sink,
        }))
    }

    /// Wraps a client so that its calls are recorded under a tag of its own.
    pub fn client(&self, client: Client) -> RecordedClient {
        let number = self.0.clients.fetch_add(1, Ordering::Relaxed) + 1;
        RecordedClient::new(self.clone(), Tag { process: self.0.process, client: number }, client)
    }

    /// The clock of this history.
    pub fn clock(&self) -> Clock {
        self.0.clock
    }

    /// Appends one event with the current time.
    ///
    /// # Panics
    /// If it cannot be written: a test must not continue without its record.
    pub fn note(&self, who: Tag, attempt: u64, lock: Option<&LockName>, what: What) {
        let event = || Event { at: self.0.clock.now(), who, attempt, lock: lock.cloned(), what };
        match &self.0.sink {
            Sink::Memory(events) => {
                let mut events = events.lock().expect("no thread panicked while recording");
                // The clock is read inside the lock: paused time stands still, and then only the order of the
                // record tells more.
                events.push(event());
            }
            Sink::File(file) => {
                let mut line = String::with_capacity(128);
                // The line break comes first, so that a line cut short by a kill does not swallow the next
                // one.
                write!(line, "\n{}{END_OF_LINE}", event()).expect("a string takes everything");
                let written = (&*file).write(line.as_bytes()).expect("the history takes a line");
                assert_eq!(written, line.len(), "the history takes whole lines");
            }
        }
    }

    /// Records that this process is about to kill the other one.
    pub fn killed(&self, process: u32) {
        self.note(Tag::process(process), 0, None, What::Killed);
    }

    /// Records that this process is about to stop the other one for longer than its leases.
    pub fn stopped(&self, process: u32) {
        self.note(Tag::process(process), 0, None, What::Stopped);
    }

    /// A fault begins now.
    pub fn fault_began(&self, fault: Fault) {
        self.note(Tag::process(self.0.process), 0, None, What::FaultBegan(fault));
    }

    /// A fault is over.
    pub fn fault_ended(&self, fault: Fault) {
        self.note(Tag::process(self.0.process), 0, None, What::FaultEnded(fault));
    }

    /// Records that no client waits for or holds a lock any more.
    pub fn quiesced(&self) {
        self.note(Tag::process(self.0.process), 0, None, What::Quiesced);
    }

    /// The events recorded in memory so far.
    ///
    /// # Panics
    /// If this recorder writes to a file: read the file instead.
    pub fn history(&self) -> History {
        match &self.0.sink {
            Sink::Memory(events) => {
                History::new(events.lock().expect("no thread panicked while recording").clone())
            }
            Sink::File(_) => panic!("read the file with History::read"),
        }
    }

    /// The number of events recorded in memory so far.
    pub fn count(&self) -> usize {
        match &self.0.sink {
            Sink::Memory(events) => events.lock().expect("no thread panicked while recording").len(),
            Sink::File(_) => panic!("read the file with History::read"),
        }
    }

    pub(super) fn next_attempt(&self) -> u64 {
        self.0.attempts.fetch_add(1, Ordering::Relaxed) + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_writers_share_one_file_without_losing_a_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("history");
        let writer = |process: u32| {
            let path = path.clone();
            std::thread::spawn(move || {
                let recorder = Recorder::shared(&path);
                let name = LockName::new("a name").unwrap();
                for attempt in 0..500 {
                    recorder.note(Tag { process, client: 1 }, attempt, Some(&name), What::Queued);
                }
            })
        };
        for thread in (1..=4).map(writer).collect::<Vec<_>>() {
            thread.join().unwrap();
        }
        let history = History::read(&path);
        assert_eq!((history.events().len(), history.torn()), (4 * 501, 0));
        assert!(history.events().is_sorted_by_key(|event| event.at));
    }
}
