//! The events around a violation.

use std::fmt::{self, Write as _};

use super::History;
use super::event::Event;
use super::point::Point;

/// The number of events shown before the first and after the second offending event, and on the inner side of
/// each.
const AROUND: usize = 8;

/// Shows the events of one lock, and those that concern all locks, around two points, and marks the two.
pub(super) fn around(history: &History, first: Point, second: Point) -> String {
    let events = history.events();
    let (first, second) = (history.event_at(first), history.event_at(second));
    let (first, second) = (first.min(second), first.max(second));
    let Some(lock) = events.get(second).map(|event| event.lock.clone()) else { return String::new() };
    let concerns = |event: &Event| event.lock.is_none() || lock.is_none() || event.lock == lock;
    let before = (0..first).rev().filter(|at| concerns(&events[*at])).take(AROUND);
    let after = (second + 1..events.len()).filter(|at| concerns(&events[*at])).take(AROUND);
    let between: Vec<_> = (first + 1..second).filter(|at| concerns(&events[*at])).collect();
    let mut shown: Vec<_> = before.collect();
    shown.reverse();
    shown.push(first);
    let mut text = String::new();
    if between.len() <= 2 * AROUND {
        shown.extend(between);
        let _ = lines(&mut text, events, &shown, [first, second]);
        shown.clear();
    } else {
        shown.extend(&between[..AROUND]);
        let _ = lines(&mut text, events, &shown, [first, second]);
        let _ = writeln!(text, "    ... {} more", between.len() - 2 * AROUND);
        shown = between[between.len() - AROUND..].to_vec();
    }
    if second != first {
        shown.push(second);
    }
    shown.extend(after);
    let _ = lines(&mut text, events, &shown, [first, second]);
    text
}

fn lines(text: &mut String, events: &[Event], shown: &[usize], marked: [usize; 2]) -> fmt::Result {
    for at in shown {
        let mark = if marked.contains(at) { "->" } else { "  " };
        writeln!(text, " {mark} {}", events[*at])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::tests::orderly;

    #[test]
    fn a_timeline_shows_both_events_and_their_neighbours_on_the_same_lock() {
        let history = orderly(4_000);
        let point = |index: usize| Point { at: history.events()[index].at, index };
        let text = around(&history, point(800), point(1600));
        let marked: Vec<_> = text.lines().filter(|line| line.starts_with(" ->")).collect();
        assert_eq!(marked.len(), 2, "{text}");
        assert!(marked[0].ends_with(&history.events()[800].to_string()));
        assert!(text.contains(" more\n") && text.lines().count() == 4 * AROUND + 3, "{text}");
        let near = around(&history, point(800), point(801));
        assert!(near.lines().filter(|line| line.starts_with(" ->")).count() == 2 && !near.contains("more"));
        let one = around(&history, point(800), point(800));
        assert_eq!(one.lines().count(), 2 * AROUND + 1, "{one}");
    }
}
