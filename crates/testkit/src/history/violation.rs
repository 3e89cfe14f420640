//! A broken guarantee.

use std::fmt;

use super::event::Event;
use super::point::Point;
use super::{History, timeline};

/// A broken guarantee: the check, the two events that break it, and the events around them.
pub struct Violation {
    check: &'static str,
    says: String,
    events: Vec<Event>,
    timeline: String,
}

impl Violation {
    /// `first` and `second` may be the same event.
    pub(crate) fn new(
        check: &'static str,
        history: &History,
        [first, second]: [Point; 2],
        says: String,
    ) -> Self {
        let mut shown = vec![history.event_at(first), history.event_at(second)];
        shown.dedup();
        let events = shown.into_iter().filter_map(|index| history.events().get(index).cloned()).collect();
        Self { check, says, events, timeline: timeline::around(history, first, second) }
    }

    /// A violation that cannot be tied to an event.
    pub(crate) fn without_events(check: &'static str, says: String) -> Self {
        Self { check, says, events: Vec::new(), timeline: String::new() }
    }

    /// The check that found it.
    pub fn check(&self) -> &'static str {
        self.check
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {}", self.check, self.says)?;
        for event in &self.events {
            writeln!(f, "    {event}")?;
        }
        if !self.timeline.is_empty() {
            write!(f, "around them:\n{}", self.timeline)?;
        }
        Ok(())
    }
}

/// Readable, because tests show it through `expect`.
impl fmt::Debug for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Violation {}
