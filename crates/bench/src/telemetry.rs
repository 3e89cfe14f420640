//! The cost of telemetry without a subscriber: W1 on memory, the cheapest pair, in two builds of this binary.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Result;
use crate::args::{Args, TelemetryOptions};
use crate::engine_servers::EngineServers;
use crate::pin::Pinning;
use crate::plan::{Side, Workload};
use crate::report::{Ratio, figure, number};
use crate::rounds;
use crate::stats::median;

const WITH: &str = "with telemetry";
const WITHOUT: &str = "without telemetry";

/// Prints how this binary was built, for the other build to check.
pub(crate) fn print_build() -> Result<()> {
    println!("{}", if cfg!(feature = "telemetry") { WITH } else { WITHOUT });
    Ok(())
}

/// Runs both builds alternately and prints the time of a pair in each.
pub(crate) fn run(telemetry: &TelemetryOptions, args: &Args, pinning: &Pinning) -> Result<()> {
    let with = built(std::env::current_exe()?, WITH)?;
    let without = built(telemetry.without.clone(), WITHOUT)?;
    let mut pairs = Pairs::default();
    for round in 0..args.rounds {
        // The difference is a few nanoseconds: a build that always ran second would show it.
        if round % 2 == 0 {
            pairs.with.push(nanos(&with, args)?);
            pairs.without.push(nanos(&without, args)?);
        } else {
            pairs.without.push(nanos(&without, args)?);
            pairs.with.push(nanos(&with, args)?);
        }
    }
    print!("{}", if args.json { pairs.json(args, pinning) } else { pairs.table(args, pinning) });
    Ok(())
}

/// The path of `program`, after a check of how it was built.
fn built(program: PathBuf, how: &str) -> Result<PathBuf> {
    let program = program.canonicalize().map_err(|error| format!("{program:?}: {error}"))?;
    let told = Command::new(&program).arg("features").output()?;
    if String::from_utf8_lossy(&told.stdout).trim() != how {
        return Err(format!(
            "{program:?} is not a bench built {how}; crates/bench/README.md has the command"
        )
        .into());
    }
    Ok(program)
}

/// Nanoseconds for one acquire and release.
fn nanos(program: &Path, args: &Args) -> Result<f64> {
    let metrics = rounds::once(program, Workload::Free, Side::MemoryCurrent, args, &EngineServers::none())?;
    Ok(1e9 / metrics.first().ok_or("W1 has no figures")?.value)
}

/// Nanoseconds per pair, round by round.
#[derive(Default)]
struct Pairs {
    with: Vec<f64>,
    without: Vec<f64>,
}

impl Pairs {
    fn differences(&self) -> Ratio {
        Ratio::of(
            &self.with.iter().zip(&self.without).map(|(with, without)| with - without).collect::<Vec<_>>(),
        )
    }

    fn table(&self, args: &Args, pinning: &Pinning) -> String {
        let Args { rounds, millis, .. } = args;
        let mut text = format!(
            "telemetry without a subscriber: W1 on memory, current-thread, {rounds} rounds of {millis} ms a side, \
             interleaved, {pinning}\n"
        );
        for (title, nanos) in [(WITH, &self.with), (WITHOUT, &self.without)] {
            text += &format!("  {title:20}{:>10} ns/pair\n", figure(median(nanos)));
        }
        let Ratio { median, least, most } = self.differences();
        text + &format!(
            "  {:20}{median:>10.1} ns/pair [{least:.1} to {most:.1} in the rounds]\n",
            "difference"
        )
    }

    fn json(&self, args: &Args, pinning: &Pinning) -> String {
        let Ratio { median: middle, least, most } = self.differences();
        let [with, without] = [&self.with, &self.without].map(|nanos| number(median(nanos)));
        let [middle, least, most] = [middle, least, most].map(number);
        format!(
            "{{\"workload\":\"telemetry\",\"rounds\":{},\"millis\":{},\"pinned\":{},\"with ns/pair\":{with},\"without ns/pair\":{without},\"difference ns/pair\":{{\"median\":{middle},\"least\":{least},\"most\":{most}}}}}\n",
            args.rounds,
            args.millis,
            pinning.is_pinned(),
        )
    }
}
