//! The run: every side of a workload once in each round, in the same order, so that all share the machine's moods.

use std::path::Path;

use crate::Result;
use crate::args::Args;
use crate::fleet::{Fleet, Orders};
use crate::host::Host;
use crate::metrics::{Metric, measure};
use crate::peers;
use crate::pin::Pinning;
use crate::plan::{Engine, Side, Workload, goals, spelled};
use crate::report::{self, Settings};

/// What one side did, round by round.
pub(crate) struct Series {
    pub(crate) side: Side,
    pub(crate) rounds: Vec<Vec<Metric>>,
}

const ALL: [Workload; 5] =
    [Workload::Free, Workload::Distinct, Workload::Contended, Workload::Processes, Workload::HandOver];
const ALL_ON_REDIS: [Workload; 6] = [
    Workload::Free,
    Workload::Distinct,
    Workload::Contended,
    Workload::Processes,
    Workload::Working,
    Workload::HandOver,
];

/// The workloads that were asked for.
pub(crate) fn run(args: &Args, pinning: &Pinning) -> Result<()> {
    let asked = match (args.workload.is_empty(), args.engine) {
        (false, _) => &args.workload,
        (true, Engine::Redis) => &ALL_ON_REDIS[..],
        (true, _) => &ALL,
    };
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
    let host = Host::of(args.engine, args.split);
    for &workload in workloads {
        if workload.sides(args.engine).is_empty() {
            eprintln!("bench: {} does not apply: the memory engine lives in one process", workload.code());
            continue;
        }
        let (series, goals) = (play(workload, args, &host)?, goals(args.engine, workload));
        let lines = if args.json {
            report::json(&settings, workload, &series, &goals)
        } else {
            report::table(workload, &series, &goals)
        };
        print!("{lines}");
    }
    Ok(())
}

fn play(workload: Workload, args: &Args, host: &Host) -> Result<Vec<Series>> {
    let sides =
        workload.sides(args.engine).iter().filter(|side| args.wants(**side) && is_there(**side, args));
    let mut series: Vec<_> = sides.map(|&side| Series { side, rounds: Vec::new() }).collect();
    let program = std::env::current_exe()?;
    for _ in 0..args.rounds {
        for series in &mut series {
            series.rounds.push(once(&program, workload, series.side, args, host)?);
        }
    }
    Ok(series)
}

/// Says so of a peer that is not.
fn is_there(side: Side, args: &Args) -> bool {
    let missing = peers::missing(side, args);
    if let Some(why) = &missing {
        eprintln!("bench: {} is left out: {why}", spelled(side));
    }
    missing.is_none()
}

/// One side once, in a fresh folder and on an empty server: nobody pays for what an earlier round left.
pub(crate) fn once(
    program: &Path,
    workload: Workload,
    side: Side,
    args: &Args,
    host: &Host,
) -> Result<Vec<Metric>> {
    let base = args.dir.clone().unwrap_or_else(std::env::temp_dir);
    let folder = tempfile::Builder::new().prefix("latchwork-bench-").tempdir_in(base)?;
    let (folder, millis, url) = (folder.path(), args.millis, host.url());
    host.clear();
    let (url, python, sql_peers) = (url.as_deref(), args.python.as_deref(), args.sql_peers.as_deref());
    let fleet = Fleet::start(&Orders { program, workload, side, folder, millis, url, python, sql_peers })?;
    host.begin(side);
    let tallies = fleet.run()?;
    let mut metrics = measure(workload, &tallies, millis * 1_000_000);
    metrics.extend(host.load(side, tallies.iter().map(|tally| tally.turns.len()).sum()));
    Ok(metrics)
}
