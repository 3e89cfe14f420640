//! The run: every side of a workload once in each round, in the same order, so that all share the machine's moods.

use std::path::Path;

use crate::Result;
use crate::args::Args;
use crate::fleet;
use crate::metrics::{Metric, measure};
use crate::pin::Pinning;
use crate::plan::{Side, Workload};
use crate::report::{self, Settings};

/// What one side did, round by round.
pub(crate) struct Series {
    pub(crate) side: Side,
    pub(crate) rounds: Vec<Vec<Metric>>,
}

const ALL: [Workload; 5] =
    [Workload::Free, Workload::Distinct, Workload::Contended, Workload::Processes, Workload::HandOver];

pub(crate) fn run(args: &Args, pinning: &Pinning) -> Result<()> {
    let settings = Settings { engine: args.engine, rounds: args.rounds, millis: args.millis, pinning };
    if !args.json {
        println!("{}", report::headline(&settings));
    }
    let asked = if args.workload.is_empty() { &ALL[..] } else { &args.workload };
    for &workload in asked {
        if workload.sides(args.engine).is_empty() {
            eprintln!("bench: {} does not apply: the memory engine lives in one process", workload.code());
            continue;
        }
        let series = play(workload, args)?;
        let lines = if args.json {
            report::json(&settings, workload, &series)
        } else {
            report::table(workload, &series)
        };
        print!("{lines}");
    }
    Ok(())
}

fn play(workload: Workload, args: &Args) -> Result<Vec<Series>> {
    let sides = workload.sides(args.engine);
    let mut series: Vec<_> = sides.iter().map(|&side| Series { side, rounds: Vec::new() }).collect();
    let default = std::env::temp_dir();
    let base = args.dir.as_deref().unwrap_or(&default);
    for _ in 0..args.rounds {
        for series in &mut series {
            series.rounds.push(once(workload, series.side, base, args.millis)?);
        }
    }
    Ok(series)
}

/// A fresh folder each time: nobody pays for the files of an earlier round.
fn once(workload: Workload, side: Side, base: &Path, millis: u64) -> Result<Vec<Metric>> {
    let folder = tempfile::Builder::new().prefix("latchwork-bench-").tempdir_in(base)?;
    let tallies = fleet::run(workload, side, folder.path(), millis)?;
    Ok(measure(workload, &tallies, millis * 1_000_000))
}
