//! Tokens are unique, and rise in the order of the grants.

use latchwork::engine::Mode;

use super::exclusion::compatible;
use super::{Excuses, Stats};
use crate::history::{History, Hold, Point, Violation};

const CHECK: &str = "tokens";

/// Checks that no two grants of a lock share a token, and that no hold with a greater token had ended before
/// one with a lower token began.
///
/// Acquires may return in another order than the locks were granted in three cases: for holds that may share
/// the lock, for holds that a fault excuses from exclusion, and for holds that had ended when their process
/// learned of them (it was stopped in between, and never certain). There, the lower token must at least have
/// been requested before the greater one was held. Readers of one client may hold one grant together, with
/// one token. Readers that join it may have been called later, but not after an excluding client held the
/// lock with a greater token. The same applies to readers that take over the claim of another task of their
/// client that gave up.
///
/// # Errors
/// The two holds whose tokens are equal or out of order.
pub fn tokens(history: &History, excuses: &Excuses) -> Result<Stats, Violation> {
    let mut stats = Stats::new(CHECK);
    for (_, lock) in history.locks() {
        let holds = lock.holds.iter().map(|index| &history.holds()[*index]);
        let mut holds: Vec<_> = holds.filter_map(|hold| Some((hold.token?, hold))).collect();
        holds.sort_by_key(|(token, hold)| (*token, hold.start));
        stats.judged += holds.len();
        unique(history, &holds)?;
        let mut greater = Greater::default();
        for (place, (token, hold)) in holds.iter().enumerate().rev() {
            let inherits = !hold.alone && hold.mode == Mode::Read;
            let joins = inherits || place > 0 && holds[place - 1].0 == *token;
            let excused = excuses.cover(hold.invoked, hold.end);
            stats.excused += usize::from(excused);
            let is_lenient = excused || hold.end <= hold.start;
            if let Some(earlier) = greater.over_before(hold, is_lenient, joins) {
                return Err(out_of_order(history, earlier, hold));
            }
            greater.add(hold, is_lenient);
        }
    }
    Ok(stats)
}

/// Whether readers of one client may hold the lock together, by one grant.
pub(super) fn share_a_grant(one: &Hold, other: &Hold) -> bool {
    (one.who, one.mode) == (other.who, Mode::Read) && other.mode == Mode::Read
}

fn unique(history: &History, by_token: &[(u64, &Hold)]) -> Result<(), Violation> {
    let twice =
        by_token.windows(2).find(|pair| pair[0].0 == pair[1].0 && !share_a_grant(pair[0].1, pair[1].1));
    twice.map_or(Ok(()), |pair| {
        let (token, lock) = (pair[0].0, &pair[0].1.lock);
        let says = format!("token {token} of lock {lock:?} was given out twice");
        Err(Violation::new(CHECK, history, [pair[0].1.start, pair[1].1.start], says))
    })
}

/// Of the holds with greater tokens, the first to end (or to start).
#[derive(Default)]
struct Greater<'a> {
    held: First<'a>,
    held_alone: First<'a>,
    over: First<'a>,
    over_alone: First<'a>,
}

impl<'a> Greater<'a> {
    fn add(&mut self, hold: &'a Hold, excused: bool) {
        let is_alone = !compatible(hold.mode, hold.mode);
        self.held.add(hold.start, hold);
        if is_alone {
            self.held_alone.add(hold.start, hold);
        }
        if !excused {
            self.over.add(hold.end, hold);
            if is_alone {
                self.over_alone.add(hold.end, hold);
            }
        }
    }

    fn over_before(&self, hold: &Hold, excused: bool, joins: bool) -> Option<&'a Hold> {
        let strict = match hold.mode {
            _ if excused => None,
            Mode::Exclusive | Mode::Write => self.over.before(hold.start),
            _ => self.over_alone.before(hold.start),
        };
        let held = if joins { &self.held_alone } else { &self.held };
        strict.or_else(|| held.before(hold.invoked))
    }
}

#[derive(Default)]
struct First<'a>(Option<(Point, &'a Hold)>);

impl<'a> First<'a> {
    fn add(&mut self, at: Point, hold: &'a Hold) {
        if self.0.is_none_or(|(first, _)| at < first) {
            self.0 = Some((at, hold));
        }
    }

    fn before(&self, at: Point) -> Option<&'a Hold> {
        self.0.filter(|(first, _)| *first < at).map(|(_, hold)| hold)
    }
}

fn out_of_order(history: &History, greater: &Hold, lower: &Hold) -> Violation {
    let (lock, high, low) = (&lower.lock, greater.token.unwrap_or_default(), lower.token.unwrap_or_default());
    let says = format!("tokens of lock {lock:?} went back: {low} came after {high}");
    Violation::new(CHECK, history, [greater.start, lower.start], says)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::tests::{orderly, script};

    fn check(lines: &str) -> Result<Stats, Violation> {
        tokens(&script(lines), &Excuses::none())
    }

    #[test]
    fn rising_tokens_pass_even_if_two_locks_have_equal_ones() {
        let stats = check(
            "1.0 1.1 #1 a acquired token=1 until=9.0
             2.0 1.1 #1 a release
             3.0 2.1 #1 a acquired token=2 until=9.0
             4.0 2.1 #2 b acquired token=1 until=9.0
             5.0 3.1 #1 c acquired token=none until=9.0",
        );
        assert_eq!(stats.expect("an orderly history passes").judged, 3);
        assert_eq!(
            tokens(&orderly(200_000), &Excuses::none()).expect("an orderly history passes").judged,
            50_000
        );
    }

    #[test]
    fn a_token_granted_twice_is_found() {
        let violation = check(
            "1.0 1.1 #1 a acquired token=7 until=9.0
             2.0 1.1 #1 a release
             3.0 2.1 #1 a acquired token=7 until=9.0",
        );
        let text = violation.expect_err("a violation is found").to_string();
        assert!(text.starts_with("tokens: token 7 of lock \"a\" was given out twice\n"), "{text}");
        assert!(text.contains(" -> 3.000000000 2.1 #1 a acquired token=7"), "{text}");
    }

    #[test]
    fn a_token_that_goes_back_is_found() {
        let violation = check(
            "1.0 1.1 #1 a acquired token=5 until=9.0
             2.0 1.1 #1 a release
             2.5 2.1 #1 a acquired token=8 until=9.0
             2.8 2.1 #1 a release
             3.0 3.1 #1 a acquired token=6 until=9.0",
        );
        let text = violation.expect_err("a violation is found").to_string();
        assert!(text.starts_with("tokens: tokens of lock \"a\" went back: 6 came after 8\n"), "{text}");
    }

    #[test]
    fn a_grant_that_had_ended_when_it_became_known_may_be_late_but_not_invented() {
        let late = |asked: &str| {
            check(&format!(
                "{asked} 1.1 #1 a invoked exclusive
                 3.0 2.1 #1 a acquired token=6 until=9.0
                 4.0 2.1 #1 a release
                 6.0 1.1 #1 a acquired token=5 until=2.0"
            ))
        };
        late("1.0").expect("its process was stopped");
        late("5.0").expect_err("asked for when the greater one was long over");
    }

    #[test]
    fn readers_may_return_in_another_order_than_they_were_granted_in() {
        let reader = |process: u32, invoked: u32, acquired: u32, token: u32| {
            format!(
                "{invoked}.0 {process}.1 #1 a invoked read
                 {acquired}.0 {process}.1 #1 a acquired token={token} until=9.0
                 {acquired}.5 {process}.1 #1 a release\n"
            )
        };
        check(&(reader(1, 1, 4, 5) + &reader(2, 1, 2, 6))).expect("the slow one was asked for in time");
        check(&(reader(1, 3, 4, 5) + &reader(2, 1, 2, 6))).expect_err("asked for after the other was held");
    }

    #[test]
    fn a_reader_may_take_over_the_claim_of_another_task_of_its_client() {
        let lines = |gives_up: &str, between: &str| {
            check(&format!(
                "1.0 {gives_up} #1 a invoked read
                 1.1 {gives_up} #1 a cancelled until=9.0
                 2.0 2.1 #1 a invoked {between}
                 2.1 2.1 #1 a acquired token=6 until=9.0
                 2.5 2.1 #1 a release
                 3.0 1.1 #2 a invoked read
                 3.1 1.1 #2 a acquired token=5 until=9.0"
            ))
        };
        lines("1.1", "read").expect("it was granted before the other's");
        lines("3.1", "read").expect_err("another client's");
        lines("1.1", "write").expect_err("the writer was in between");
    }

    #[test]
    fn readers_of_one_client_may_share_a_token_and_no_others_may() {
        let holder = |who: &str, mode: &str, at: u32, token: u32| {
            format!(
                "{at}.0 {who} a invoked {mode}
                 {at}.1 {who} a acquired token={token} until=9.0
                 {at}.9 {who} a release\n"
            )
        };
        let pair = |one: (&str, &str), other: (&str, &str)| {
            check(&(holder(one.0, one.1, 1, 5) + &holder(other.0, other.1, 2, 5)))
        };
        assert_eq!(pair(("1.1 #1", "read"), ("1.1 #2", "read")).expect("they share it").judged, 2);
        pair(("1.1 #1", "read"), ("2.1 #1", "read")).expect_err("another client");
        pair(("1.1 #1", "read"), ("1.1 #2", "write")).expect_err("a writer has its own");
        pair(("1.1 #1", "permit/2"), ("1.1 #2", "permit/2")).expect_err("a permit has its own");
    }

    #[test]
    fn a_reader_that_joins_past_a_writer_is_found() {
        let lines = "1.0 1.1 #1 a invoked read
             1.1 1.1 #1 a acquired token=5 until=9.0
             1.5 1.1 #1 a release
             2.0 2.1 #1 a invoked write
             2.1 2.1 #1 a acquired token=6 until=9.0
             2.5 2.1 #1 a release
             3.0 1.1 #2 a invoked read
             3.1 1.1 #2 a acquired token=5 until=9.0";
        check(lines).expect_err("the writer was in between");
    }

    #[test]
    fn a_fault_excuses_a_late_return_but_not_a_grant_that_goes_back() {
        let faulty = |asked: &str| {
            script(&format!(
                "{asked} 1.1 #1 a invoked exclusive
                 2.0 9.0 #0 - fault-began data-deleted
                 2.0 9.0 #0 - fault-ended data-deleted
                 3.0 2.1 #1 a acquired token=6 until=9.0
                 4.0 2.1 #1 a release
                 6.0 1.1 #1 a acquired token=5 until=9.0"
            ))
        };
        let excused =
            |history: &History| tokens(history, &Excuses::from_order(history)).map(|stats| stats.excused);
        assert_eq!(excused(&faulty("1.0")).expect("granted before the fault"), 1);
        excused(&faulty("5.0")).expect_err("asked for when the greater one was long over");
    }
}
