//! A position in a history.

use latchwork::clock::Moment;

/// A time, and the position among the events of that time: paused time stands still while much happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Point {
    /// The time.
    pub at: Moment,
    /// The event's position in the history.
    pub index: usize,
}

impl Point {
    /// Later than every event.
    pub const NEVER: Self = Self { at: Moment::NEVER, index: usize::MAX };

    /// Before every event of this time.
    pub const fn before_events_at(at: Moment) -> Self {
        Self { at, index: 0 }
    }
}
