//! A crowd: many locks that are only held, then many tasks that only wait, each in a fresh process of its own.

mod counted;
mod figures;
mod held;
mod on_server;
mod usage;
mod waiting;

use std::future::Future;
use std::process::{Command, Stdio};
use std::time::Duration;

use clap::ValueEnum;

pub(crate) use self::on_server::held_on_server;

use self::figures::Figures;
use self::held::Terms;
use crate::Result;
use crate::args::Crowd;
use crate::pin::Pinning;
use crate::plan::spelled;

/// Of the locks that are held in memory.
const TTL: Duration = Duration::from_secs(30);

/// What the crowd does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    Held,
    Waiting,
}

/// Runs both parts and prints their figures; in a child, runs its part and writes them home.
pub(crate) fn run(crowd: &Crowd, pinning: &Pinning, json: bool) -> Result<()> {
    if let Some(part) = crowd.part {
        print!("{}", play(part, crowd)?.lines());
        return Ok(());
    }
    if !json {
        println!("a crowd of {} on memory, current-thread, ttl {:?}, {pinning}", crowd.locks, TTL);
    }
    for part in [Part::Held, Part::Waiting] {
        let figures = Figures::read(&send_out(part, crowd)?)?;
        if json {
            println!("{}", object(part, crowd, pinning, &figures));
        } else {
            print!("\n{}\n{}", title(part, crowd), figures.table());
        }
    }
    Ok(())
}

fn play(part: Part, crowd: &Crowd) -> Result<Figures> {
    let Crowd { locks, seconds, .. } = *crowd;
    match part {
        Part::Held => in_one_thread(held::run(&Terms {
            url: "memory:".into(),
            locks,
            ttl: TTL,
            late: TTL / 2,
            seconds,
        })),
        Part::Waiting => in_one_thread(waiting::run(locks)),
    }
}

fn in_one_thread(work: impl Future<Output = Result<Figures>>) -> Result<Figures> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(work)
}

/// In a fresh process: memory that an earlier part freed would hide what this one takes.
fn send_out(part: Part, crowd: &Crowd) -> Result<String> {
    let (part, locks, seconds) = (spelled(part), crowd.locks.to_string(), crowd.seconds.to_string());
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["crowd", "--part", &part, "--locks", &locks, "--seconds", &seconds]);
    let output = command.stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        return Err(format!("the process with the {part} crowd failed: {}", output.status).into());
    }
    Ok(String::from_utf8(output.stdout)?)
}

fn title(part: Part, crowd: &Crowd) -> String {
    match part {
        Part::Held => format!("{} locks, held and renewed for {} s", crowd.locks, crowd.seconds),
        Part::Waiting => format!("{} tasks that wait for one lock", crowd.locks),
    }
}

fn object(part: Part, crowd: &Crowd, pinning: &Pinning, figures: &Figures) -> String {
    format!(
        "{{\"workload\":\"crowd\",\"part\":\"{}\",\"locks\":{},\"seconds\":{},\"pinned\":{},\"figures\":{}}}",
        spelled(part),
        crowd.locks,
        crowd.seconds,
        pinning.is_pinned(),
        figures.object(),
    )
}
