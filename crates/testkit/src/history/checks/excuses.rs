//! The times in which an engine does not give the guarantee of a check.

use std::time::Duration;

use latchwork::{Guarantees, Promise};

use crate::history::{Fault, History, Point, What};

/// Disjoint spans of time, in order.
#[derive(Clone, Debug, Default)]
pub struct Excuses {
    spans: Vec<[Point; 2]>,
}

impl Excuses {
    /// No time is excused.
    pub const fn none() -> Self {
        Self { spans: Vec::new() }
    }

    /// The spans from the start to the end of every fault that `excuses` selects. A fault without an end
    /// continues for ever.
    pub fn of(history: &History, excuses: impl Fn(Fault) -> bool) -> Self {
        let (mut spans, mut running, mut since) = (Vec::new(), 0_u32, Point::NEVER);
        for (index, event) in history.events().iter().enumerate() {
            let at = Point { at: event.at, index };
            match event.what {
                What::FaultBegan(fault) if excuses(fault) => {
                    running += 1;
                    since = since.min(at);
                }
                What::FaultEnded(fault) if excuses(fault) && running > 0 => {
                    running -= 1;
                    if running == 0 {
                        spans.push([since, at]);
                        since = Point::NEVER;
                    }
                }
                _ => {}
            }
        }
        if running > 0 {
            spans.push([since, Point::NEVER]);
        }
        Self { spans }
    }

    /// Faults under which this engine does not promise exclusion.
    pub fn from_exclusion(history: &History, promised: &Guarantees) -> Self {
        Self::of(history, |fault| {
            matches!(fault.promise(&promised.faults), Promise::FencedOnly | Promise::Breaks)
        })
    }

    /// Also excuses pauses: a process that is stopped cannot be told of a loss.
    pub fn from_telling(history: &History, promised: &Guarantees) -> Self {
        Self::of(history, |fault| {
            let promise = fault.promise(&promised.faults);
            fault == Fault::HolderPause || matches!(promise, Promise::FencedOnly | Promise::Breaks)
        })
    }

    /// Excuses every fault.
    pub fn from_order(history: &History) -> Self {
        Self::of(history, |_| true)
    }

    /// The first time after this point from which no time is excused for this long.
    pub fn calm_for(&self, mut from: Point, span: Duration) -> Point {
        let next = self.spans.partition_point(|[_, end]| *end < from);
        for [start, end] in &self.spans[next..] {
            if *start > Point::before_events_at(from.at.after(span)) {
                break;
            }
            from = *end;
        }
        from
    }

    /// Excuses everything since the first fault.
    pub fn from_the_first_fault_on(history: &History) -> Self {
        let every = Self::from_order(history);
        Self { spans: every.spans.first().map(|[start, _]| [*start, Point::NEVER]).into_iter().collect() }
    }

    /// Whether a fault began or was active between these two points.
    pub fn cover(&self, from: Point, to: Point) -> bool {
        let next = self.spans.partition_point(|[_, end]| *end < from);
        self.spans.get(next).is_some_and(|[start, _]| *start <= to)
    }
}

#[cfg(test)]
mod tests {
    use latchwork::clock::Moment;

    use super::*;
    use crate::history::tests::script;

    fn at(seconds: u64) -> Point {
        Point::before_events_at(Moment::from_micros(seconds * 1_000_000))
    }

    #[test]
    fn overlapping_faults_are_one_span_and_one_without_an_end_goes_on() {
        let history = script(
            "10.0 9.0 #0 - fault-began partition
             12.0 9.0 #0 - fault-began restart
             14.0 9.0 #0 - fault-ended partition
             16.0 9.0 #0 - fault-ended restart
             20.0 9.0 #0 - fault-began trouble
             22.0 9.0 #0 - fault-ended trouble
             30.0 9.0 #0 - fault-began partition",
        );
        let excuses = Excuses::of(&history, |fault| fault != Fault::Trouble);
        for (from, to, covered) in
            [(1, 9, false), (1, 11, true), (15, 15, true), (17, 29, false), (40, 50, true)]
        {
            assert_eq!(excuses.cover(at(from), at(to)), covered, "{from} to {to}");
        }
        assert!(!Excuses::none().cover(at(0), at(99)));
        let calm =
            |from: u64| excuses.calm_for(at(from), Duration::from_secs(3)).at.since(at(0).at).as_secs();
        assert_eq!([1, 8, 12, 17, 22].map(calm), [1, 16, 16, 17, 22]);
        assert_eq!(excuses.calm_for(at(28), Duration::from_secs(3)), Point::NEVER);
    }
}
