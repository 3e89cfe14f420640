//! The run: every side of a workload once in each round, in the same order, so that a drift of the machine
//! affects all sides.

use std::path::Path;

use crate::Result;
use crate::args::Args;
use crate::engine_servers::EngineServers;
use crate::metrics::{Metric, measure};
use crate::peers;
use crate::pin::Pinning;
use crate::plan::{Engine, Side, Workload, goals, spelled};
use crate::report::{self, Settings};
use crate::worker_processes::{WorkerOptions, WorkerProcesses};

/// The figures of one side, by round.
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

/// Runs the selected workloads.
pub(crate) fn run(args: &Args, pinning: &Pinning) -> Result<()> {
    let selected = match (args.workload.is_empty(), args.engine) {
        (false, _) => &args.workload,
        (true, Engine::Redis) => &ALL_ON_REDIS[..],
        (true, _) => &ALL,
    };
    run_workloads(selected, spelled(args.engine), args, pinning)
}

/// Runs the workloads of local passes, on both engines.
pub(crate) fn passes(args: &Args, pinning: &Pinning) -> Result<()> {
    run_workloads(&[Workload::Pair, Workload::Ring], "memory and sqlite".into(), args, pinning)
}

fn run_workloads(workloads: &[Workload], engine: String, args: &Args, pinning: &Pinning) -> Result<()> {
    let settings = Settings { engine, rounds: args.rounds, millis: args.millis, pinning };
    if !args.json {
        println!("{}", report::headline(&settings));
    }
    let servers = EngineServers::of(args.engine, args.split);
    for &workload in workloads {
        if workload.sides(args.engine).is_empty() {
            eprintln!("bench: {} does not apply: the memory engine lives in one process", workload.code());
            continue;
        }
        let (series, goals) = (run_workload(workload, args, &servers)?, goals(args.engine, workload));
        let lines = if args.json {
            report::json(&settings, workload, &series, &goals)
        } else {
            report::table(workload, &series, &goals)
        };
        print!("{lines}");
    }
    Ok(())
}

fn run_workload(workload: Workload, args: &Args, servers: &EngineServers) -> Result<Vec<Series>> {
    let sides =
        workload.sides(args.engine).iter().filter(|side| args.wants(**side) && is_available(**side, args));
    let mut series: Vec<_> = sides.map(|&side| Series { side, rounds: Vec::new() }).collect();
    let program = std::env::current_exe()?;
    for _ in 0..args.rounds {
        for series in &mut series {
            series.rounds.push(once(&program, workload, series.side, args, servers)?);
        }
    }
    Ok(series)
}

/// Whether the side can be measured. Prints a note about a peer that cannot.
fn is_available(side: Side, args: &Args) -> bool {
    let missing = peers::missing(side, args);
    if let Some(why) = &missing {
        eprintln!("bench: {} is left out: {why}", spelled(side));
    }
    missing.is_none()
}

/// Measures one side once, in a fresh folder and on an empty server: leftovers of earlier rounds must not
/// count.
pub(crate) fn once(
    program: &Path,
    workload: Workload,
    side: Side,
    args: &Args,
    servers: &EngineServers,
) -> Result<Vec<Metric>> {
    let base = args.dir.clone().unwrap_or_else(std::env::temp_dir);
    let folder = tempfile::Builder::new().prefix("latchwork-bench-").tempdir_in(base)?;
    let (folder, millis, url) = (folder.path(), args.millis, servers.url());
    servers.clear();
    let (url, python, sql_peers) = (url.as_deref(), args.python.as_deref(), args.sql_peers.as_deref());
    let workers = WorkerProcesses::start(&WorkerOptions {
        program,
        workload,
        side,
        folder,
        millis,
        url,
        python,
        sql_peers,
    })?;
    servers.begin(side);
    let results = workers.run()?;
    let mut metrics = measure(workload, &results, millis * 1_000_000);
    metrics.extend(servers.load(side, results.iter().map(|result| result.samples.len()).sum()));
    Ok(metrics)
}
