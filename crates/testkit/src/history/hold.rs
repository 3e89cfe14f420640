//! The time for which a guard could rely on its lock.

use latchwork::LockName;
use latchwork::clock::Moment;
use latchwork::engine::Mode;

use super::point::Point;
use super::tag::Tag;

/// A held lock. Certain from `start` until `end`, and never longer than in reality.
#[derive(Clone, Debug)]
pub struct Hold {
    /// The client.
    pub who: Tag,
    /// The lock.
    pub lock: LockName,
    /// The mode of the hold.
    pub mode: Mode,
    /// As [`Attempt::alone`](super::Attempt::alone): its claim was not shared with other tasks.
    pub alone: bool,
    /// The fencing token, if the engine has them.
    pub token: Option<u64>,
    /// The time of the call: the engine granted the lock after that.
    pub invoked: Point,
    /// When the acquire had returned.
    pub start: Point,
    /// When the hold stopped being certain: at a call of release, a reported loss, a kill, or the last known
    /// end of the lease.
    pub end: Point,
    /// The last known end of the lease.
    pub lease_end: Moment,
    /// When its release was called.
    pub release: Option<Point>,
    /// When its release had returned.
    pub released: Option<Point>,
    /// When its loss was reported to a listener.
    pub told: Option<Point>,
    /// When the holder had listened past the end of its lease without a report.
    pub unheard: Option<Point>,
    /// When its loss was reported, or found.
    pub lost: Option<Point>,
}

/// A hold that has not ended yet.
pub(super) struct OpenHold {
    pub(super) hold: Hold,
    last_certain: Point,
    listens: bool,
}

impl OpenHold {
    pub(super) fn new(hold: Hold) -> Self {
        Self { last_certain: hold.start, hold, listens: false }
    }

    pub(super) fn extended(&mut self, at: Point, lease_end: Moment) {
        self.hold.lease_end = lease_end;
        self.last_certain = at;
    }

    pub(super) fn listening(&mut self) {
        self.listens = true;
    }

    pub(super) fn no_longer_listening(&mut self, at: Point, lease_end: Moment) {
        self.hold.lease_end = lease_end;
        if self.listens && at.at > lease_end {
            self.hold.unheard.get_or_insert(at);
        }
        self.listens = false;
    }

    pub(super) fn told(&mut self, at: Point, lease_end: Moment) {
        self.listens = false;
        self.hold.lease_end = lease_end;
        self.hold.told.get_or_insert(at);
        self.hold.lost.get_or_insert(at);
    }

    pub(super) fn found_lost(&mut self, at: Point) {
        self.hold.lost.get_or_insert(at);
    }

    pub(super) fn released(&mut self, at: Point) {
        self.hold.release.get_or_insert(at);
    }

    pub(super) fn release_answered(&mut self, at: Point) {
        self.hold.released.get_or_insert(at);
    }

    /// Closes the hold with its certain end.
    pub(super) fn close(mut self, killed: Option<Point>) -> Hold {
        let hold = &mut self.hold;
        let found_lost = hold.lost.filter(|_| hold.told.is_none()).map(|_| self.last_certain);
        let ends = [hold.release, hold.told, killed, found_lost];
        let lease_end = Point::before_events_at(hold.lease_end);
        let end = ends.into_iter().flatten().fold(lease_end, Point::min);
        // For a guard that was found lost, or whose process was killed, only the start is certain.
        hold.end = end.max(hold.start);
        self.hold
    }
}
