//! Every client can learn the current leader.
//!
//! The checks `exclusion` and `tokens` cover that there is one leader at a time and that terms rise: a leader
//! holds the lock of the election's name, and its term is the token. This check is about queries for the
//! leader, and about observers.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use latchwork::LockName;
use latchwork::clock::Moment;

use super::{Excuses, Stats};
use crate::history::{Attempt, History, Hold, Point, Tag, Violation, What};

const CHECK: &str = "leaders";

/// Checks that
/// - observers see terms rise, and no term without a campaign;
/// - an observer has seen every leader that led for `told_within` without a fault, or a later one;
/// - a query returns the leader that led during the whole query, and never one that had resigned or was
///   replaced before.
///
/// # Errors
/// The observation or answer, and the leader that it should have been.
pub fn leaders(history: &History, told_within: Duration, excuses: &Excuses) -> Result<Stats, Violation> {
    let mut stats = Stats::new(CHECK);
    let (observers, answers) = collect(history);
    let led: HashMap<_, _> = observers
        .iter()
        .map(|observer| &observer.lock)
        .chain(answers.keys().copied())
        .map(|lock| (lock, Led::of(history, lock)))
        .collect();
    for observer in &observers {
        stats.judged += led[&observer.lock].seen_by(history, observer, told_within, excuses)?;
    }
    for (lock, answers) in &answers {
        for answer in answers {
            led[lock].named(history, answer)?;
            stats.judged += 1;
        }
    }
    Ok(stats)
}

/// An observer of the leaders.
struct Observer {
    who: Tag,
    lock: LockName,
    since: Point,
    until: Point,
    seen: Vec<(Point, u64)>,
}

/// The answer to a query for the leader.
struct LeaderAnswer {
    who: Tag,
    term: Option<u64>,
    asked: Moment,
    at: Point,
}

type Answers<'a> = BTreeMap<&'a LockName, Vec<LeaderAnswer>>;

fn collect(history: &History) -> (Vec<Observer>, Answers<'_>) {
    let (mut observers, mut newest, mut answers) = (Vec::<Observer>::new(), HashMap::new(), Answers::new());
    for (index, event) in history.events().iter().enumerate() {
        let (at, key) = (Point { at: event.at, index }, (event.who, event.attempt));
        match (event.what, &event.lock) {
            (What::Watching, Some(lock)) => {
                newest.insert(key, observers.len());
                let (who, lock, seen) = (event.who, lock.clone(), Vec::new());
                observers.push(Observer { who, lock, since: at, until: Point::NEVER, seen });
            }
            (What::Saw { term }, _) => {
                newest.get(&key).into_iter().for_each(|place| observers[*place].seen.push((at, term)));
            }
            (What::LookedAway, _) => {
                newest.get(&key).into_iter().for_each(|place| observers[*place].until = at);
            }
            (What::Named { term, asked }, Some(lock)) => {
                answers.entry(lock).or_default().push(LeaderAnswer { who: event.who, term, asked, at });
            }
            (What::Killed, _) => {
                let died = observers.iter_mut().filter(|observer| observer.who.process == event.who.process);
                died.for_each(|observer| observer.until = observer.until.min(at));
            }
            _ => {}
        }
    }
    (observers, answers)
}

/// The leaders by term; and the time of the first campaign with an unknown outcome.
struct Led<'a> {
    by_term: BTreeMap<u64, &'a Hold>,
    perhaps: Option<Point>,
    /// From the call to the answer of campaigns whose process was stopped in between. On an engine that keeps
    /// the leader's value with its claim, such a candidate may lead before it knows. If its lease ends before
    /// the process continues, it never knows, and its answer has a later term.
    stopped: Vec<(Point, Point)>,
    /// The greatest term that had begun, in the order of the starts.
    begun: Vec<(Point, u64)>,
}

impl<'a> Led<'a> {
    fn of(history: &'a History, lock: &LockName) -> Self {
        let by_term: BTreeMap<_, _> =
            history.holds_of(lock).filter_map(|hold| Some((hold.token?, hold))).collect();
        let unknown =
            history.attempts().iter().filter(|attempt| attempt.lock == *lock && attempt.hold.is_none());
        let mut begun: Vec<_> = by_term.iter().map(|(term, hold)| (hold.start, *term)).collect();
        begun.sort_unstable();
        let mut greatest = 0;
        begun.iter_mut().for_each(|(_, term)| {
            greatest = greatest.max(*term);
            *term = greatest;
        });
        let stops = history.events().iter().enumerate().filter(|(_, event)| event.what == What::Stopped);
        let stops: Vec<_> =
            stops.map(|(index, event)| (event.who.process, Point { at: event.at, index })).collect();
        let was_stopped = |attempt: &&Attempt| {
            let during = |at: Point| attempt.invoked < at && at < attempt.ended();
            attempt.lock == *lock
                && stops.iter().any(|(process, at)| *process == attempt.who.process && during(*at))
        };
        let stopped = history.attempts().iter().filter(was_stopped);
        let stopped = stopped.map(|attempt| (attempt.invoked, attempt.ended())).collect();
        Self { by_term, perhaps: unknown.map(|attempt| attempt.invoked).min(), stopped, begun }
    }

    /// Whether a client may have led in this term at that point.
    fn is_known(&self, term: u64, at: Point) -> bool {
        match self.by_term.get(&term) {
            Some(hold) => hold.invoked < at,
            None => {
                self.perhaps.is_some_and(|invoked| invoked < at)
                    || self.stopped.iter().any(|(invoked, ended)| *invoked < at && at < *ended)
            }
        }
    }

    /// Returns the number of leaders that were judged.
    fn seen_by(
        &self,
        history: &History,
        observer: &Observer,
        told_within: Duration,
        excuses: &Excuses,
    ) -> Result<usize, Violation> {
        let (who, lock) = (observer.who, &observer.lock);
        if let Some(pair) = observer.seen.windows(2).find(|pair| pair[0].1 >= pair[1].1) {
            let says = format!("{who} saw term {} of {lock:?} after term {}", pair[1].1, pair[0].1);
            return Err(Violation::new(CHECK, history, [pair[0].0, pair[1].0], says));
        }
        if let Some((at, term)) = observer.seen.iter().find(|(at, term)| !self.is_known(*term, *at)) {
            let says = format!("{who} saw term {term} of {lock:?} without a campaign");
            return Err(Violation::new(CHECK, history, [*at, *at], says));
        }
        let (mut judged, end) = (0, observer.until.at.min(history.end()));
        for (term, hold) in &self.by_term {
            let since = excuses.calm_for(hold.start.max(observer.since), told_within);
            let due = since.at.after(told_within);
            if due > hold.end.at.min(end) {
                continue;
            }
            judged += 1;
            let in_time = observer.seen.partition_point(|(at, _)| at.at <= due);
            if observer.seen[..in_time].last().is_none_or(|(_, seen)| seen < term) {
                let says =
                    format!("{who} had not seen the leader of term {term} of {lock:?} for {told_within:?}");
                return Err(Violation::new(CHECK, history, [hold.start, observer.since], says));
            }
        }
        Ok(judged)
    }

    fn named(&self, history: &History, answer: &LeaderAnswer) -> Result<(), Violation> {
        let asked = Point::before_events_at(answer.asked);
        // Of those that had begun, the one with the greatest term: if it led all the time, it is the answer.
        let before = self.begun.partition_point(|(start, _)| *start < asked);
        let latest = before.checked_sub(1).map(|place| self.by_term[&self.begun[place].1]);
        let (who, said) =
            (answer.who, answer.term.map_or("nobody".to_owned(), |term| format!("term {term}")));
        let wrong = |hold: &Hold, why: &str| {
            let (lock, term) = (&hold.lock, hold.token.unwrap_or_default());
            let says = format!("{who} was told that {said} leads {lock:?}, and term {term} {why}");
            Err(Violation::new(CHECK, history, [hold.start, answer.at], says))
        };
        match latest {
            Some(hold) if hold.end > answer.at && answer.term < hold.token => {
                return wrong(hold, "led all the time");
            }
            Some(hold) if answer.term.is_some() && answer.term < hold.token => {
                return wrong(hold, "had begun");
            }
            _ => {}
        }
        let Some(term) = answer.term else { return Ok(()) };
        match self.by_term.get(&term) {
            Some(hold) if hold.released.is_some_and(|released| released < asked) => {
                wrong(hold, "had resigned")
            }
            _ if self.is_known(term, answer.at) => Ok(()),
            _ => {
                let says = format!("{who} was told that {said} leads, for which nobody had campaigned");
                Err(Violation::new(CHECK, history, [answer.at, answer.at], says))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::tests::script;

    /// Two clients lead, one after the other, and an observer follows them.
    const TURNS: &str = "0.5 9.1 #7 a watching
         1.0 1.1 #1 a invoked exclusive
         2.0 1.1 #1 a acquired token=256 until=99.0
         2.1 9.1 #7 a saw 256
         6.0 1.1 #1 a release
         6.1 1.1 #1 a released
         3.0 2.1 #1 a invoked exclusive
         7.0 2.1 #1 a acquired token=512 until=99.0
         7.5 9.1 #7 a saw 512
         20.0 2.1 #1 a release
         20.1 2.1 #1 a released\n";

    fn check(lines: &str) -> Result<Stats, Violation> {
        let history = script(lines);
        leaders(&history, Duration::from_secs(1), &Excuses::from_order(&history))
    }

    fn violation(lines: &str) -> String {
        check(lines).expect_err("a violation is found").to_string()
    }

    fn with(line: &str) -> String {
        format!("{TURNS}{line}")
    }

    #[test]
    fn an_observer_that_sees_every_leader_in_time_passes() {
        let told = "4.0 9.1 #0 a named 256 asked=3.0
             6.5 9.1 #0 a named nobody asked=6.4
             8.0 9.1 #0 a named 512 asked=5.0
             8.0 9.1 #0 a named nobody asked=6.5
             22.0 9.1 #0 a named nobody asked=19.0";
        assert_eq!(check(&with(told)).expect("a valid history passes").judged, 2 + 5);
        check(&TURNS.replace("2.1 9.1 #7 a saw 256", "")).expect_err("it led for four seconds");
        check(&TURNS.replace("2.1 9.1 #7 a saw 256", "").replace("6.0 1.1", "2.9 1.1"))
            .expect("it was short");
    }

    #[test]
    fn a_leader_that_an_observer_missed_is_found() {
        let text = violation(&TURNS.replace("7.5 9.1", "8.5 9.1"));
        assert!(
            text.starts_with("leaders: 9.1 had not seen the leader of term 512 of \"a\" for 1s"),
            "{text}"
        );
        let away = TURNS.replace("7.5 9.1 #7 a saw 512", "7.5 9.1 #7 a looked-away");
        check(&away).expect("the observer had stopped following");
        check(&away.replace("#7 a looked-away", "#0 - killed")).expect("it was killed");
        let dark = "7.2 8.0 #0 - fault-began partition\n9.0 8.0 #0 - fault-ended partition";
        check(&with(dark).replace("7.5 9.1", "9.5 9.1")).expect("soon after the fault");
        violation(&with(dark).replace("7.5 9.1", "10.5 9.1"));
    }

    #[test]
    fn a_term_that_goes_back_or_comes_out_of_nowhere_is_found() {
        let text = violation(&with("8.0 9.1 #7 a saw 256"));
        assert!(text.starts_with("leaders: 9.1 saw term 256 of \"a\" after term 512"), "{text}");
        let early = TURNS.replace("2.1 9.1 #7 a saw 256", "0.9 9.1 #7 a saw 256");
        assert!(violation(&early).contains("without a campaign"));
        violation(&with("8.0 9.1 #7 a saw 999"));
        check(&with("7.1 3.1 #1 a invoked exclusive\n7.9 3.0 #0 - killed\n8.0 9.1 #7 a saw 999"))
            .expect("the leader was killed before it knew");
        let stopped = "7.1 3.1 #1 a invoked exclusive\n7.9 3.0 #0 - stopped\n8.0 9.1 #7 a saw 999";
        check(&with(&format!(
            "{stopped}\n20.5 3.1 #1 a acquired token=1111 until=99.0\n20.6 9.1 #7 a saw 1111"
        )))
        .expect("the leader was stopped before it knew");
        violation(&with(&format!("{stopped}\n7.95 3.1 #1 a acquired token=555 until=99.0")));
    }

    #[test]
    fn a_wrong_answer_is_found() {
        for (line, says) in [
            ("4.0 9.1 #0 a named nobody asked=3.0", "term 256 led all the time"),
            ("9.0 9.1 #0 a named 256 asked=8.0", "term 512 led all the time"),
            ("22.0 9.1 #0 a named 256 asked=19.0", "term 512 had begun"),
            ("6.6 9.1 #0 a named 256 asked=6.5", "term 256 had resigned"),
            ("22.0 9.1 #0 a named 512 asked=21.0", "term 512 had resigned"),
            ("0.9 9.1 #0 a named 256 asked=0.8", "nobody had campaigned"),
        ] {
            let text = violation(&with(line));
            assert!(text.lines().next().is_some_and(|first| first.ends_with(says)), "{line}: {text}");
        }
    }
}
