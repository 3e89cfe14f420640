//! Prints the figures as a table or as lines of JSON.

use crate::metrics::{Aggregation, Metric};
use crate::pin::Pinning;
use crate::plan::{Bound, Goal, Quantity, Side, Workload, spelled};
use crate::rounds::Series;
use crate::stats::median;

/// The settings of the run.
pub(crate) struct Settings<'a> {
    pub(crate) engine: String,
    pub(crate) rounds: u32,
    pub(crate) millis: u64,
    pub(crate) pinning: &'a Pinning,
}

/// The ratio of one side to another, over the rounds.
pub(crate) struct Ratio {
    pub(crate) median: f64,
    pub(crate) least: f64,
    pub(crate) most: f64,
}

pub(crate) fn headline(settings: &Settings<'_>) -> String {
    let Settings { engine, rounds, millis, pinning } = settings;
    format!(
        "{engine}, {rounds} rounds of {millis} ms a side, interleaved, {pinning}\n\
         Medians over the rounds, \"max\" and \"fewest\" over all; ratio: ours / floor of the first column, median [least-most] of the rounds"
    )
}

pub(crate) fn table(workload: Workload, series: &[Series], goals: &[Goal]) -> String {
    let mut text = format!("\n{} {}\n", workload.code(), workload.title());
    if series.is_empty() {
        return text + "  none of the sides of --side\n";
    }
    let names = series.first().map(|series| column_names(series)).unwrap_or_default();
    text += &format!("  {:28}", "");
    names.iter().for_each(|name| text += &format!("{name:>0$}", width(name)));
    text += "   ratio\n";
    for one in series {
        text += &format!("  {:28}", one.side.title());
        for (column, name) in names.iter().enumerate() {
            text += &format!("{:>1$}", figure(folded(one, column)), width(name));
        }
        for &floor in one.side.floors(workload) {
            if let Some(ratio) = ratio(one, floor, series) {
                let [median, least, most] = [ratio.median, ratio.least, ratio.most].map(two_places);
                text += &format!("   {median} [{least}-{most}] of {}", spelled(floor));
            }
        }
        text += "\n";
    }
    for GoalResult { side, what, value, bound, met } in goal_results(series, goals) {
        let (value, word) = (figure(value), if met { "met" } else { "MISSED" });
        text += &format!("  goal: {}: {what} {value}, {bound}: {word}\n", spelled(side));
    }
    text
}

pub(crate) fn json(settings: &Settings<'_>, workload: Workload, series: &[Series], goals: &[Goal]) -> String {
    let mut text = String::new();
    for one in series {
        let figures = column_names(one).into_iter().enumerate().map(|(column, name)| {
            let rounds: Vec<_> = values(one, column).into_iter().map(number).collect();
            let (value, rounds) = (number(folded(one, column)), rounds.join(","));
            format!("\"{name}\":{{\"value\":{value},\"rounds\":[{rounds}]}}")
        });
        let figures = figures.collect::<Vec<_>>().join(",");
        let ratios = one.side.floors(workload).iter().filter_map(|&floor| {
            let Ratio { median, least, most } = ratio(one, floor, series)?;
            let (median, least, most) = (number(median), number(least), number(most));
            Some(format!("\"{}\":{{\"median\":{median},\"least\":{least},\"most\":{most}}}", spelled(floor)))
        });
        let ratios = ratios.collect::<Vec<_>>().join(",");
        text += &format!(
            "{{\"workload\":\"{}\",\"engine\":\"{}\",\"side\":\"{}\",\"millis\":{},\"pinned\":{},\"figures\":{{{figures}}},\"ratios\":{{{ratios}}}}}\n",
            workload.code(),
            settings.engine,
            spelled(one.side),
            settings.millis,
            settings.pinning.is_pinned(),
        );
    }
    for GoalResult { side, what, value, bound, met } in goal_results(series, goals) {
        text += &format!(
            "{{\"workload\":\"{}\",\"engine\":\"{}\",\"side\":\"{}\",\"goal\":\"{what}, {bound}\",\"value\":{},\"met\":{met}}}\n",
            workload.code(),
            settings.engine,
            spelled(side),
            number(value),
        );
    }
    text
}

/// A goal, and whether it was met.
struct GoalResult {
    side: Side,
    what: String,
    value: f64,
    bound: String,
    met: bool,
}

/// The results of the goals, without those of sides that were left out.
fn goal_results(series: &[Series], goals: &[Goal]) -> Vec<GoalResult> {
    goals.iter().filter_map(|goal| goal_result(series, goal)).collect()
}

fn goal_result(series: &[Series], goal: &Goal) -> Option<GoalResult> {
    let one = series.iter().find(|series| series.side == goal.side)?;
    let (what, value) = match goal.what {
        Quantity::Ratio(floor) => (format!("ratio to {}", spelled(floor)), ratio(one, floor, series)?.median),
        Quantity::RatioOf(name, floor) => {
            let column = column_names(one).iter().position(|column| *column == name)?;
            let what = format!("{name}, ratio to {}", spelled(floor));
            (what, ratio_of(one, floor, series, column)?.median)
        }
        Quantity::Figure(name) => (name.to_owned(), named(one, name)?),
    };
    let (word, limit) = match goal.bound {
        Bound::Most(limit) => ("at most", limit),
        Bound::Least(limit) => ("at least", limit),
        Bound::MostFigure(name) => ("at most", named(one, name)?),
    };
    let met = if word == "at least" { value >= limit } else { value <= limit };
    Some(GoalResult { side: goal.side, what, value, bound: format!("{word} {}", bound_figure(limit)), met })
}

/// The limit of a goal, in full if it is a round number. A measured limit is shown as a figure.
fn bound_figure(limit: f64) -> String {
    if (limit * 100.0 - (limit * 100.0).round()).abs() < 1e-9 { limit.to_string() } else { figure(limit) }
}

fn named(series: &Series, name: &str) -> Option<f64> {
    let column = column_names(series).iter().position(|column| *column == name)?;
    Some(folded(series, column))
}

/// A number for a table: three significant digits, with separated thousands.
pub(crate) fn figure(value: f64) -> String {
    if !value.is_finite() {
        return "-".into();
    }
    if value < 1_000.0 {
        let places = if value < 10.0 { 3 } else { usize::from(value < 100.0) };
        return format!("{value:.places$}");
    }
    let digits = format!("{value:.0}");
    let groups = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy);
    groups.collect::<Vec<_>>().join(",")
}

fn width(column: &str) -> usize {
    (column.len() + 3).max(12)
}

fn two_places(value: f64) -> String {
    if value.is_finite() { format!("{value:.2}") } else { "?".into() }
}

/// A number in JSON; NaN and infinity are `null`.
pub(crate) fn number(value: f64) -> String {
    if value.is_finite() { format!("{value}") } else { "null".into() }
}

/// The ratios of pairs that were measured next to each other. A drift of the machine changes them less than
/// the ratio of the medians.
fn ratio(one: &Series, floor: Side, all: &[Series]) -> Option<Ratio> {
    ratio_of(one, floor, all, 0)
}

fn ratio_of(one: &Series, floor: Side, all: &[Series], column: usize) -> Option<Ratio> {
    let floor = all.iter().find(|series| series.side == floor)?;
    let pairs = values(one, column).into_iter().zip(values(floor, column));
    // A short round may have no figure if the machine was busy.
    let ratios: Vec<_> = pairs.map(|(ours, floor)| ours / floor).filter(|ratio| ratio.is_finite()).collect();
    Some(Ratio::of(&ratios))
}

impl Ratio {
    pub(crate) fn of(ratios: &[f64]) -> Self {
        let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
        let most = ratios.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        Self { median: median(ratios), least, most }
    }
}

fn column_names(series: &Series) -> Vec<&'static str> {
    series.rounds.first().map(|round| round.iter().map(|metric| metric.name).collect()).unwrap_or_default()
}

fn column(series: &Series, column: usize) -> impl Iterator<Item = &Metric> {
    series.rounds.iter().filter_map(move |round| round.get(column))
}

fn values(series: &Series, index: usize) -> Vec<f64> {
    column(series, index).map(|metric| metric.value).collect()
}

fn folded(series: &Series, index: usize) -> f64 {
    let values = values(series, index);
    match column(series, index).next().map(|metric| metric.aggregation) {
        Some(Aggregation::Max) => values.into_iter().fold(f64::NAN, f64::max),
        Some(Aggregation::Min) => values.into_iter().fold(f64::NAN, f64::min),
        _ => median(&values.into_iter().filter(|value| value.is_finite()).collect::<Vec<_>>()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_three_significant_digits_and_separated_thousands() {
        assert_eq!(figure(1_234_567.4), "1,234,567");
        assert_eq!(figure(123.4), "123");
        assert_eq!(figure(12.34), "12.3");
        assert_eq!(figure(0.9999), "1.000");
        assert_eq!(figure(f64::NAN), "-");
        assert_eq!(number(f64::NAN), "null");
    }

    #[test]
    fn figures_of_rounds_are_combined_by_median_maximum_or_minimum() {
        let metric = |aggregation, value| vec![Metric { name: "x", aggregation, value }];
        let of = |aggregation| Series {
            side: Side::Flock,
            rounds: [1.0, 9.0, 2.0].map(|value| metric(aggregation, value)).to_vec(),
        };
        assert_eq!(
            [Aggregation::Median, Aggregation::Max, Aggregation::Min]
                .map(|aggregation| folded(&of(aggregation), 0)),
            [2.0, 9.0, 1.0]
        );
    }
}
