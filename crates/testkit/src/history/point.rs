//! Where in a history something happened.

use latchwork::clock::Moment;

/// A moment, and the place among the events of that moment: paused time stands still while much happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Point {
    /// When.
    pub at: Moment,
    /// The event's place in the history.
    pub index: usize,
}

impl Point {
    /// Later than everything.
    pub const NEVER: Self = Self { at: Moment::NEVER, index: usize::MAX };

    /// Before every event of this moment.
    pub const fn before_events_at(at: Moment) -> Self {
        Self { at, index: 0 }
    }
}
