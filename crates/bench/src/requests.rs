//! The requests to a server for one acquisition of a contended lock, without local passes.
//! `testkit::requests` counts them.

use std::process::Command;
use std::time::Duration;

use testkit::requests::{RequestLoad, Requests};

use crate::Result;
use crate::engine_servers::EngineServers;
use crate::pin::Pinning;
use crate::plan::Engine;
use crate::report::figure;

const PROCESSES: u32 = 4;
const HOLD: Duration = Duration::from_millis(200);

/// Clients in each process, acquisitions of each, and the number of long holds in each process.
const CROWDS: [(u32, u32, u32); 4] = [(4, 250, 0), (4, 2, u32::MAX), (250, 5, 0), (250, 1, 15)];

/// Runs every case on a fresh server and prints its cost.
pub(crate) fn run(pinning: &Pinning, json: bool) -> Result<()> {
    if !json {
        println!("requests for one acquisition of a contended lock on redis, passes off, {pinning}");
        let titles = ["clients", "held turns", "acquisitions", "in s", "calls/acquisition", "at most"];
        println!("{}", titles.map(|title| format!("{title:>19}")).concat());
    }
    let program = std::env::current_exe()?;
    for (clients, turns, held) in CROWDS {
        let hold = if held == 0 { Duration::ZERO } else { HOLD };
        let crowd = RequestLoad { processes: PROCESSES, clients, turns, hold, held };
        let servers = EngineServers::of(Engine::Redis, false);
        let worker = || {
            let mut command = Command::new(&program);
            command.arg("turns");
            command
        };
        let requests = Requests::of(&crowd, servers.redis().ok_or("there is a server")?, worker);
        println!("{}", if json { object(&crowd, pinning, &requests) } else { line(&crowd, &requests) });
    }
    Ok(())
}

/// The work of one process.
pub(crate) fn work(crowd: &[String]) -> Result<()> {
    let crowd: Vec<_> = crowd.iter().map(String::as_str).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(testkit::requests::work(&crowd));
    Ok(())
}

/// The number of long holds.
fn held_turns(crowd: &RequestLoad) -> u32 {
    if crowd.hold.is_zero() { 0 } else { PROCESSES * crowd.held.min(crowd.clients * crowd.turns) }
}

fn is_met(requests: &Requests) -> bool {
    requests.per_acquisition() <= requests.allowed
}

fn line(crowd: &RequestLoad, requests: &Requests) -> String {
    let held = match held_turns(crowd) {
        0 => "none".to_owned(),
        turns => format!("{turns} x {} ms", crowd.hold.as_millis()),
    };
    let figures = [requests.acquisitions as f64, requests.taken.as_secs_f64(), requests.per_acquisition()];
    let [acquisitions, seconds, each] = figures.map(figure);
    let cells = [requests.clients.to_string(), held, acquisitions, seconds, each, figure(requests.allowed)];
    let word = if is_met(requests) { "met" } else { "MISSED" };
    format!("{}   goal: {word}", cells.map(|cell| format!("{cell:>19}")).concat())
}

fn object(crowd: &RequestLoad, pinning: &Pinning, requests: &Requests) -> String {
    format!(
        "{{\"workload\":\"requests\",\"engine\":\"redis\",\"clients\":{},\"processes\":{PROCESSES},\"hold ms\":{},\"held turns\":{},\"pinned\":{},\"acquisitions\":{},\"seconds\":{},\"calls/acquisition\":{},\"at most\":{},\"met\":{}}}",
        requests.clients,
        crowd.hold.as_millis(),
        held_turns(crowd),
        pinning.is_pinned(),
        requests.acquisitions,
        requests.taken.as_secs_f64(),
        requests.per_acquisition(),
        requests.allowed,
        is_met(requests),
    )
}
