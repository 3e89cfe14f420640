//! A crowd: many locks that are only held, then many tasks that only wait, each in a fresh process of its own.

mod figures;
mod held;
mod usage;
mod waiting;

use std::process::{Command, Stdio};

use clap::ValueEnum;

use self::figures::Figures;
use crate::Result;
use crate::args::Crowd;
use crate::pin::Pinning;
use crate::plan::spelled;

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
        println!("a crowd of {} on memory, current-thread, ttl {:?}, {pinning}", crowd.locks, held::TTL);
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
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        match part {
            Part::Held => held::run(crowd.locks, crowd.seconds).await,
            Part::Waiting => waiting::run(crowd.locks).await,
        }
    })
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
