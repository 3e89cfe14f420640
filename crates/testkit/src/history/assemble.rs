//! From events to attempts and holds.

use std::collections::{BTreeSet, HashMap};

use latchwork::LockName;
use latchwork::engine::Mode;

use super::attempt::Attempt;
use super::event::{Event, What};
use super::hold::{Hold, OpenHold};
use super::point::Point;
use super::tag::Tag;

/// Walks the events once, in order of time.
#[derive(Default)]
pub(super) struct Assembly {
    attempts: Vec<Attempt>,
    holds: Vec<OpenHold>,
    /// The newest attempt with each number: the numbers start again in a process that reuses a dead one's id.
    newest: HashMap<(u32, u64), usize>,
    /// The attempts that a kill would end, by process.
    open: HashMap<u32, BTreeSet<usize>>,
    dead: HashMap<u32, Point>,
    presence: HashMap<(LockName, Tag), Presence>,
}

/// The tasks and leftovers of one client on one lock.
#[derive(Default)]
struct Presence {
    /// Tasks that wait for the lock or hold it.
    tasks: u32,
    /// Whether a task gave up: the next one may take its claim over, until one of them has held the lock.
    inheritance: bool,
}

impl Assembly {
    pub(super) fn take(&mut self, index: usize, event: &Event) {
        let at = Point { at: event.at, index };
        match event.what {
            What::Started => drop(self.dead.remove(&event.who.process)),
            What::Killed => self.killed(event.who.process, at),
            What::Invoked(mode) => drop(self.invoked(event, at, mode)),
            What::Watching | What::Saw { .. } | What::LookedAway | What::Named { .. } => {}
            What::Stopped | What::FaultBegan(_) | What::FaultEnded(_) | What::Quiesced => {}
            _ => self.goes_on(event, at),
        }
    }

    pub(super) fn finish(self) -> (Vec<Attempt>, Vec<Hold>) {
        let mut killed = vec![None; self.holds.len()];
        for attempt in &self.attempts {
            if let Some(hold) = attempt.hold {
                killed[hold] = attempt.killed;
            }
        }
        let holds = self.holds.into_iter().zip(killed).map(|(open, killed)| open.close(killed)).collect();
        (self.attempts, holds)
    }

    fn killed(&mut self, process: u32, at: Point) {
        self.dead.insert(process, at);
        for attempt in self.open.remove(&process).unwrap_or_default() {
            self.attempts[attempt].killed = Some(at);
        }
    }

    fn invoked(&mut self, event: &Event, at: Point, mode: Mode) -> Option<usize> {
        let lock = event.lock.clone()?;
        let presence = self.presence.entry((lock.clone(), event.who)).or_default();
        let alone = presence.tasks == 0 && !presence.inheritance;
        presence.tasks += 1;
        let attempt = self.attempts.len();
        self.attempts.push(Attempt {
            who: event.who,
            number: event.attempt,
            lock,
            mode,
            invoked: at,
            queued: None,
            answered: None,
            hold: None,
            ghost_until: None,
            killed: self.dead.get(&event.who.process).copied(),
            alone,
        });
        self.newest.insert((event.who.process, event.attempt), attempt);
        self.open.entry(event.who.process).or_default().insert(attempt);
        Some(attempt)
    }

    /// Handles an event that belongs to an attempt.
    fn goes_on(&mut self, event: &Event, at: Point) {
        let known = self.newest.get(&(event.who.process, event.attempt)).copied();
        // A record without invocations still has its holds.
        let Some(attempt) = known.or_else(|| self.invoked(event, at, Mode::Exclusive)) else { return };
        match event.what {
            What::Queued => drop(self.attempts[attempt].queued.get_or_insert(at)),
            What::Acquired { token, lease_end } => {
                let Attempt { who, mode, invoked, alone, .. } = self.attempts[attempt];
                let lock = self.attempts[attempt].lock.clone();
                let hold = Hold {
                    who,
                    lock,
                    mode,
                    alone,
                    token,
                    invoked,
                    start: at,
                    end: at,
                    lease_end,
                    release: None,
                    released: None,
                    told: None,
                    unheard: None,
                    lost: None,
                };
                self.attempts[attempt].answered = Some(at);
                self.attempts[attempt].hold = Some(self.holds.len());
                self.holds.push(OpenHold::new(hold));
            }
            What::GaveUp(_) | What::Failed => self.over(attempt, at),
            What::Unknown { held_until } | What::Cancelled { held_until } => {
                self.attempts[attempt].ghost_until = Some(held_until);
                self.over(attempt, at);
            }
            _ => self.held(attempt, event.what, at),
        }
    }

    fn held(&mut self, attempt: usize, what: What, at: Point) {
        let Some(hold) = self.attempts[attempt].hold else { return };
        let hold = &mut self.holds[hold];
        match what {
            What::Extended { lease_end } => hold.extended(at, lease_end),
            What::Listening => hold.listening(),
            What::Deaf { lease_end } => hold.no_longer_listening(at, lease_end),
            What::Told { lease_end, .. } => hold.told(at, lease_end),
            What::FoundLost(_) => hold.found_lost(at),
            What::Released => hold.release_answered(at),
            What::ReleaseInvoked => {
                hold.released(at);
                self.over(attempt, at);
            }
            _ => {}
        }
    }

    fn over(&mut self, index: usize, at: Point) {
        let attempt = &mut self.attempts[index];
        attempt.answered.get_or_insert(at);
        if let Some(open) = self.open.get_mut(&attempt.who.process)
            && open.remove(&index)
            && let Some(presence) = self.presence.get_mut(&(attempt.lock.clone(), attempt.who))
        {
            presence.tasks -= 1;
            presence.inheritance = attempt.hold.is_none();
        }
    }
}
