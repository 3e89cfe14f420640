//! Computes the figures of one side in one round from the samples of all processes.

use std::time::Duration;

use crate::local_handoff;
use crate::plan::Workload;
use crate::sample::{Sample, WorkerResult};
use crate::stats::{jain, percentile};

/// As in the library's defaults.rs; a test compares the two.
const PASS_FOR: Duration = Duration::from_millis(5);

/// How the figures of several rounds are combined to one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Aggregation {
    Median,
    /// The worst value of a figure that should be small.
    Max,
    /// The worst value of a figure that should be large.
    Min,
}

/// One figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Metric {
    pub(crate) name: &'static str,
    pub(crate) aggregation: Aggregation,
    pub(crate) value: f64,
}

impl Metric {
    pub(crate) fn median_of(name: &'static str, value: f64) -> Self {
        Self { name, aggregation: Aggregation::Median, value }
    }

    fn max_of(name: &'static str, value: f64) -> Self {
        Self { name, aggregation: Aggregation::Max, value }
    }
}

/// The figures of one side in one round. Ratios are computed from the first one.
pub(crate) fn measure(workload: Workload, results: &[WorkerResult], length: u64) -> Vec<Metric> {
    match workload {
        Workload::Free if results.iter().any(|result| !result.samples.is_empty()) => {
            pairs(&Merged::new(workload, results, length))
        }
        Workload::Free => {
            let rates = results.iter().map(|result| result.counted as f64 * 1e9 / result.nanos as f64);
            vec![Metric::median_of("pairs/s", rates.sum())]
        }
        Workload::Pair | Workload::Ring => passes(&Merged::new(workload, results, length), results),
        Workload::HandOver => hand_overs(&Merged::new(workload, results, length)),
        _ => contended(workload, &Merged::new(workload, results, length)),
    }
}

/// One task: a pair lasts until the next request.
fn pairs(merged: &Merged) -> Vec<Metric> {
    let micros = |span: fn(&Sample, &Sample) -> u64| -> Vec<_> {
        merged.samples.windows(2).map(|pair| span(&pair[0], &pair[1]) as f64 / 1e3).collect()
    };
    let both = micros(|sample, next| next.requested - sample.requested);
    let acquires = micros(|sample, _| sample.acquired - sample.requested);
    let releases = micros(|sample, next| next.requested - sample.released);
    vec![
        Metric::median_of("p50 us", percentile(&both, 50.0)),
        Metric::median_of("p99 us", percentile(&both, 99.0)),
        Metric::median_of("acquire p50", percentile(&acquires, 50.0)),
        Metric::median_of("release p50", percentile(&releases, 50.0)),
        Metric::median_of("pairs/s", merged.per_second(merged.samples.len())),
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
            merged.per_second(merged.changes(|sample| merged.process(sample))),
        ));
    }
    metrics.push(Metric::median_of("pairs/s", merged.per_second(merged.samples.len())));
    metrics.push(Metric::max_of("max wait ms", merged.longest_wait as f64 / 1e6));
    if workload.is_shared() {
        metrics.push(Metric::median_of("goal: at most", merged.wait_goal()));
    }
    metrics.push(Metric::median_of("Jain/task", jain(&merged.shares(merged.tasks, |turn| turn.task))));
    if workload.is_shared() {
        let shares = merged.shares(merged.processes, |sample| merged.process(sample));
        metrics.push(Metric::median_of("Jain/process", jain(&shares)));
        let fewest = shares.iter().min().copied().unwrap_or_default();
        metrics.push(Metric { name: "fewest/process", aggregation: Aggregation::Min, value: fewest as f64 });
    }
    metrics
}

fn hand_overs(merged: &Merged) -> Vec<Metric> {
    let micros = merged.hand_overs();
    let stayed = merged.samples.len().saturating_sub(1 + merged.changes(|sample| sample.task));
    vec![
        Metric::median_of("p50 us", percentile(&micros, 50.0)),
        Metric::median_of("p99 us", percentile(&micros, 99.0)),
        Metric::median_of("mean us", micros.iter().sum::<f64>() / micros.len() as f64),
        Metric::max_of("max us", percentile(&micros, 100.0)),
        Metric::median_of("hand-overs", micros.len() as f64),
        Metric::median_of("kept by owner", stayed as f64),
    ]
}

/// The median of the blocks is that of the pass alone. The mean includes the engine, which takes part once in
/// 256 cycles.
fn passes(merged: &Merged, results: &[WorkerResult]) -> Vec<Metric> {
    let block = local_handoff::BLOCK as f64;
    let blocks: Vec<_> = merged.gaps().map(|nanos| nanos as f64 / block).collect();
    let cycles: u64 = results.iter().map(|result| result.counted).sum();
    vec![
        Metric::median_of("ns/pass", percentile(&blocks, 50.0)),
        Metric::median_of("mean ns/pass", blocks.iter().sum::<f64>() / blocks.len() as f64),
        Metric::median_of("turns/pass", cycles as f64 / (merged.samples.len() as f64 * block)),
    ]
}

/// The samples of all processes within the window, in the order of their acquisitions.
struct Merged {
    samples: Vec<Sample>,
    tasks: u64,
    processes: u64,
    longest_wait: u64,
    length: u64,
}

impl Merged {
    fn new(workload: Workload, results: &[WorkerResult], length: u64) -> Self {
        let (tasks, processes) = (u64::from(workload.tasks()), u64::from(workload.processes()));
        let mut samples = Vec::new();
        for (process, result) in results.iter().enumerate() {
            let first = process as u64 * tasks;
            samples
                .extend(result.samples.iter().map(|sample| Sample { task: first + sample.task, ..*sample }));
        }
        samples.sort_unstable_by_key(|sample| sample.acquired);
        // A task that still waited at the end has waited at least until then: otherwise starvation would not
        // show.
        let waits = samples.iter().map(|sample| sample.acquired.min(length).saturating_sub(sample.requested));
        let longest_wait = waits.max().unwrap_or_default();
        samples.retain(|sample| sample.acquired < length);
        Self { samples, tasks: tasks * processes, processes, longest_wait, length }
    }

    fn per_second(&self, count: usize) -> f64 {
        count as f64 * 1e9 / self.length as f64
    }

    fn process(&self, sample: &Sample) -> u64 {
        sample.task / (self.tasks / self.processes)
    }

    fn changes(&self, owner: impl Fn(&Sample) -> u64) -> usize {
        self.samples.windows(2).filter(|pair| owner(&pair[0]) != owner(&pair[1])).count()
    }

    /// Nanoseconds from each sample to the next.
    fn gaps(&self) -> impl Iterator<Item = u64> {
        self.samples.windows(2).map(|pair| pair[1].acquired - pair[0].acquired)
    }

    /// The longest acceptable wait in milliseconds: four rounds in which every process keeps the lock as long
    /// as it may.
    fn wait_goal(&self) -> f64 {
        let holds: Vec<_> =
            self.samples.iter().map(|sample| (sample.released - sample.acquired) as f64).collect();
        let hold = if holds.is_empty() { 0.0 } else { percentile(&holds, 50.0) };
        4.0 * self.processes as f64 * (PASS_FOR.as_secs_f64() * 1e3 + hold / 1e6)
    }

    fn shares(&self, of: u64, owner: impl Fn(&Sample) -> u64) -> Vec<u64> {
        let mut shares = vec![0; of as usize];
        self.samples.iter().for_each(|sample| shares[owner(sample) as usize] += 1);
        shares
    }

    /// Microseconds from a release to another task's acquisition, if that task was already waiting.
    fn hand_overs(&self) -> Vec<f64> {
        let waited = |from: &Sample, to: &Sample| from.task != to.task && to.requested < from.released;
        self.samples
            .windows(2)
            .filter(|pair| waited(&pair[0], &pair[1]))
            .map(|pair| pair[1].acquired.saturating_sub(pair[0].released) as f64 / 1e3)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(task: u64, requested: u64, acquired: u64, released: u64) -> Sample {
        Sample { task, requested, acquired, released }
    }

    #[test]
    fn samples_of_processes_are_sorted_before_changes_are_counted() {
        let first = WorkerResult::of(vec![sample(0, 0, 10, 10), sample(0, 0, 30, 30)]);
        let second = WorkerResult::of(vec![sample(0, 0, 20, 20), sample(3, 0, 40, 40)]);
        let merged = Merged::new(Workload::Processes, &[first, second], 1_000);
        assert_eq!(merged.changes(|sample| sample.task), 3);
        assert_eq!(merged.changes(|sample| merged.process(sample)), 3);
        assert_eq!(merged.shares(4, |sample| merged.process(sample)), [2, 2, 0, 0]);
        assert_eq!(merged.shares(16, |sample| sample.task).len(), 16);
    }

    #[test]
    fn the_goal_of_waits_depends_on_the_librarys_pass_for_and_on_the_hold_time() {
        let defaults = include_str!("../../latchwork/src/core/defaults.rs");
        assert!(
            defaults.contains("PASS_FOR: Duration = Duration::from_millis(5);"),
            "set PASS_FOR as it is there"
        );
        let result = |hold: u64| [WorkerResult::of(vec![sample(0, 0, 10, 10 + hold)])];
        let goal = |hold| Merged::new(Workload::Processes, &result(hold), 1_000_000_000).wait_goal();
        assert_eq!((goal(0), goal(2_000_000)), (80.0, 112.0));
    }

    #[test]
    fn a_process_without_a_grant_shows_in_the_figures() {
        let results = [0, 1, 2, 3]
            .map(|process| WorkerResult::of((0..process).map(|at| sample(0, 0, at, at)).collect()));
        let metrics = measure(Workload::Processes, &results, 1_000);
        let fewest = metrics.iter().find(|metric| metric.name == "fewest/process").expect("it is there");
        assert_eq!((fewest.value, fewest.aggregation), (0.0, Aggregation::Min));
    }

    #[test]
    fn one_slow_block_changes_the_mean_of_passes_and_not_their_median() {
        let noted = [0, 3_200, 6_400, 9_600, 22_400].map(|at| sample(0, 0, at, at));
        let result = WorkerResult { counted: 320, nanos: 0, samples: noted.to_vec() };
        let values: Vec<_> =
            measure(Workload::Pair, &[result], 1_000_000).iter().map(|metric| metric.value).collect();
        assert_eq!(values, [100.0, 175.0, 2.0]);
    }

    #[test]
    fn a_task_that_starves_until_the_end_has_the_longest_wait() {
        let result = WorkerResult::of(vec![sample(0, 5, 10, 10), sample(1, 100, 5_000, 5_000)]);
        let merged = Merged::new(Workload::Contended, &[result], 1_000);
        assert_eq!((merged.longest_wait, merged.samples.len()), (900, 1));
    }

    #[test]
    fn only_a_task_that_waited_before_the_release_counts_as_a_hand_over() {
        let first = WorkerResult::of(vec![sample(0, 0, 0, 1_000), sample(0, 1_100, 4_500, 5_000)]);
        let second = WorkerResult::of(vec![sample(0, 0, 3_000, 4_000), sample(0, 6_000, 7_000, 8_000)]);
        let merged = Merged::new(Workload::HandOver, &[first, second], 1_000_000);
        assert_eq!(merged.hand_overs(), [2.0, 0.5]);
    }
}
