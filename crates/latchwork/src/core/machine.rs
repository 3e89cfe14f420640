//! The pure life of one attempt to get a lock: what happened and when in, what to do next out.
//!
//! No I/O and no clock of its own, so that the test below can walk through every order of events.

use std::time::Duration;

use super::defaults;
use super::lease::{Lease, LeaseTerms};
use crate::Effect;
use crate::clock::Moment;
use crate::engine::{BoxedVerdict, Grant, Wake};

/// Until when to wait for the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    /// Only try.
    None,
    /// Wait until then.
    Until(Moment),
    /// Wait.
    Endless,
}

/// One attempt.
#[derive(Clone, Debug)]
pub(crate) struct Attempt {
    patience: Patience,
    terms: LeaseTerms,
    /// When the newest answered claim was sent: grants count from here.
    answered: Moment,
    /// When the claim now under way was sent.
    sent: Moment,
    /// The newest token the server named: a pushed grant at or below it is old news.
    floor: Option<u64>,
    /// When the server wants to hear of this claim again.
    again_at: Moment,
    /// How long to pause after the next failed claim; some of it is up to `jitter`, or all clients would come back at once.
    pause: Duration,
    /// The same for waiting: that claims are answered says nothing of whether this side can listen.
    deaf_pause: Duration,
    jitter: u8,
    /// Since when claims have failed, without an answer in between.
    failing_since: Option<Moment>,
    /// Whether the reply to a claim is missing: it may still be under way.
    has_strays: bool,
}

/// How a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Failed {
    /// Whether the server may have acted.
    pub(crate) effect: Effect,
    /// Whether to ask again may help.
    pub(crate) passing: bool,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Send `claim`.
    Ask,
    /// Call `wait`, until then at the latest.
    Wait(Moment),
    /// Do nothing until then: a request failed, and asking at once would be a storm.
    Pause(Moment),
    /// The lock is held.
    Hold { token: Option<u64>, lease: Lease },
    /// Withdraw: release the claim blind, then report.
    Undo(End),
    /// Nothing is left behind: report.
    Stop(End),
}

/// How an attempt ends without the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Somebody else has it, and nobody wanted to wait.
    Busy,
    /// The wait limit passed.
    TimedOut,
    /// The engine failed.
    Failed,
    /// The grant arrived when its lease was all but over.
    TooLate,
}

impl Attempt {
    /// `jitter` is any byte, drawn at random.
    pub(crate) fn new(patience: Patience, terms: LeaseTerms, jitter: u8, now: Moment) -> (Self, Step) {
        let attempt = Self {
            patience,
            terms,
            answered: now,
            sent: now,
            floor: None,
            again_at: now,
            pause: defaults::FAILED_FIRST_PAUSE,
            deaf_pause: defaults::FAILED_FIRST_PAUSE,
            jitter,
            failing_since: None,
            has_strays: false,
        };
        (attempt, Step::Ask)
    }

    /// A claim is about to be sent.
    pub(crate) fn asking(&mut self, now: Moment) {
        self.sent = now;
    }

    /// When the caller's patience ends, if that is before the claim under way does.
    pub(crate) fn answer_by(&self) -> Option<Moment> {
        let Patience::Until(end) = self.patience else { return None };
        let by = end.max(self.sent.after(defaults::REQUEST_LEAST));
        // One that ends unanswered can be sent again.
        (by < self.ends_by()).then_some(by)
    }

    /// When the first of the claims failed that failed since the last answer.
    pub(crate) fn failing_since(&self) -> Option<Moment> {
        self.failing_since
    }

    /// When the claim now under way ends at the latest, also if its caller no longer waits for it.
    pub(crate) fn ends_by(&self) -> Moment {
        self.sent.after(defaults::REQUEST_LIMIT)
    }

    /// The claim was answered, or failed.
    pub(crate) fn answered(&mut self, now: Moment, answer: Result<&BoxedVerdict, Failed>) -> Step {
        if answer.is_ok() {
            self.answered = self.sent;
        }
        match answer {
            Ok(BoxedVerdict::Granted(grant)) => self.hold(now, grant).unwrap_or_else(|| self.too_late(now)),
            Ok(BoxedVerdict::Busy(busy)) => {
                self.failing_since = None;
                self.floor = busy.floor;
                self.again_at = now.after(busy.again_in);
                self.pause = defaults::FAILED_FIRST_PAUSE;
                match self.patience {
                    // The claim whose reply is missing may arrive behind this one.
                    Patience::None if self.has_strays => Step::Undo(End::Busy),
                    Patience::None => Step::Stop(End::Busy),
                    Patience::Until(end) if now >= end => Step::Undo(End::TimedOut),
                    Patience::Until(end) => Step::Wait(self.again_at.min(end)),
                    Patience::Endless => Step::Wait(self.again_at),
                }
            }
            Err(failed) => self.failed(now, failed),
        }
    }

    /// A claim failed. Asked again with the same id it does no harm (C1), and tells what became of the first.
    fn failed(&mut self, now: Moment, failed: Failed) -> Step {
        let first = self.failing_since.is_none();
        let since = *self.failing_since.get_or_insert(now);
        if failed.effect == Effect::Unknown {
            self.has_strays = true;
        }
        let again = match self.patience {
            // Nothing to find out, and nobody wants to wait.
            Patience::None if !self.has_strays => return Step::Stop(End::Failed),
            Patience::None => first,
            Patience::Until(end) => now < end.min(since.after(defaults::OUTAGE_LIMIT)),
            Patience::Endless => now < since.after(defaults::OUTAGE_LIMIT),
        };
        if !failed.passing || !again {
            return Step::Undo(End::Failed);
        }
        let until = self.pause(now, self.pause);
        self.pause = longer(self.pause);
        Step::Pause(until)
    }

    /// Granted, and over before the answer came: the engine stood still, or is slow. Asked again it gives the same grant
    /// with a new lease (C1).
    fn too_late(&mut self, now: Moment) -> Step {
        let given_up = self.failing_since.get_or_insert(now).after(defaults::OUTAGE_LIMIT);
        let patient_until = match self.patience {
            Patience::None => now,
            Patience::Until(end) => end.min(given_up),
            Patience::Endless => given_up,
        };
        if now < patient_until { Step::Ask } else { Step::Undo(End::TooLate) }
    }

    /// Until when to pause for `span`, or a little less, within the caller's patience.
    fn pause(&self, now: Moment, span: Duration) -> Moment {
        let until = now.after(span / 2 + span / 2 * u32::from(self.jitter) / 255);
        match self.patience {
            Patience::Until(end) => until.min(end),
            _ => until,
        }
    }

    /// `wait` or a pause ended; `None` if the time given to it passed.
    pub(crate) fn woken(&mut self, now: Moment, wake: Option<Result<&Wake, Failed>>) -> Step {
        let out_of_patience = matches!(self.patience, Patience::Until(end) if now >= end);
        match wake {
            // A pushed grant that is old or comes too late is asked about: the server knows whether it still stands.
            Some(Ok(Wake::Granted(grant))) if grant.token.is_none() || grant.token > self.floor => {
                self.hold(now, grant).unwrap_or(Step::Ask)
            }
            _ if out_of_patience => Step::Undo(End::TimedOut),
            Some(Err(_)) => {
                let until = self.pause(now, self.deaf_pause);
                self.deaf_pause = longer(self.deaf_pause);
                // Not longer than until the server wants to hear of the claim.
                Step::Pause(until.min(self.again_at))
            }
            Some(Ok(_)) => {
                self.deaf_pause = defaults::FAILED_FIRST_PAUSE;
                Step::Ask
            }
            None => Step::Ask,
        }
    }

    fn hold(&self, now: Moment, grant: &Grant) -> Option<Step> {
        let mut lease = Lease::granted(grant.valid, self.answered, now, self.terms);
        lease.loss(now).is_none().then_some(Step::Hold { token: grant.token, lease })
    }
}

fn longer(pause: Duration) -> Duration {
    (pause * 2).min(defaults::FAILED_LONGEST_PAUSE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Busy, Valid};

    const TTL: Duration = Duration::from_millis(400);
    const TERMS: LeaseTerms = LeaseTerms { ttl: TTL, stop_margin: None, max_hold: None };
    const LOST: Failed = Failed { effect: Effect::Unknown, passing: true };

    fn at(millis: u64) -> Moment {
        Moment::from_micros(millis * 1_000)
    }

    /// A server of one lock with the worst habits: every answer can come at any time, be lost, or be a push from before.
    #[derive(Clone)]
    struct World {
        now: u64,
        attempt: Attempt,
        step: Step,
        /// Until when the server keeps the lock for this claim; in the queue or holding means something is left behind.
        held_until: Option<u64>,
        queued: bool,
        asked_at: u64,
    }

    #[derive(Default)]
    struct Seen {
        paths: u64,
        held: u64,
        undone: u64,
    }

    /// Walks every order of events up to a depth, and checks each end.
    fn walk(world: &World, depth: u32, seen: &mut Seen) {
        if depth == 0 {
            seen.paths += 1;
            return;
        }
        let mut next = |change: &dyn Fn(&mut World)| {
            let mut world = world.clone();
            change(&mut world);
            walk(&world, depth - 1, seen);
        };
        match world.step.clone() {
            Step::Ask => {
                for delay in [0, 30, 500] {
                    // The server grants on arrival; the answer takes `delay` to come back, or never does.
                    next(&|w| {
                        w.ask();
                        w.held_until = Some(w.now + TTL.as_millis() as u64);
                        w.now += delay;
                        let grant = Grant { token: Some(1), valid: Valid::For(TTL) };
                        w.step = w.attempt.answered(at(w.now), Ok(&BoxedVerdict::Granted(grant)));
                    });
                    next(&|w| {
                        w.ask();
                        w.queued = w.attempt.patience != Patience::None;
                        w.now += delay;
                        let mut busy = Busy::new(Duration::from_millis(100));
                        busy.floor = Some(7);
                        w.step = w.attempt.answered(at(w.now), Ok(&BoxedVerdict::Busy(busy.into())));
                    });
                    for effect in [Effect::None, Effect::Unknown] {
                        for passing in [false, true] {
                            next(&|w| {
                                w.ask();
                                if effect == Effect::Unknown {
                                    w.held_until = Some(w.now + TTL.as_millis() as u64);
                                }
                                w.now += delay;
                                w.step = w.attempt.answered(at(w.now), Err(Failed { effect, passing }));
                            });
                        }
                    }
                }
            }
            Step::Wait(until) => {
                assert!(until >= at(world.now) && world.queued);
                let full = until.as_micros() / 1_000 - world.now;
                for pause in [0, full, full + 600] {
                    next(&|w| {
                        w.now += pause;
                        w.step = w.attempt.woken(at(w.now), None);
                    });
                    next(&|w| {
                        w.now += pause;
                        w.step = w.attempt.woken(at(w.now), Some(Ok(&Wake::Recheck)));
                    });
                    next(&|w| {
                        w.now += pause;
                        w.step = w.attempt.woken(at(w.now), Some(Err(LOST)));
                    });
                    // A push from an earlier life of this claim, read late: believed, it would make two holders.
                    next(&|w| {
                        w.now += pause;
                        let grant = Grant { token: Some(7), valid: Valid::For(TTL) };
                        w.step = w.attempt.woken(at(w.now), Some(Ok(&Wake::Granted(grant))));
                        assert!(!matches!(w.step, Step::Hold { .. }), "old news believed");
                    });
                    // Handed over by the server the moment the wait began, read `pause` later: the server counts at the
                    // least from the newest claim it answered.
                    next(&|w| {
                        w.held_until = Some(w.asked_at + TTL.as_millis() as u64);
                        w.now += pause;
                        let grant = Grant { token: Some(8), valid: Valid::For(TTL) };
                        w.step = w.attempt.woken(at(w.now), Some(Ok(&Wake::Granted(grant))));
                    });
                }
            }
            Step::Pause(until) => next(&|w| {
                assert!(until > at(w.now) || w.attempt.again_at <= at(w.now), "a storm of claims");
                w.now = w.now.max(until.as_micros() / 1_000);
                w.step = w.attempt.woken(at(w.now), None);
            }),
            Step::Hold { lease, .. } => {
                let until = at(world.held_until.expect("held only after a grant"));
                assert!(lease.deadline() <= until, "believed longer than the server grants");
                assert!(at(world.now) < lease.stop_at(), "handed out when already over");
                (seen.held, seen.paths) = (seen.held + 1, seen.paths + 1);
            }
            Step::Undo(end) => {
                assert!(end != End::TimedOut || world.attempt.patience != Patience::None);
                (seen.undone, seen.paths) = (seen.undone + 1, seen.paths + 1);
            }
            Step::Stop(_) => {
                assert!(world.held_until.is_none() && !world.queued, "stopped with something left behind");
                seen.paths += 1;
            }
        }
    }

    impl World {
        fn ask(&mut self) {
            self.attempt.asking(at(self.now));
            self.asked_at = self.now;
        }
    }

    #[test]
    fn no_order_of_events_holds_too_long_or_leaves_something_behind() {
        let mut seen = Seen::default();
        for patience in [Patience::None, Patience::Until(at(1_300)), Patience::Endless] {
            let (attempt, step) = Attempt::new(patience, TERMS, 77, at(1_000));
            let world = World { now: 1_000, attempt, step, held_until: None, queued: false, asked_at: 1_000 };
            walk(&world, 6, &mut seen);
        }
        println!("{} paths, {} held, {} undone", seen.paths, seen.held, seen.undone);
        assert!(seen.held > 1_000 && seen.undone > 1_000, "the walk must reach both ends");
    }

    #[test]
    fn a_patient_waiter_sees_the_end_of_every_request() {
        for patience in [Patience::None, Patience::Until(at(99_000)), Patience::Endless] {
            let (mut attempt, _) = Attempt::new(patience, TERMS, 0, at(1_000));
            attempt.asking(at(2_000));
            assert_eq!(attempt.answer_by(), None, "{patience:?}");
        }
        for (end, by) in [(2_500, 2_500), (2_100, 2_200), (1_500, 2_200), (11_999, 11_999)] {
            let (mut attempt, _) = Attempt::new(Patience::Until(at(end)), TERMS, 0, at(1_000));
            attempt.asking(at(2_000));
            assert_eq!(attempt.answer_by(), Some(at(by)));
        }
    }

    #[test]
    fn a_grant_that_came_too_late_is_asked_for_again_with_patience_and_not_for_ever() {
        let late = BoxedVerdict::Granted(Grant { token: Some(1), valid: Valid::For(TTL) });
        for (patience, asks) in
            [(Patience::None, 0), (Patience::Until(at(3_500)), 2), (Patience::Endless, 30)]
        {
            let (mut attempt, _) = Attempt::new(patience, TERMS, 0, at(1_000));
            let mut step = Step::Ask;
            for second in 1..=asks + 1 {
                assert_eq!(step, Step::Ask, "{patience:?} after {second} s");
                attempt.asking(at(second * 1_000));
                step = attempt.answered(at(second * 1_000 + 1_000), Ok(&late));
            }
            assert_eq!(step, Step::Undo(End::TooLate), "{patience:?}");
        }
    }

    #[test]
    fn a_waiter_that_cannot_listen_asks_less_and_less_often() {
        let (mut attempt, _) = Attempt::new(Patience::Endless, TERMS, 255, at(1_000));
        let mut now = at(1_000);
        let mut asks = |attempt: &mut Attempt| {
            attempt.asking(now);
            attempt.answered(now, Ok(&BoxedVerdict::Busy(Busy::new(Duration::from_secs(60)).into())));
            let Step::Pause(until) = attempt.woken(now, Some(Err(LOST))) else { panic!("a storm") };
            assert_eq!(attempt.woken(until, None), Step::Ask);
            let pause = until.since(now);
            now = until;
            pause
        };
        let pauses: Vec<_> = (0..10).map(|_| asks(&mut attempt)).collect();
        assert!(pauses.is_sorted() && pauses[9] == defaults::FAILED_LONGEST_PAUSE, "{pauses:?}");
        attempt.woken(at(99_000), Some(Ok(&Wake::Recheck)));
        assert_eq!(asks(&mut attempt), defaults::FAILED_FIRST_PAUSE, "it can listen again");
    }

    #[test]
    fn however_often_waiting_fails_the_pauses_stay_short_and_end() {
        let (mut attempt, _) = Attempt::new(Patience::Endless, TERMS, 255, at(1_000));
        attempt.answered(at(1_000), Ok(&BoxedVerdict::Busy(Busy::new(Duration::MAX).into())));
        for _ in 0..200 {
            let step = attempt.woken(at(1_000), Some(Err(LOST)));
            assert!(matches!(step, Step::Pause(until) if until <= at(2_000)), "{step:?}");
        }
    }
}
