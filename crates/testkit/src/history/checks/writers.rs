//! The overtaking of a waiting writer is bounded.
//!
//! `fifo` covers the attempts that query the engine themselves. Readers of one client also join each other,
//! by one grant and with one token, and would hold a writer up for ever if they could always do so. The rule
//! below raises no false alarm:
//!
//! - A writer is known to be in the queue as in `fifo`.
//! - A reader that was called after that time, and holds by a lower token than the writer's, has overtaken
//!   it.
//! - It may do so if the writer is another client's, and if its call was no later than `join_for` after the
//!   first reader of its grant was admitted: that grant was requested before the writer's.

use std::collections::HashMap;
use std::time::Duration;

use latchwork::clock::Moment;
use latchwork::engine::Mode;

use super::exclusion::compatible;
use super::fifo::known_to_queue;
use super::{Excuses, Stats};
use crate::history::{History, Hold, OneLock, Point, Tag, Violation};

const CHECK: &str = "writers";
/// The time for which readers join a grant by default.
pub const JOIN_FOR: Duration = Duration::from_millis(5);

/// Checks that no reader held before a writer that was known to wait at the reader's call, except for readers
/// that joined a grant in time.
///
/// # Errors
/// The writer that was overtaken, and the reader that overtook it.
pub fn writers(
    history: &History,
    queued_after: Option<Duration>,
    join_for: Duration,
    excuses: &Excuses,
) -> Result<Stats, Violation> {
    let mut stats = Stats::new(CHECK);
    for (_, lock) in history.locks() {
        let mut queued = waiting_writers(history, lock, queued_after, excuses).into_iter().peekable();
        let (let_in, mut ahead) = (first_of_each_grant(history, lock), Ahead::default());
        for reader in readers(history, lock).filter(|hold| !excuses.cover(hold.invoked, hold.start)) {
            while let Some((_, writer)) = queued.next_if(|(since, _)| *since < reader.invoked) {
                ahead.add(writer);
            }
            stats.judged += usize::from(ahead.waits_at(reader.invoked));
            let first = let_in[&(reader.who, reader.token)];
            let is_late = reader.invoked > Point::before_events_at(first.after(join_for));
            if let Some(writer) = ahead.overtaken_by(reader, is_late) {
                return Err(overtaken(history, writer, reader));
            }
        }
    }
    Ok(stats)
}

/// The attempts that hold alone and were in the queue before their grant, by the time at which they certainly
/// were.
fn waiting_writers<'a>(
    history: &'a History,
    lock: &OneLock,
    queued_after: Option<Duration>,
    excuses: &Excuses,
) -> Vec<(Point, &'a Hold)> {
    let attempts = lock.attempts.iter().map(|index| &history.attempts()[*index]);
    let waited = attempts.filter_map(|attempt| {
        let hold = &history.holds()[attempt.hold?];
        let is_writer = !compatible(hold.mode, hold.mode) && hold.token.is_some();
        let since = known_to_queue(attempt, hold.start, queued_after)?;
        (is_writer && !excuses.cover(hold.invoked, hold.start)).then_some((since, hold))
    });
    let mut waited: Vec<_> = waited.collect();
    waited.sort_by_key(|(since, _)| *since);
    waited
}

/// The readers in the order of their calls.
fn readers<'a>(history: &'a History, lock: &OneLock) -> impl Iterator<Item = &'a Hold> {
    let attempts = lock.attempts.iter().map(|index| &history.attempts()[*index]);
    let holds = attempts.filter_map(|attempt| Some(&history.holds()[attempt.hold?]));
    holds.filter(|hold| hold.mode == Mode::Read && hold.token.is_some())
}

/// When the first reader of each grant was admitted.
fn first_of_each_grant(history: &History, lock: &OneLock) -> HashMap<(Tag, Option<u64>), Moment> {
    let mut first = HashMap::new();
    for hold in readers(history, lock) {
        let start = first.entry((hold.who, hold.token)).or_insert(hold.start.at);
        *start = hold.start.at.min(*start);
    }
    first
}

/// Of the writers that have queued so far, the last to be granted: of all, and of each client.
#[derive(Default)]
struct Ahead<'a> {
    last: Option<&'a Hold>,
    last_of: HashMap<Tag, &'a Hold>,
}

impl<'a> Ahead<'a> {
    fn add(&mut self, writer: &'a Hold) {
        let is_later = |last: Option<&&Hold>| last.is_none_or(|last| writer.token > last.token);
        if is_later(self.last.as_ref()) {
            self.last = Some(writer);
        }
        if is_later(self.last_of.get(&writer.who)) {
            self.last_of.insert(writer.who, writer);
        }
    }

    fn waits_at(&self, now: Point) -> bool {
        self.last.is_some_and(|last| last.start > now)
    }

    fn overtaken_by(&self, reader: &Hold, is_late: bool) -> Option<&'a Hold> {
        let own = self.last_of.get(&reader.who).copied();
        let waits = if is_late { self.last } else { own };
        waits.filter(|writer| writer.token > reader.token)
    }
}

fn overtaken(history: &History, writer: &Hold, reader: &Hold) -> Violation {
    let (one, other, lock) = (writer.who, reader.who, &reader.lock);
    let waited = reader.invoked.at.since(writer.invoked.at);
    let says = format!("{other} read before {one} wrote lock {lock:?}, and came {waited:?} later");
    Violation::new(CHECK, history, [writer.invoked, reader.invoked], says)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::tests::script;

    /// Client 1 reads, client 2 waits to write; another reader arrives at 4 s. The writer has its turn at 8
    /// s.
    fn line(late: &str, came: &str, token: u32) -> String {
        format!(
            "1.0 1.1 #1 a invoked read
             2.0 1.1 #1 a acquired token=256 until=99.0
             2.5 2.1 #1 a invoked write
             3.0 2.1 #1 a queued
             {came} {late} #2 a invoked read
             4.5 {late} #2 a acquired token={token} until=99.0
             5.0 {late} #2 a release
             6.0 1.1 #1 a release
             8.0 2.1 #1 a acquired token=512 until=99.0
             9.0 2.1 #1 a release"
        )
    }

    fn check(lines: &str) -> Result<Stats, Violation> {
        writers(&script(lines), None, Duration::from_secs(1), &Excuses::none())
    }

    #[test]
    fn a_reader_may_join_in_time_or_before_the_writer_arrived() {
        let in_time = line("1.1", "4.0", 256).replace("1.0 1.1", "3.1 1.1").replace("2.0 1.1", "3.2 1.1");
        assert_eq!(check(&in_time).expect("within a second of the grant").judged, 2);
        check(&line("1.1", "2.9", 256)).expect("before the writer stood in the queue");
        check(&line("3.1", "4.0", 768).replace("4.5", "9.1").replace("5.0", "9.2"))
            .expect("after the writer");
    }

    #[test]
    fn a_reader_that_joins_for_too_long_is_found() {
        let text = check(&line("1.1", "4.0", 256)).expect_err("two seconds after the grant").to_string();
        let says = "writers: 1.1 read before 2.1 wrote lock \"a\", and came 1.5s later";
        assert!(text.starts_with(says), "{text}");
        assert!(text.contains(" -> 4.000000000 1.1 #2 a invoked read"), "{text}");
    }

    #[test]
    fn a_reader_that_passes_a_writer_of_its_own_client_is_found() {
        let own = line("2.1", "4.0", 300);
        check(&own).expect_err("however soon after its grant");
        check(&own.replace("3.0 2.1 #1 a queued", "")).expect("no witness saw the writer wait");
    }

    #[test]
    fn a_fault_excuses_attempts_whose_place_it_may_have_cost() {
        let lines =
            line("1.1", "4.0", 256) + "\n2.7 9.0 #0 - fault-began trouble\n2.8 9.0 #0 - fault-ended trouble";
        let history = script(&lines);
        let excuses = Excuses::from_order(&history);
        let stats = writers(&history, None, Duration::from_secs(1), &excuses).expect("the fault excuses it");
        assert_eq!(stats.judged, 0);
    }
}
