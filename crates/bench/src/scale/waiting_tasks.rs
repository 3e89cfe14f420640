//! The cost of tasks that wait for one lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use latchwork::Lock;
use latchwork::clock::Clock;
use tokio::task::JoinHandle;

use super::figures::Figures;
use super::process_usage::ProcessUsage;
use crate::Result;

/// Queues `tasks` tasks behind a held lock, then releases it, so that all of them acquire it in turn.
pub(super) async fn run(tasks: u32) -> Result<Figures> {
    let (clock, client) = (Clock::boottime(), latchwork::connect("memory:").await?);
    let lock = client.lock("crowd");
    let guard = lock.acquire().await?;
    let (before, start) = (ProcessUsage::now()?, clock.now());
    let waiting = spawn_waiters(&lock, tasks).await;
    let (queued, after) = (clock.now().since(start), ProcessUsage::now()?);
    let start = clock.now();
    guard.release().await?;
    for task in waiting {
        task.await??;
    }
    let drained = clock.now().since(start);
    Ok(Figures::new([
        ("bytes/waiting task", after.bytes_each(&before, tasks)),
        ("queued in s", queued.as_secs_f64()),
        ("drained in s", drained.as_secs_f64()),
        ("drained, ns/task", drained.as_nanos() as f64 / f64::from(tasks)),
    ]))
}

/// Returns when every task is in the queue.
async fn spawn_waiters(lock: &Lock, tasks: u32) -> Vec<JoinHandle<Result<()>>> {
    let started = Arc::new(AtomicU32::new(0));
    let mut waiting = Vec::with_capacity(tasks as usize);
    for _ in 0..tasks {
        let (lock, started) = (lock.clone(), started.clone());
        waiting.push(tokio::spawn(async move {
            started.fetch_add(1, Relaxed);
            Ok(lock.acquire().await?.release().await?)
        }));
    }
    // One thread runs all: a task that has stepped up goes on until it waits before this one is requested
    // again.
    while started.load(Relaxed) < tasks {
        tokio::task::yield_now().await;
    }
    waiting
}
