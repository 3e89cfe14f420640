//! Shared locks and kept locks whose holders are killed or stopped.

use std::sync::Arc;
use std::time::Duration;

use latchwork::clock::Clock;
use nix::sys::signal::Signal;

use super::support::{LONG, hold, nothing_left, pause, waiters};
use crate::Fixture;
use crate::worker_process::WorkerProcess;

/// The ttl of the processes that die.
const TTL: Duration = Duration::from_secs(2);
/// The time until a lease of [`TTL`] has ended on the slowest engine, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

async fn start<F: Fixture>(fixture: &F, order: &[&str], lock: &str) -> WorkerProcess {
    let url = fixture.url().expect("this engine is shared between processes");
    let millis = TTL.max(F::guarantees().min_ttl).as_millis().to_string();
    let mut worker = WorkerProcess::start(&[order, &[&url, lock, &millis]].concat());
    assert_eq!(worker.line().await, "started");
    assert!(worker.line().await.starts_with("held"));
    worker
}

pub(super) async fn only_the_permit_of_a_dead_holder_is_returned<F: Fixture>(fixture: Arc<F>) {
    let client = fixture.client().await;
    let permit = client.semaphore("dead", 3).ttl(LONG);
    let mine = permit.acquire().await.expect("free");
    let mut dies = start(&*fixture, &["share", "3"], "dead").await;
    let mut stops = start(&*fixture, &["share", "3"], "dead").await;
    assert!(permit.try_acquire().await.expect("answers").is_none(), "all three permits are held");
    dies.kill().await;
    let second = tokio::time::timeout(PATIENCE, permit.acquire()).await.expect("the dead one's");
    let second = second.expect("held");
    assert!(permit.try_acquire().await.expect("answers").is_none(), "exactly one was returned");
    stops.signal(Signal::SIGSTOP);
    let third = tokio::time::timeout(PATIENCE, permit.acquire()).await.expect("the stopped one's");
    let third = third.expect("held");
    stops.signal(Signal::SIGCONT);
    pause(300).await;
    for guard in [mine, second, third] {
        guard.release().await.expect("a process that wakes up disturbs no other");
    }
    stops.kill().await;
    nothing_left(&client, "dead").await;
}

pub(super) async fn dead_readers_and_writers_delay_no_other<F: Fixture>(fixture: Arc<F>) {
    let client = fixture.client().await;
    let both = client.rw_lock("dead");
    let (read, write) = (both.read().ttl(LONG), both.write().ttl(LONG));
    let mut reads = start(&*fixture, &["share", "read"], "dead").await;
    let beside = read.acquire().await.expect("readers share");
    assert!(write.try_acquire().await.expect("answers").is_none());
    reads.kill().await;
    beside.release().await.expect("held");
    let guard = tokio::time::timeout(PATIENCE, write.acquire()).await.expect("the reader is dead");
    guard.expect("held").release().await.expect("held");
    let mut writes = start(&*fixture, &["share", "write"], "dead").await;
    assert!(read.try_acquire().await.expect("answers").is_none());
    writes.signal(Signal::SIGSTOP);
    let guard = tokio::time::timeout(PATIENCE, read.acquire()).await.expect("the writer is stopped");
    let guard = guard.expect("held");
    writes.signal(Signal::SIGCONT);
    pause(300).await;
    guard.release().await.expect("a process that wakes up disturbs no other");
    writes.kill().await;
    nothing_left(&client, "dead").await;
}

/// After a crash, a lease lasts as long as was requested, also one that was handed over. An engine that sees
/// the end of a process, or of its session, sees it here too.
pub(super) async fn a_kept_lock_outlives_its_process_where_leases_do<F: Fixture>(fixture: Arc<F>) {
    // Longer than the initial lease of a lock that is handed over.
    const LEAST: Duration = Duration::from_secs(4);
    let (client, clock) = (fixture.client().await, Clock::boottime());
    let before = hold(&client, "kept").await;
    let url = fixture.url().expect("this engine is shared between processes");
    let mut job = WorkerProcess::start(&["once", &url, "kept", &LEAST.as_millis().to_string()]);
    assert_eq!(job.line().await, "started");
    waiters(&client, "kept", 1).await;
    let granted = clock.now();
    before.release().await.expect("held");
    assert!(job.line().await.starts_with("held"));
    assert_eq!(job.line().await, "released");
    assert!(client.lock("kept").try_acquire().await.expect("answers").is_none(), "it is kept");
    job.kill().await;
    let guard =
        tokio::time::timeout(PATIENCE, client.lock("kept").acquire()).await.expect("the lock becomes free");
    let held = clock.now().since(granted);
    guard.expect("held").release().await.expect("held");
    let promised = F::guarantees();
    if promised.dead_holder.contains("ttl") && !promised.lives_with_session {
        // Minus the allowed difference between clocks.
        assert!(held >= LEAST * 98 / 100, "free after {held:?}");
    }
    nothing_left(&client, "kept").await;
}
