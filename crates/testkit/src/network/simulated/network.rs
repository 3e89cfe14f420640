//! The network that decides the fate of every request.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use latchwork::LockName;
use latchwork::clock::{Clock, Moment};

use super::conditions::Conditions;
use crate::seed::Seed;

/// A network that clients share. Every decision comes from one seed and is recorded, so that two runs can be
/// compared. Clones share the same network.
#[derive(Clone)]
pub struct Network(Arc<Mutex<State>>);

struct State {
    seed: Seed,
    conditions: Conditions,
    clock: Clock,
    start: Moment,
    trace: Vec<String>,
}

/// The fate of one request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fate {
    pub(super) outcome: Outcome,
    pub(super) request: Duration,
    pub(super) reply: Duration,
    /// When the duplicate arrives, counted from the sending of the request.
    pub(super) duplicate: Option<Duration>,
    pub(super) forgets: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Answered,
    Refused,
    Broken,
    Vanished,
    Silent,
}

impl Network {
    /// A calm network on this clock.
    pub fn new(seed: u64, clock: Clock) -> Self {
        let (seed, conditions, start) = (Seed::new(seed), Conditions::calm(), clock.now());
        Self(Arc::new(Mutex::new(State { seed, conditions, clock, start, trace: Vec::new() })))
    }

    /// Changes the conditions for every request that is sent from now on.
    pub fn set(&self, conditions: Conditions) {
        self.state().conditions = conditions;
    }

    /// Every decision so far, one line each.
    pub fn trace(&self) -> Vec<String> {
        self.state().trace.clone()
    }

    /// Decides the fate of a request when it is sent.
    pub(super) fn decide(&self, verb: &str, lock: &LockName) -> Fate {
        self.state().decide(verb, lock)
    }

    /// Decides the latency of a pushed grant; `None` if it is lost.
    pub(super) fn decide_push(&self, lock: &LockName) -> Option<Duration> {
        self.state().decide_push(lock)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no thread panicked while deciding")
    }
}

impl State {
    /// Draws the same number of random values for every request under all conditions.
    fn decide(&mut self, verb: &str, lock: &LockName) -> Fate {
        let (seed, conditions) = (&mut self.seed, &self.conditions);
        let outcome = outcome(conditions, seed.below(100));
        let arrives = !matches!(outcome, Outcome::Refused | Outcome::Vanished);
        let (again, forgets) = (seed.percent(conditions.duplicated), seed.percent(conditions.forgets));
        let (request, reply) = (seed.span(&conditions.request), seed.span(&conditions.reply));
        let duplicate = request + seed.span(&conditions.duplicate_after);
        let duplicate = (again && arrives).then_some(duplicate);
        let fate = Fate { outcome, request, reply, duplicate, forgets: forgets && arrives };
        self.note(&format!("{verb} {lock}: {fate:?}"));
        fate
    }

    fn decide_push(&mut self, lock: &LockName) -> Option<Duration> {
        let arrives = outcome(&self.conditions, self.seed.below(100)) == Outcome::Answered;
        let delay = self.seed.span(&self.conditions.reply);
        self.note(&format!("push {lock}: {}{delay:?}", if arrives { "" } else { "lost, not " }));
        arrives.then_some(delay)
    }

    fn note(&mut self, decision: &str) {
        let at = self.clock.now().since(self.start);
        self.trace.push(format!("{at:?} {decision}"));
    }
}

fn outcome(conditions: &Conditions, luck: u64) -> Outcome {
    let chances = [
        (conditions.refused, Outcome::Refused),
        (conditions.broken, Outcome::Broken),
        (conditions.vanished, Outcome::Vanished),
        (conditions.silent, Outcome::Silent),
    ];
    let mut below = 0;
    for (chance, outcome) in chances {
        below += u64::from(chance);
        if luck < below {
            return outcome;
        }
    }
    Outcome::Answered
}
