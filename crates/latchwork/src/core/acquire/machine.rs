//! One attempt to get a lock, as a pure state machine: each event and its time go in, and the next step comes
//! out.
//!
//! No I/O and no clock of its own, so that the test below can walk through every order of events.

use std::time::Duration;

use crate::Effect;
use crate::clock::Moment;
use crate::core::defaults;
use crate::core::held::LocalLease;
use crate::core::terms::{LeaseTerms, WaitUntil};
use crate::engine::{BoxedVerdict, Grant, Wake};

/// One attempt.
#[derive(Clone, Debug)]
pub(super) struct AcquireAttempt {
    wait: WaitUntil,
    terms: LeaseTerms,
    /// When the newest answered claim was sent: grants count from here.
    answered_sent: Moment,
    /// When the claim now under way was sent.
    sent: Moment,
    /// The newest token that the server reported: a pushed grant at or below it is outdated.
    floor: Option<u64>,
    /// When the claim must be sent again, as the server requested.
    again_at: Moment,
    /// The pause after the next failed claim. A part of it depends on `jitter`, or all clients would come
    /// back at once.
    pause: Duration,
    /// The pause after the next failed `wait`. Claims may be answered while this side cannot listen.
    wait_pause: Duration,
    jitter: u8,
    /// Since when claims have failed, without an answer in between.
    failing_since: Option<Moment>,
    /// Whether the reply to a claim is missing: it may still be under way.
    has_strays: bool,
}

/// How a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Failed {
    /// Whether the server may have acted.
    pub(super) effect: Effect,
    /// Whether a retry may help.
    pub(super) is_transient: bool,
}

/// The next step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NextStep {
    /// Send `claim`.
    Claim,
    /// Call `wait`, with this time limit.
    Wait(Moment),
    /// Do nothing until then: a request failed, and retries without a pause would overload the server.
    Pause(Moment),
    /// The lock is held.
    Hold { token: Option<u64>, lease: LocalLease },
    /// Release the claim blind, then report.
    Withdraw(End),
    /// Nothing is left behind: report.
    Stop(End),
}

/// How an attempt ends without the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The lock is taken, and the caller does not wait.
    Busy,
    /// The wait limit passed.
    TimedOut,
    /// The engine failed.
    Failed,
    /// The grant arrived when its lease was almost over.
    TooLate,
}

impl AcquireAttempt {
    /// `jitter` is any byte, drawn at random.
    pub(super) fn new(wait: WaitUntil, terms: LeaseTerms, jitter: u8, now: Moment) -> (Self, NextStep) {
        let attempt = Self {
            wait,
            terms,
            answered_sent: now,
            sent: now,
            floor: None,
            again_at: now,
            pause: defaults::FAILED_FIRST_PAUSE,
            wait_pause: defaults::FAILED_FIRST_PAUSE,
            jitter,
            failing_since: None,
            has_strays: false,
        };
        (attempt, NextStep::Claim)
    }

    /// A claim is about to be sent.
    pub(super) fn sending(&mut self, now: Moment) {
        self.sent = now;
    }

    /// The caller's wait limit, if it comes before the limit of the claim under way.
    pub(super) fn answer_by(&self) -> Option<Moment> {
        let WaitUntil::Moment(end) = self.wait else { return None };
        let by = end.max(self.sent.after(defaults::REQUEST_LEAST));
        // A claim that ends unanswered can be sent again.
        (by < self.ends_by()).then_some(by)
    }

    /// The time of the first failure since the last answer to a claim.
    pub(super) fn failing_since(&self) -> Option<Moment> {
        self.failing_since
    }

    /// When the claim now under way ends at the latest, also if its caller no longer waits for it.
    pub(super) fn ends_by(&self) -> Moment {
        self.sent.after(defaults::REQUEST_LIMIT)
    }

    /// The claim was answered, or failed.
    pub(super) fn answered(&mut self, now: Moment, answer: Result<&BoxedVerdict, Failed>) -> NextStep {
        if answer.is_ok() {
            self.answered_sent = self.sent;
        }
        match answer {
            Ok(BoxedVerdict::Granted(grant)) => self.hold(now, grant).unwrap_or_else(|| self.too_late(now)),
            Ok(BoxedVerdict::Busy(busy)) => {
                self.failing_since = None;
                self.floor = busy.floor;
                self.again_at = now.after(busy.again_in);
                self.pause = defaults::FAILED_FIRST_PAUSE;
                match self.wait {
                    // The claim whose reply is missing may arrive behind this one.
                    WaitUntil::Never if self.has_strays => NextStep::Withdraw(End::Busy),
                    WaitUntil::Never => NextStep::Stop(End::Busy),
                    WaitUntil::Moment(end) if now >= end => NextStep::Withdraw(End::TimedOut),
                    WaitUntil::Moment(end) => NextStep::Wait(self.again_at.min(end)),
                    WaitUntil::Forever => NextStep::Wait(self.again_at),
                }
            }
            Err(failed) => self.failed(now, failed),
        }
    }

    /// A claim failed. Sent again with the same id it does no harm (C1), and its answer reports the state of
    /// the first.
    fn failed(&mut self, now: Moment, failed: Failed) -> NextStep {
        let first = self.failing_since.is_none();
        let since = *self.failing_since.get_or_insert(now);
        if failed.effect == Effect::Unknown {
            self.has_strays = true;
        }
        let again = match self.wait {
            // No reply is missing, and the caller does not wait.
            WaitUntil::Never if !self.has_strays => return NextStep::Stop(End::Failed),
            WaitUntil::Never => first,
            WaitUntil::Moment(end) => now < end.min(since.after(defaults::OUTAGE_LIMIT)),
            WaitUntil::Forever => now < since.after(defaults::OUTAGE_LIMIT),
        };
        if !failed.is_transient || !again {
            return NextStep::Withdraw(End::Failed);
        }
        let until = self.pause(now, self.pause);
        self.pause = longer(self.pause);
        NextStep::Pause(until)
    }

    /// The lease of the grant was over before the answer came: the engine was paused, or is slow. Sent again,
    /// the claim gets the same grant with a new lease (C1).
    fn too_late(&mut self, now: Moment) -> NextStep {
        let given_up = self.failing_since.get_or_insert(now).after(defaults::OUTAGE_LIMIT);
        let retry_until = match self.wait {
            WaitUntil::Never => now,
            WaitUntil::Moment(end) => end.min(given_up),
            WaitUntil::Forever => given_up,
        };
        if now < retry_until { NextStep::Claim } else { NextStep::Withdraw(End::TooLate) }
    }

    /// Until when to pause for `span`, or a little less, within the caller's wait limit.
    fn pause(&self, now: Moment, span: Duration) -> Moment {
        let until = now.after(span / 2 + span / 2 * u32::from(self.jitter) / 255);
        match self.wait {
            WaitUntil::Moment(end) => until.min(end),
            _ => until,
        }
    }

    /// `wait` or a pause ended; `None` if the time given to it passed.
    pub(super) fn woken(&mut self, now: Moment, wake: Option<Result<&Wake, Failed>>) -> NextStep {
        let is_timed_out = matches!(self.wait, WaitUntil::Moment(end) if now >= end);
        match wake {
            // After an outdated or late push the claim is sent again: the server knows whether the grant
            // still stands.
            Some(Ok(Wake::Granted(grant))) if grant.token.is_none() || grant.token > self.floor => {
                self.hold(now, grant).unwrap_or(NextStep::Claim)
            }
            _ if is_timed_out => NextStep::Withdraw(End::TimedOut),
            Some(Err(_)) => {
                let until = self.pause(now, self.wait_pause);
                self.wait_pause = longer(self.wait_pause);
                // Not longer than until the claim must be sent again.
                NextStep::Pause(until.min(self.again_at))
            }
            Some(Ok(_)) => {
                self.wait_pause = defaults::FAILED_FIRST_PAUSE;
                NextStep::Claim
            }
            None => NextStep::Claim,
        }
    }

    fn hold(&self, now: Moment, grant: &Grant) -> Option<NextStep> {
        let mut lease = LocalLease::granted(grant.valid, self.answered_sent, now, self.terms);
        lease.loss(now).is_none().then_some(NextStep::Hold { token: grant.token, lease })
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
    const LOST: Failed = Failed { effect: Effect::Unknown, is_transient: true };

    fn at(millis: u64) -> Moment {
        Moment::from_micros(millis * 1_000)
    }

    /// A server of one lock with the worst habits: every answer can come at any time, get lost, or be an old
    /// push.
    #[derive(Clone)]
    struct World {
        now: u64,
        attempt: AcquireAttempt,
        step: NextStep,
        /// Until when the server keeps the lock for this claim; in the queue or holding means something is
        /// left behind.
        held_until: Option<u64>,
        queued: bool,
        sent_at: u64,
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
            NextStep::Claim => {
                for delay in [0, 30, 500] {
                    // The server grants on arrival; the answer takes `delay` to come back, or never does.
                    next(&|w| {
                        w.send();
                        w.held_until = Some(w.now + TTL.as_millis() as u64);
                        w.now += delay;
                        let grant = Grant { token: Some(1), valid: Valid::For(TTL) };
                        w.step = w.attempt.answered(at(w.now), Ok(&BoxedVerdict::Granted(grant)));
                    });
                    next(&|w| {
                        w.send();
                        w.queued = w.attempt.wait != WaitUntil::Never;
                        w.now += delay;
                        let mut busy = Busy::new(Duration::from_millis(100));
                        busy.floor = Some(7);
                        w.step = w.attempt.answered(at(w.now), Ok(&BoxedVerdict::Busy(busy.into())));
                    });
                    for effect in [Effect::None, Effect::Unknown] {
                        for is_transient in [false, true] {
                            next(&|w| {
                                w.send();
                                if effect == Effect::Unknown {
                                    w.held_until = Some(w.now + TTL.as_millis() as u64);
                                }
                                w.now += delay;
                                w.step = w.attempt.answered(at(w.now), Err(Failed { effect, is_transient }));
                            });
                        }
                    }
                }
            }
            NextStep::Wait(until) => {
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
                    // A push from an earlier life of this claim, read late: believed, it would make two
                    // holders.
                    next(&|w| {
                        w.now += pause;
                        let grant = Grant { token: Some(7), valid: Valid::For(TTL) };
                        w.step = w.attempt.woken(at(w.now), Some(Ok(&Wake::Granted(grant))));
                        assert!(!matches!(w.step, NextStep::Hold { .. }), "an outdated grant believed");
                    });
                    // Handed over by the server the moment the wait began, read `pause` later: the server
                    // counts at the least from the newest claim it answered.
                    next(&|w| {
                        w.held_until = Some(w.sent_at + TTL.as_millis() as u64);
                        w.now += pause;
                        let grant = Grant { token: Some(8), valid: Valid::For(TTL) };
                        w.step = w.attempt.woken(at(w.now), Some(Ok(&Wake::Granted(grant))));
                    });
                }
            }
            NextStep::Pause(until) => next(&|w| {
                assert!(until > at(w.now) || w.attempt.again_at <= at(w.now), "a storm of claims");
                w.now = w.now.max(until.as_micros() / 1_000);
                w.step = w.attempt.woken(at(w.now), None);
            }),
            NextStep::Hold { lease, .. } => {
                let until = at(world.held_until.expect("held only after a grant"));
                assert!(lease.deadline() <= until, "believed longer than the server grants");
                assert!(at(world.now) < lease.stop_at(), "handed out when already over");
                (seen.held, seen.paths) = (seen.held + 1, seen.paths + 1);
            }
            NextStep::Withdraw(end) => {
                assert!(end != End::TimedOut || world.attempt.wait != WaitUntil::Never);
                (seen.undone, seen.paths) = (seen.undone + 1, seen.paths + 1);
            }
            NextStep::Stop(_) => {
                assert!(world.held_until.is_none() && !world.queued, "stopped with something left behind");
                seen.paths += 1;
            }
        }
    }

    impl World {
        fn send(&mut self) {
            self.attempt.sending(at(self.now));
            self.sent_at = self.now;
        }
    }

    #[test]
    fn no_order_of_events_holds_too_long_or_leaves_something_behind() {
        let mut seen = Seen::default();
        for wait in [WaitUntil::Never, WaitUntil::Moment(at(1_300)), WaitUntil::Forever] {
            let (attempt, step) = AcquireAttempt::new(wait, TERMS, 77, at(1_000));
            let world = World { now: 1_000, attempt, step, held_until: None, queued: false, sent_at: 1_000 };
            walk(&world, 6, &mut seen);
        }
        println!("{} paths, {} held, {} undone", seen.paths, seen.held, seen.undone);
        assert!(seen.held > 1_000 && seen.undone > 1_000, "the walk must reach both ends");
    }

    #[test]
    fn a_patient_waiter_sees_the_end_of_every_request() {
        for wait in [WaitUntil::Never, WaitUntil::Moment(at(99_000)), WaitUntil::Forever] {
            let (mut attempt, _) = AcquireAttempt::new(wait, TERMS, 0, at(1_000));
            attempt.sending(at(2_000));
            assert_eq!(attempt.answer_by(), None, "{wait:?}");
        }
        for (end, by) in [(2_500, 2_500), (2_100, 2_200), (1_500, 2_200), (11_999, 11_999)] {
            let (mut attempt, _) = AcquireAttempt::new(WaitUntil::Moment(at(end)), TERMS, 0, at(1_000));
            attempt.sending(at(2_000));
            assert_eq!(attempt.answer_by(), Some(at(by)));
        }
    }

    #[test]
    fn a_grant_that_came_too_late_is_asked_for_again_with_patience_and_not_for_ever() {
        let late = BoxedVerdict::Granted(Grant { token: Some(1), valid: Valid::For(TTL) });
        for (wait, asks) in
            [(WaitUntil::Never, 0), (WaitUntil::Moment(at(3_500)), 2), (WaitUntil::Forever, 30)]
        {
            let (mut attempt, _) = AcquireAttempt::new(wait, TERMS, 0, at(1_000));
            let mut step = NextStep::Claim;
            for second in 1..=asks + 1 {
                assert_eq!(step, NextStep::Claim, "{wait:?} after {second} s");
                attempt.sending(at(second * 1_000));
                step = attempt.answered(at(second * 1_000 + 1_000), Ok(&late));
            }
            assert_eq!(step, NextStep::Withdraw(End::TooLate), "{wait:?}");
        }
    }

    #[test]
    fn a_waiter_that_cannot_listen_asks_less_and_less_often() {
        let (mut attempt, _) = AcquireAttempt::new(WaitUntil::Forever, TERMS, 255, at(1_000));
        let mut now = at(1_000);
        let mut asks = |attempt: &mut AcquireAttempt| {
            attempt.sending(now);
            attempt.answered(now, Ok(&BoxedVerdict::Busy(Busy::new(Duration::from_secs(60)).into())));
            let NextStep::Pause(until) = attempt.woken(now, Some(Err(LOST))) else { panic!("a storm") };
            assert_eq!(attempt.woken(until, None), NextStep::Claim);
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
        let (mut attempt, _) = AcquireAttempt::new(WaitUntil::Forever, TERMS, 255, at(1_000));
        attempt.answered(at(1_000), Ok(&BoxedVerdict::Busy(Busy::new(Duration::MAX).into())));
        for _ in 0..200 {
            let step = attempt.woken(at(1_000), Some(Err(LOST)));
            assert!(matches!(step, NextStep::Pause(until) if until <= at(2_000)), "{step:?}");
        }
    }
}
