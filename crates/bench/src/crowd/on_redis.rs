//! Locks held on redis, with goals: what their renewal costs the client, and that none is lost or comes late.

use std::process::{Command, Stdio};
use std::time::Duration;

use super::figures::Figures;
use super::held::{self, Terms};
use crate::Result;
use crate::args::Held;
use crate::host::Host;
use crate::pin::Pinning;
use crate::plan::Engine;

/// Locks and seconds of their ttl.
const CROWDS: [(u32, u64); 2] = [(10_000, 10), (100_000, 30)];
/// Percent of a core that the renewals of the first may cost.
const CPU: f64 = 1.0;

/// Prints the figures of each crowd; in a child, runs one and writes them home.
pub(crate) fn held_on_redis(held: &Held, pinning: &Pinning, json: bool) -> Result<()> {
    let asked = held.locks.zip(held.ttl);
    if let (Some(url), Some((locks, ttl))) = (held.url.clone(), asked) {
        let terms = Terms { url, locks, ttl: Duration::from_secs(ttl), seconds: held.seconds };
        print!("{}", super::in_one_thread(held::run(&terms))?.lines());
        return Ok(());
    }
    if !json {
        println!("held locks on redis, current-thread, {pinning}");
    }
    for crowd in asked.map_or(CROWDS.to_vec(), |asked| vec![asked]) {
        let host = Host::of(Engine::Redis, false);
        let mut figures = Figures::read(&send_out(crowd, held.seconds, &host)?)?;
        figures.add("renewal requests", renewal_requests(crowd.0, &host)?);
        let goals = goals(crowd, &figures);
        match json {
            true => println!("{}", object(crowd, held.seconds, pinning, &figures, &goals)),
            false => print!("{}", table(crowd, held.seconds, &figures, &goals)),
        }
    }
    Ok(())
}

/// What is not a claim or a release of one of the locks, or of the one that warmed the client up.
fn renewal_requests(locks: u32, host: &Host) -> Result<f64> {
    let calls = host.redis().ok_or("there is a server")?.calls(&["evalsha"]);
    Ok(calls.saturating_sub(2 * (u64::from(locks) + 1)) as f64)
}

/// In a fresh process.
fn send_out((locks, ttl): (u32, u64), seconds: u64, host: &Host) -> Result<String> {
    let url = host.url().ok_or("there is a server")?;
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["held", "--locks", &locks.to_string(), "--ttl", &ttl.to_string(), "--url", &url]);
    command.args(["--seconds", &seconds.to_string()]);
    let output = command.stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        return Err(format!("the process that holds {locks} locks failed: {}", output.status).into());
    }
    Ok(String::from_utf8(output.stdout)?)
}

/// What is bounded, the bound, and whether it was kept.
fn goals(crowd: (u32, u64), figures: &Figures) -> Vec<(&'static str, f64, bool)> {
    let mut bounds = vec![("late", 0.0), ("uncertain", 0.0), ("lost", 0.0)];
    if crowd == CROWDS[0] {
        bounds.push(("CPU % of a core", CPU));
    }
    let met = |name, most| figures.get(name).is_some_and(|value| value <= most);
    bounds.into_iter().map(|(name, most)| (name, most, met(name, most))).collect()
}

fn table((locks, ttl): (u32, u64), seconds: u64, figures: &Figures, goals: &[(&str, f64, bool)]) -> String {
    let mut text = format!("\n{locks} locks with a ttl of {ttl} s, held and renewed for {seconds} s\n");
    text += &figures.table();
    for (name, most, met) in goals {
        text += &format!("  goal: {name} at most {most}: {}\n", if *met { "met" } else { "MISSED" });
    }
    text
}

fn object(
    (locks, ttl): (u32, u64),
    seconds: u64,
    pinning: &Pinning,
    figures: &Figures,
    goals: &[(&str, f64, bool)],
) -> String {
    let goals = goals.iter().map(|(name, most, met)| format!("\"{name} at most {most}\":{met}"));
    format!(
        "{{\"workload\":\"held\",\"engine\":\"redis\",\"locks\":{locks},\"ttl\":{ttl},\"seconds\":{seconds},\"pinned\":{},\"figures\":{},\"goals\":{{{}}}}}",
        pinning.is_pinned(),
        figures.object(),
        goals.collect::<Vec<_>>().join(","),
    )
}
