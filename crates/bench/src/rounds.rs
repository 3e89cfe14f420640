//! The run: every side of a workload once in each round, in the same order, so that all share the machine's moods.

use std::path::Path;

use crate::Result;
use crate::args::Args;
use crate::fleet;
use crate::metrics::{Metric, measure};
use crate::pin::Pinning;
use crate::plan::{Side, Workload, spelled};
use crate::report::{self, Settings};

/// What one side did, round by round.
pub(crate) struct Series {
    pub(crate) side: Side,
    pub(crate) rounds: Vec<Vec<Metric>>,
}

const ALL: [Workload; 5] =
    [Workload::Free, Workload::Distinct, Workload::Contended, Workload::Processes, Workload::HandOver];

/// The workloads that were asked for.
pub(crate) fn run(args: &Args, pinning: &Pinning) -> Result<()> {
    let asked = if args.workload.is_empty() { &ALL[..] } else { &args.workload };
    play_all(asked, spelled(args.engine), args, pinning)
}

/// Passes alone, on both engines.
pub(crate) fn passes(args: &Args, pinning: &Pinning) -> Result<()> {
    play_all(&[Workload::Pair, Workload::Ring], "memory and sqlite".into(), args, pinning)
}

fn play_all(workloads: &[Workload], engine: String, args: &Args, pinning: &Pinning) -> Result<()> {
    let settings = Settings { engine, rounds: args.rounds, millis: args.millis, pinning };
    if !args.json {
        println!("{}", report::headline(&settings));
    }
    for &workload in workloads {
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
    let program = std::env::current_exe()?;
    for _ in 0..args.rounds {
        for series in &mut series {
            series.rounds.push(once(&program, workload, series.side, args)?);
        }
    }
    Ok(series)
}

/// One side once, in a fresh folder: nobody pays for the files of an earlier round.
pub(crate) fn once(program: &Path, workload: Workload, side: Side, args: &Args) -> Result<Vec<Metric>> {
    let base = args.dir.clone().unwrap_or_else(std::env::temp_dir);
    let folder = tempfile::Builder::new().prefix("latchwork-bench-").tempdir_in(base)?;
    let tallies = fleet::run(program, workload, side, folder.path(), args.millis)?;
    Ok(measure(workload, &tallies, args.millis * 1_000_000))
}
