//! A process that uses a lock under attack or failure. `memory_probe URL` reads commands and answers each
//! with one line.
//!
//! - `connect`: drops its client, and connects a new one.
//! - `use MILLIS`: acquires a lock within that time, and releases it.
//! - `tries COUNT NAMES PREFIX`: tries `COUNT` times to acquire a lock, with `NAMES` names in turn. Answers
//!   with the number of failed tries, the number of errors among them, and the last error. A try that found
//!   its lock held counts as failed.
//! - `peak`: its peak memory use, in kilobytes.

use std::io::BufRead;
use std::time::Duration;

use latchwork::{Client, Result};

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let url = std::env::args().nth(1).expect("memory_probe URL");
    let mut client = None;
    for command in std::io::stdin().lock().lines().map_while(std::io::Result::ok) {
        let words: Vec<&str> = command.split(' ').collect();
        let answer = match words[..] {
            ["connect"] => {
                client = None;
                match latchwork::connect(&url).await {
                    Ok(new) => {
                        client = Some(new);
                        "ok".to_owned()
                    }
                    Err(error) => report(Err(error)),
                }
            }
            ["use", millis] => report(use_lock(client.as_ref().expect("connected"), number(millis)).await),
            ["tries", count, names, prefix] => {
                let client = client.as_ref().expect("connected");
                tries(client, number(count), number(names), prefix).await
            }
            ["peak"] => peak(),
            _ => panic!("{command:?} is no command; see the top of memory_probe.rs"),
        };
        println!("{answer}");
    }
}

fn number(text: &str) -> u64 {
    text.parse().expect("a number")
}

async fn use_lock(client: &Client, millis: u64) -> Result<()> {
    // A name per process, so that a damaged lock does not keep the other processes out.
    let name = format!("hostile/{}", std::process::id());
    let guard = client.lock(&name).wait(Duration::from_millis(millis)).acquire().await?;
    guard.release().await
}

/// Runs in the main task: memory that a try leaves behind must not be freed by the end of a task.
async fn tries(client: &Client, count: u64, names: u64, prefix: &str) -> String {
    let (mut failed, mut errors, mut last) = (0, 0, "held by another".to_owned());
    for at in 0..count {
        match client.lock(format!("{prefix}/{}", at % names)).try_acquire().await {
            Ok(Some(guard)) => drop(guard.release().await),
            Ok(None) => failed += 1,
            Err(error) => {
                (failed, errors) = (failed + 1, errors + 1);
                last = format!("{:?}: {error}", error.kind()).replace('\n', " ");
            }
        }
    }
    format!("{failed} {errors} {last}")
}

fn report(result: Result<()>) -> String {
    match result {
        Ok(()) => "ok".to_owned(),
        Err(error) => format!("{:?}: {error}", error.kind()).replace('\n', " "),
    }
}

fn peak() -> String {
    let status = std::fs::read_to_string("/proc/self/status").expect("there is one");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("the line VmHWM exists");
    line.trim().trim_end_matches(" kB").to_owned()
}
