//! One call of acquire, from its invocation to its answer.

use latchwork::LockName;
use latchwork::clock::Moment;
use latchwork::engine::Mode;

use super::point::Point;
use super::tag::Tag;

/// One call of acquire.
#[derive(Clone, Debug)]
pub struct Attempt {
    /// The client.
    pub who: Tag,
    /// Its number, unique within its process.
    pub number: u64,
    /// The lock.
    pub lock: LockName,
    /// The mode of the attempt.
    pub mode: Mode,
    /// The time of the call.
    pub invoked: Point,
    /// When the attempt was first seen in the engine's queue.
    pub queued: Option<Point>,
    /// When the call returned or was dropped.
    pub answered: Option<Point>,
    /// The resulting hold, as an index into the history's holds.
    pub hold: Option<usize>,
    /// The time until which the engine may count the attempt as a holder although its caller does not.
    pub ghost_until: Option<Moment>,
    /// When its process was killed.
    pub killed: Option<Point>,
    /// Whether no other task of its client waited for or held the lock at the time of the call, and none had
    /// left a claim behind. Then its place in the engine's queue is its own, taken after the call.
    pub alone: bool,
}

impl Attempt {
    /// When the attempt stopped waiting: answered, dropped or killed.
    pub fn ended(&self) -> Point {
        let (answered, killed) = (self.answered.unwrap_or(Point::NEVER), self.killed.unwrap_or(Point::NEVER));
        answered.min(killed).max(self.invoked)
    }
}
