//! Locks held on a server, with goals: the cost of renewals to the client, the number of requests to the
//! server, and no late renewal or lost lock.

use std::process::{Command, Stdio};
use std::time::Duration;

use super::figures::Figures;
use super::held_locks::{self, HeldLocks};
use super::server_load::{Limit, ServerLoad};
use crate::Result;
use crate::args::HeldOptions;
use crate::pin::Pinning;
use crate::plan::{Engine, spelled};

/// Locks and seconds of their ttl.
const ON_REDIS: [(u32, u64); 2] = [(10_000, 10), (100_000, 30)];
const ON_OTHERS: [(u32, u64); 1] = [(1_000, 10)];
/// Percent of a core that the renewals of the first on redis may cost.
const CPU: f64 = 1.0;

/// Prints the figures of each case. In a child process, runs one case and writes its figures to stdout.
pub(crate) fn held_on_server(held: &HeldOptions, pinning: &Pinning, json: bool) -> Result<()> {
    let (requested, engine) = (held.locks.zip(held.ttl), held.engine);
    if let (Some(url), Some((locks, ttl))) = (held.url.clone(), requested) {
        let ttl = Duration::from_secs(ttl);
        let options = HeldLocks { url, locks, ttl, late: late_margin(engine, ttl), seconds: held.seconds };
        print!("{}", super::on_current_thread(held_locks::run(&options))?.lines());
        return Ok(());
    }
    if !json {
        println!("held locks on {}, current-thread, {pinning}", spelled(engine));
    }
    let usual = if engine == Engine::Redis { &ON_REDIS[..] } else { &ON_OTHERS };
    for case in requested.map_or(usual.to_vec(), |requested| vec![requested]) {
        let server_load = ServerLoad::start(engine);
        let mut figures = Figures::read(&run_in_child(case, held, &server_load)?)?;
        let mut limits = server_load.add_to(&mut figures, case, held.seconds);
        limits.extend([("late", 0.0), ("uncertain", 0.0), ("lost", 0.0)]);
        if engine == Engine::Redis && case == ON_REDIS[0] {
            limits.push(("CPU % of a core", CPU));
        }
        let goals = goals(&limits, &figures);
        match json {
            true => println!("{}", json_object(case, held, pinning, &figures, &goals)),
            false => print!("{}", table(case, held.seconds, &figures, &goals)),
        }
    }
    Ok(())
}

/// A renewal is due after a third of the ttl, and at most a tenth of that later. On zookeeper a lock is
/// certain for two thirds of the session's ttl after the newest heartbeat, which may be a fifth of the ttl
/// old, and a tenth more.
fn late_margin(engine: Engine, ttl: Duration) -> Duration {
    if engine == Engine::Zookeeper { ttl / 10 } else { ttl / 2 }
}

/// In a fresh process.
fn run_in_child((locks, ttl): (u32, u64), held: &HeldOptions, server_load: &ServerLoad) -> Result<String> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["held", "--locks", &locks.to_string(), "--ttl", &ttl.to_string()]);
    command.args(["--engine", &spelled(held.engine), "--url", &server_load.url(ttl)?]);
    command.args(["--seconds", &held.seconds.to_string()]);
    let output = command.stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        return Err(format!("the process that holds {locks} locks failed: {}", output.status).into());
    }
    Ok(String::from_utf8(output.stdout)?)
}

/// The name of each limited figure, its limit, and whether it was met.
fn goals(limits: &[Limit], figures: &Figures) -> Vec<(&'static str, f64, bool)> {
    let met = |name, most| figures.get(name).is_some_and(|value| value <= most);
    limits.iter().map(|&(name, most)| (name, most, met(name, most))).collect()
}

fn table((locks, ttl): (u32, u64), seconds: u64, figures: &Figures, goals: &[(&str, f64, bool)]) -> String {
    let mut text = format!("\n{locks} locks with a ttl of {ttl} s, held and renewed for {seconds} s\n");
    text += &figures.table();
    for (name, most, met) in goals {
        text += &format!("  goal: {name} at most {most}: {}\n", if *met { "met" } else { "MISSED" });
    }
    text
}

fn json_object(
    (locks, ttl): (u32, u64),
    held: &HeldOptions,
    pinning: &Pinning,
    figures: &Figures,
    goals: &[(&str, f64, bool)],
) -> String {
    let goals = goals.iter().map(|(name, most, met)| format!("\"{name} at most {most}\":{met}"));
    format!(
        "{{\"workload\":\"held\",\"engine\":\"{}\",\"locks\":{locks},\"ttl\":{ttl},\"seconds\":{},\"pinned\":{},\"figures\":{},\"goals\":{{{}}}}}",
        spelled(held.engine),
        held.seconds,
        pinning.is_pinned(),
        figures.object(),
        goals.collect::<Vec<_>>().join(","),
    )
}
