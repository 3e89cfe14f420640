//! Compares the checks with slow ones that look at every pair, on random histories.

use latchwork::engine::Mode;

use super::tokens::share_a_grant;
use super::{Excuses, exclusion, fifo, tokens};
use crate::history::tests::script;
use crate::history::{Attempt, History, Hold};
use crate::seed::Seed;

const MODES: [&str; 4] = ["exclusive", "read", "write", "permit/2"];

/// A few clients that acquire one lock at times and with tokens that are often wrong.
fn random(seed: &mut Seed, modes: &[&str]) -> History {
    let mut lines = String::new();
    for attempt in 1..=seed.below(7) + 2 {
        let who = format!("{}.1 #{attempt} a", seed.below(4) + 1);
        let mode = modes[seed.below(modes.len() as u64) as usize];
        let invoked = seed.below(30);
        let acquired = invoked + seed.below(6);
        // Mostly in order, or no history would be without a violation.
        let token = (acquired * 3 + seed.below(4)) * 256;
        lines += &format!("{invoked}.0 {who} invoked {mode}\n{invoked}.0 {who} queued\n");
        lines += &format!("{acquired}.5 {who} acquired token={token} until=99.0\n");
        lines += &format!("{}.9 {who} release\n", acquired + seed.below(4));
    }
    script(&lines)
}

fn pairs(history: &History) -> impl Iterator<Item = (&Hold, &Hold)> {
    let holds = history.holds();
    holds
        .iter()
        .flat_map(move |one| holds.iter().map(move |other| (one, other)))
        .filter(|(one, other)| !std::ptr::eq(*one, *other))
}

fn shares(one: &Hold, other: &Hold) -> bool {
    match (one.mode, other.mode) {
        (Mode::Exclusive | Mode::Write, _) | (_, Mode::Exclusive | Mode::Write) => false,
        (one, other) => one == other,
    }
}

fn overlaps(one: &Hold, other: &Hold) -> bool {
    one.start < other.end && other.start < one.end
}

/// Asserts that both checks reject the same histories.
fn agree(modes: &[&str], quick: impl Fn(&History) -> bool, slow: impl Fn(&History) -> bool) {
    let mut seed = Seed::new(42);
    let wrong = |_: &u32| {
        let history = random(&mut seed, modes);
        let (quick, slow) = (quick(&history), slow(&history));
        assert_eq!(
            quick,
            slow,
            "{:#?}",
            history.events().iter().map(ToString::to_string).collect::<Vec<_>>()
        );
        quick
    };
    let wrong = (0..4_000).filter(wrong).count();
    assert!((100..3_900).contains(&wrong), "{wrong} of 4000 histories are wrong, which shows little");
}

#[test]
fn exclusion_agrees_with_a_check_of_every_pair() {
    let permit = |hold: &&Hold| matches!(hold.mode, Mode::Permit { .. });
    let crowded = |history: &History| {
        history.holds().iter().filter(permit).any(|hold| {
            let beside = history.holds().iter().filter(permit);
            beside.filter(|other| other.start <= hold.start && hold.start < other.end).count() > 2
        })
    };
    let slow = |history: &History| {
        pairs(history).any(|(one, other)| overlaps(one, other) && !shares(one, other)) || crowded(history)
    };
    agree(&MODES, |history| exclusion(history, &Excuses::none()).is_err(), slow);
    agree(&MODES[3..], |history| exclusion(history, &Excuses::none()).is_err(), slow);
}

#[test]
fn tokens_agrees_with_a_check_of_every_pair() {
    let slow = |history: &History| {
        let joins = |hold: &Hold| {
            let before = |other: &Hold| (other.start, other.token) < (hold.start, hold.token);
            let shares_one = |other: &Hold| other.token == hold.token && before(other);
            history.holds().iter().any(shares_one) || !hold.alone && shares(hold, hold)
        };
        pairs(history).any(|(low, high)| {
            let alone = !shares(high, high);
            low.token == high.token && !share_a_grant(low, high)
                || low.token < high.token
                    && (high.start < low.invoked && (alone || !joins(low))
                        || !shares(low, high) && high.end < low.start)
        })
    };
    agree(&MODES, |history| tokens(history, &Excuses::none()).is_err(), slow);
    agree(&MODES[..1], |history| tokens(history, &Excuses::none()).is_err(), slow);
}

#[test]
fn fifo_agrees_with_a_check_of_every_pair() {
    let slow = |history: &History| {
        let alone = |attempt: &&Attempt| attempt.alone;
        let attempts: Vec<_> = history.attempts().iter().filter(alone).collect();
        let token = |attempt: &Attempt| history.holds()[attempt.hold.unwrap()].token;
        attempts.iter().any(|early| {
            let overtakes = |late: &&Attempt| {
                late.who != early.who && early.queued.unwrap() < late.invoked && token(late) < token(early)
            };
            attempts.iter().any(overtakes)
        })
    };
    agree(&MODES[..1], |history| fifo(history, None, &Excuses::none()).is_err(), slow);
}
