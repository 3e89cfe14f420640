//! The cost of scale: many locks that are only held, then many tasks that only wait, each in a fresh process.

mod figures;
mod held_locks;
mod held_on_server;
mod process_usage;
mod server_load;
mod waiting_tasks;

use std::future::Future;
use std::process::{Command, Stdio};
use std::time::Duration;

use clap::ValueEnum;

pub(crate) use self::held_on_server::held_on_server;

use self::figures::Figures;
use self::held_locks::HeldLocks;
use crate::Result;
use crate::args::ScaleOptions;
use crate::pin::Pinning;
use crate::plan::spelled;

/// The ttl of locks in memory.
const TTL: Duration = Duration::from_secs(30);

/// A part of the measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    Held,
    Waiting,
}

/// Runs both parts and prints their figures. In a child process, runs one part and writes its figures to
/// stdout.
pub(crate) fn run(options: &ScaleOptions, pinning: &Pinning, json: bool) -> Result<()> {
    if let Some(part) = options.part {
        print!("{}", run_part(part, options)?.lines());
        return Ok(());
    }
    if !json {
        println!("a crowd of {} on memory, current-thread, ttl {:?}, {pinning}", options.locks, TTL);
    }
    for part in [Part::Held, Part::Waiting] {
        let figures = Figures::read(&run_in_child(part, options)?)?;
        if json {
            println!("{}", json_object(part, options, pinning, &figures));
        } else {
            print!("\n{}\n{}", title(part, options), figures.table());
        }
    }
    Ok(())
}

fn run_part(part: Part, options: &ScaleOptions) -> Result<Figures> {
    let ScaleOptions { locks, seconds, .. } = *options;
    match part {
        Part::Held => on_current_thread(held_locks::run(&HeldLocks {
            url: "memory:".into(),
            locks,
            ttl: TTL,
            late: TTL / 2,
            seconds,
        })),
        Part::Waiting => on_current_thread(waiting_tasks::run(locks)),
    }
}

fn on_current_thread(work: impl Future<Output = Result<Figures>>) -> Result<Figures> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(work)
}

/// Runs a part in a fresh process: memory that an earlier part freed would hide the memory of this one.
fn run_in_child(part: Part, options: &ScaleOptions) -> Result<String> {
    let (part, locks, seconds) = (spelled(part), options.locks.to_string(), options.seconds.to_string());
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["crowd", "--part", &part, "--locks", &locks, "--seconds", &seconds]);
    let output = command.stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        return Err(format!("the process with the {part} crowd failed: {}", output.status).into());
    }
    Ok(String::from_utf8(output.stdout)?)
}

fn title(part: Part, options: &ScaleOptions) -> String {
    match part {
        Part::Held => format!("{} locks, held and renewed for {} s", options.locks, options.seconds),
        Part::Waiting => format!("{} tasks that wait for one lock", options.locks),
    }
}

fn json_object(part: Part, options: &ScaleOptions, pinning: &Pinning, figures: &Figures) -> String {
    format!(
        "{{\"workload\":\"crowd\",\"part\":\"{}\",\"locks\":{},\"seconds\":{},\"pinned\":{},\"figures\":{}}}",
        spelled(part),
        options.locks,
        options.seconds,
        pinning.is_pinned(),
        figures.object(),
    )
}
