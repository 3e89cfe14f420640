//! From the turns of all processes to the figures of one side in one round.

use std::time::Duration;

use crate::passing;
use crate::plan::Workload;
use crate::stats::{jain, percentile};
use crate::turn::{Tally, Turn};

/// As in the library's defaults.rs; a test holds the two together.
const PASS_FOR: Duration = Duration::from_millis(5);

/// How the figures of several rounds become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fold {
    Median,
    /// The worst of what should be little stays.
    Most,
    /// The worst of what should be much stays.
    Least,
}

/// One figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Metric {
    pub(crate) name: &'static str,
    pub(crate) fold: Fold,
    pub(crate) value: f64,
}

impl Metric {
    pub(crate) fn median_of(name: &'static str, value: f64) -> Self {
        Self { name, fold: Fold::Median, value }
    }

    fn most_of(name: &'static str, value: f64) -> Self {
        Self { name, fold: Fold::Most, value }
    }
}

/// The figures of one side in one round; the first is the one that ratios are made of.
pub(crate) fn measure(workload: Workload, tallies: &[Tally], length: u64) -> Vec<Metric> {
    match workload {
        Workload::Free if tallies.iter().any(|tally| !tally.turns.is_empty()) => {
            pairs(&Merged::new(workload, tallies, length))
        }
        Workload::Free => {
            let rates = tallies.iter().map(|tally| tally.counted as f64 * 1e9 / tally.nanos as f64);
            vec![Metric::median_of("pairs/s", rates.sum())]
        }
        Workload::Pair | Workload::Ring => passes(&Merged::new(workload, tallies, length), tallies),
        Workload::HandOver => hand_overs(&Merged::new(workload, tallies, length)),
        _ => contended(workload, &Merged::new(workload, tallies, length)),
    }
}

/// One task, turn after turn: a pair lasts until it asks again.
fn pairs(merged: &Merged) -> Vec<Metric> {
    let micros = |span: fn(&Turn, &Turn) -> u64| -> Vec<_> {
        merged.turns.windows(2).map(|pair| span(&pair[0], &pair[1]) as f64 / 1e3).collect()
    };
    let both = micros(|turn, next| next.asked - turn.asked);
    let acquires = micros(|turn, _| turn.acquired - turn.asked);
    let releases = micros(|turn, next| next.asked - turn.released);
    vec![
        Metric::median_of("p50 us", percentile(&both, 50.0)),
        Metric::median_of("p99 us", percentile(&both, 99.0)),
        Metric::median_of("acquire p50", percentile(&acquires, 50.0)),
        Metric::median_of("release p50", percentile(&releases, 50.0)),
        Metric::median_of("pairs/s", merged.per_second(merged.turns.len())),
    ]
}

fn contended(workload: Workload, merged: &Merged) -> Vec<Metric> {
    let mut metrics = Vec::new();
    if workload != Workload::Distinct {
        metrics
            .push(Metric::median_of("owner changes/s", merged.per_second(merged.changes(|turn| turn.task))));
    }
    if workload.is_shared() {
        metrics.push(Metric::median_of(
            "process changes/s",
            merged.per_second(merged.changes(|turn| merged.process(turn))),
        ));
    }
    metrics.push(Metric::median_of("pairs/s", merged.per_second(merged.turns.len())));
    metrics.push(Metric::most_of("max wait ms", merged.longest_wait as f64 / 1e6));
    if workload.is_shared() {
        metrics.push(Metric::median_of("goal: at most", merged.wait_goal()));
    }
    metrics.push(Metric::median_of("Jain/task", jain(&merged.shares(merged.tasks, |turn| turn.task))));
    if workload.is_shared() {
        let shares = merged.shares(merged.processes, |turn| merged.process(turn));
        metrics.push(Metric::median_of("Jain/process", jain(&shares)));
        let fewest = shares.iter().min().copied().unwrap_or_default();
        metrics.push(Metric { name: "fewest/process", fold: Fold::Least, value: fewest as f64 });
    }
    metrics
}

fn hand_overs(merged: &Merged) -> Vec<Metric> {
    let micros = merged.hand_overs();
    let stayed = merged.turns.len().saturating_sub(1 + merged.changes(|turn| turn.task));
    vec![
        Metric::median_of("p50 us", percentile(&micros, 50.0)),
        Metric::median_of("p99 us", percentile(&micros, 99.0)),
        Metric::median_of("mean us", micros.iter().sum::<f64>() / micros.len() as f64),
        Metric::most_of("max us", percentile(&micros, 100.0)),
        Metric::median_of("hand-overs", micros.len() as f64),
        Metric::median_of("kept by owner", stayed as f64),
    ]
}

/// The median of the blocks is the pass alone; the mean has the engine's part in it, once in 256 turns.
fn passes(merged: &Merged, tallies: &[Tally]) -> Vec<Metric> {
    let block = passing::BLOCK as f64;
    let blocks: Vec<_> = merged.gaps().map(|nanos| nanos as f64 / block).collect();
    let turns: u64 = tallies.iter().map(|tally| tally.counted).sum();
    vec![
        Metric::median_of("ns/pass", percentile(&blocks, 50.0)),
        Metric::median_of("mean ns/pass", blocks.iter().sum::<f64>() / blocks.len() as f64),
        Metric::median_of("turns/pass", turns as f64 / (merged.turns.len() as f64 * block)),
    ]
}

/// The turns of all processes within the window, in the order in which the lock went round.
struct Merged {
    turns: Vec<Turn>,
    tasks: u64,
    processes: u64,
    longest_wait: u64,
    length: u64,
}

impl Merged {
    fn new(workload: Workload, tallies: &[Tally], length: u64) -> Self {
        let (tasks, processes) = (u64::from(workload.tasks()), u64::from(workload.processes()));
        let mut turns = Vec::new();
        for (process, tally) in tallies.iter().enumerate() {
            let first = process as u64 * tasks;
            turns.extend(tally.turns.iter().map(|turn| Turn { task: first + turn.task, ..*turn }));
        }
        turns.sort_unstable_by_key(|turn| turn.acquired);
        // Who still waited at the end waited at least until then: without it, the starved would not show.
        let waits = turns.iter().map(|turn| turn.acquired.min(length).saturating_sub(turn.asked));
        let longest_wait = waits.max().unwrap_or_default();
        turns.retain(|turn| turn.acquired < length);
        Self { turns, tasks: tasks * processes, processes, longest_wait, length }
    }

    fn per_second(&self, count: usize) -> f64 {
        count as f64 * 1e9 / self.length as f64
    }

    fn process(&self, turn: &Turn) -> u64 {
        turn.task / (self.tasks / self.processes)
    }

    fn changes(&self, owner: impl Fn(&Turn) -> u64) -> usize {
        self.turns.windows(2).filter(|pair| owner(&pair[0]) != owner(&pair[1])).count()
    }

    /// Nanoseconds from each noted turn to the next.
    fn gaps(&self) -> impl Iterator<Item = u64> {
        self.turns.windows(2).map(|pair| pair[1].acquired - pair[0].acquired)
    }

    /// Milliseconds that nobody should wait longer than: four rounds of every process keeping the lock to the full.
    fn wait_goal(&self) -> f64 {
        let holds: Vec<_> = self.turns.iter().map(|turn| (turn.released - turn.acquired) as f64).collect();
        let hold = if holds.is_empty() { 0.0 } else { percentile(&holds, 50.0) };
        4.0 * self.processes as f64 * (PASS_FOR.as_secs_f64() * 1e3 + hold / 1e6)
    }

    fn shares(&self, of: u64, owner: impl Fn(&Turn) -> u64) -> Vec<u64> {
        let mut shares = vec![0; of as usize];
        self.turns.iter().for_each(|turn| shares[owner(turn) as usize] += 1);
        shares
    }

    /// Microseconds from a release to the other's acquire, where the other already waited.
    fn hand_overs(&self) -> Vec<f64> {
        let waited = |from: &Turn, to: &Turn| from.task != to.task && to.asked < from.released;
        self.turns
            .windows(2)
            .filter(|pair| waited(&pair[0], &pair[1]))
            .map(|pair| pair[1].acquired.saturating_sub(pair[0].released) as f64 / 1e3)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(task: u64, asked: u64, acquired: u64, released: u64) -> Turn {
        Turn { task, asked, acquired, released }
    }

    #[test]
    fn turns_of_processes_are_put_in_order_before_changes_are_counted() {
        let first = Tally::of(vec![turn(0, 0, 10, 10), turn(0, 0, 30, 30)]);
        let second = Tally::of(vec![turn(0, 0, 20, 20), turn(3, 0, 40, 40)]);
        let merged = Merged::new(Workload::Processes, &[first, second], 1_000);
        assert_eq!(merged.changes(|turn| turn.task), 3);
        assert_eq!(merged.changes(|turn| merged.process(turn)), 3);
        assert_eq!(merged.shares(4, |turn| merged.process(turn)), [2, 2, 0, 0]);
        assert_eq!(merged.shares(16, |turn| turn.task).len(), 16);
    }

    #[test]
    fn the_goal_of_waits_counts_on_the_librarys_pass_for_and_on_what_is_held() {
        let defaults = include_str!("../../latchwork/src/core/defaults.rs");
        assert!(
            defaults.contains("PASS_FOR: Duration = Duration::from_millis(5);"),
            "set PASS_FOR as it is there"
        );
        let tally = |hold: u64| [Tally::of(vec![turn(0, 0, 10, 10 + hold)])];
        let goal = |hold| Merged::new(Workload::Processes, &tally(hold), 1_000_000_000).wait_goal();
        assert_eq!((goal(0), goal(2_000_000)), (80.0, 112.0));
    }

    #[test]
    fn a_process_that_was_never_served_shows() {
        let tallies =
            [0, 1, 2, 3].map(|process| Tally::of((0..process).map(|at| turn(0, 0, at, at)).collect()));
        let metrics = measure(Workload::Processes, &tallies, 1_000);
        let fewest = metrics.iter().find(|metric| metric.name == "fewest/process").expect("it is there");
        assert_eq!((fewest.value, fewest.fold), (0.0, Fold::Least));
    }

    #[test]
    fn one_slow_block_moves_the_mean_of_passes_and_not_their_median() {
        let noted = [0, 3_200, 6_400, 9_600, 22_400].map(|at| turn(0, 0, at, at));
        let tally = Tally { counted: 320, nanos: 0, turns: noted.to_vec() };
        let values: Vec<_> =
            measure(Workload::Pair, &[tally], 1_000_000).iter().map(|metric| metric.value).collect();
        assert_eq!(values, [100.0, 175.0, 2.0]);
    }

    #[test]
    fn who_starves_until_the_end_sets_the_longest_wait() {
        let tally = Tally::of(vec![turn(0, 5, 10, 10), turn(1, 100, 5_000, 5_000)]);
        let merged = Merged::new(Workload::Contended, &[tally], 1_000);
        assert_eq!((merged.longest_wait, merged.turns.len()), (900, 1));
    }

    #[test]
    fn only_who_waited_before_the_release_was_handed_the_lock() {
        let first = Tally::of(vec![turn(0, 0, 0, 1_000), turn(0, 1_100, 4_500, 5_000)]);
        let second = Tally::of(vec![turn(0, 0, 3_000, 4_000), turn(0, 6_000, 7_000, 8_000)]);
        let merged = Merged::new(Workload::HandOver, &[first, second], 1_000_000);
        assert_eq!(merged.hand_overs(), [2.0, 0.5]);
    }
}
