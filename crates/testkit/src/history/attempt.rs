//! One call of acquire, from its invocation to its answer.

use latchwork::LockName;
use latchwork::clock::Moment;
use latchwork::engine::Mode;

use super::point::Point;
use super::tag::Tag;

/// One call of acquire.
#[derive(Clone, Debug)]
pub struct Attempt {
    /// Whose.
    pub who: Tag,
    /// Its number, unique within its process.
    pub number: u64,
    /// The lock.
    pub lock: LockName,
    /// Who may hold beside it.
    pub mode: Mode,
    /// When it was called.
    pub invoked: Point,
    /// When it was first seen in the engine's queue.
    pub queued: Option<Point>,
    /// When it was answered or dropped.
    pub answered: Option<Point>,
    /// The hold it led to, as an index into the history's holds.
    pub hold: Option<usize>,
    /// Until when the engine may count it as a holder although its caller does not.
    pub ghost_until: Option<Moment>,
    /// When its process was killed.
    pub killed: Option<Point>,
    /// Whether no other task of its client wanted or held the lock when it was called, nor had left a claim behind:
    /// then its place in the engine's queue is its own, taken after the call.
    pub alone: bool,
}

impl Attempt {
    /// When it stopped waiting: answered, dropped or killed.
    pub fn ended(&self) -> Point {
        let (answered, killed) = (self.answered.unwrap_or(Point::NEVER), self.killed.unwrap_or(Point::NEVER));
        answered.min(killed).max(self.invoked)
    }
}
