//! Start-up: the cost of `latch run x -- true` for a shell, against `flock FILE true`.

use std::path::Path;
use std::process::Command;

use latchwork::clock::Clock;

use crate::Result;
use crate::args::StartupOptions;
use crate::pin::Pinning;
use crate::report::{Ratio, figure, number};
use crate::stats::{median, percentile};

/// Starts both alternately and prints medians and their ratio.
pub(crate) fn run(args: &StartupOptions, pinning: &Pinning, json: bool) -> Result<()> {
    let home = tempfile::Builder::new().prefix("latchwork-bench-").tempdir()?;
    let latch = args.latch.canonicalize().map_err(|error| format!("{:?}: {error}", args.latch))?;
    let (mut flock, mut ours) = (flock(home.path()), latch_run(&latch, home.path()));
    // The first run creates the lock file and the database, which later ones find.
    millis(&mut flock)?;
    millis(&mut ours)?;
    let (mut floor, mut taken) = (Vec::new(), Vec::new());
    for _ in 0..args.runs {
        floor.push(millis(&mut flock)?);
        taken.push(millis(&mut ours)?);
    }
    let ratios: Vec<_> = taken.iter().zip(&floor).map(|(ours, floor)| ours / floor).collect();
    let ratio = Ratio::of(&ratios).median;
    if json {
        let [flock, latch, ratio] = [median(&floor), median(&taken), ratio].map(number);
        println!(
            "{{\"workload\":\"startup\",\"runs\":{},\"pinned\":{},\"flock ms\":{flock},\"latch ms\":{latch},\"ratio\":{ratio}}}",
            args.runs,
            pinning.is_pinned()
        );
    } else {
        println!("start-up, {} runs each, interleaved, {pinning}", args.runs);
        println!("  {:24}{:>10}{:>10}", "", "p50 ms", "p90 ms");
        for (title, values) in [("flock FILE true", &floor), ("latch run x -- true", &taken)] {
            println!("  {title:24}{:>10}{:>10}", figure(median(values)), figure(percentile(values, 90.0)));
        }
        println!("  ratio {ratio:.2} (median of the pairs)");
    }
    Ok(())
}

fn flock(home: &Path) -> Command {
    let mut command = Command::new("flock");
    command.arg(home.join("file")).arg("true").env("HOME", home);
    command
}

fn latch_run(latch: &Path, home: &Path) -> Command {
    let mut command = Command::new(latch);
    command.args(["run", "x", "--", "true"]).env("HOME", home);
    command.env("LATCH_URL", format!("sqlite:{}", home.join("locks.db").display()));
    command.env_remove("LATCH_URL_FILE");
    command
}

/// How long the command takes from its start until it is reaped.
fn millis(command: &mut Command) -> Result<f64> {
    let clock = Clock::boottime();
    let start = clock.now();
    let status = command.status().map_err(|error| format!("{:?}: {error}", command.get_program()))?;
    let taken = clock.now().since(start);
    if !status.success() {
        return Err(format!("{command:?} failed: {status}").into());
    }
    Ok(taken.as_secs_f64() * 1e3)
}
