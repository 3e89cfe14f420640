//! Wrong clocks.

use std::time::Duration;

use crate::history::Fault;
use crate::shim::Clocks;
use crate::store::Written;
use crate::worker_process::WorkerProcess;
use crate::workload::contenders::TTL;

use super::SqlHarness;
use crate::harness::{LOCK, LONG, SOON, take};

const HOUR: i64 = 3_600_000;

/// Only the database's clock decides which client holds a lock.
pub async fn clients_whose_clocks_differ_by_an_hour_agree_on_the_holder(harness: &impl SqlHarness) {
    let client = harness.observer().await;
    for offset in [HOUR, -HOUR] {
        let clocks = Clocks::new();
        clocks.move_wall(offset);
        let mut other = WorkerProcess::with_clocks(&["hold", &harness.direct_url(), LOCK, "2000"], &clocks);
        assert_eq!(other.line().await, "started");
        assert!(other.line().await.starts_with("held "));
        assert!(client.lock(LOCK).try_acquire().await.expect("an answer").is_none(), "it is held");
        tokio::time::sleep(Duration::from_millis(2_500)).await;
        assert!(client.lock(LOCK).try_acquire().await.expect("an answer").is_none(), "it renews");
        other.kill().await;
        take(&client.lock(LOCK).ttl(LONG)).await.release().await.expect("held");
    }
    harness.judge(&[client], SOON).await;
}

/// `clocks` are the server's.
pub async fn tokens_rise_whatever_the_servers_clock_shows(harness: &impl SqlHarness, clocks: &Clocks) {
    let clients = harness.recorded_clients(2).await;
    let mut store = harness.store();
    let guard = take(&clients[0].lock(LOCK).ttl(TTL)).await;
    assert_eq!(store.write(guard.token().unwrap(), "before"), Written::Accepted);
    harness.inject(Fault::ClockStep, || clocks.move_wall(HOUR));
    let next = take(&clients[1].lock(LOCK).ttl(TTL)).await;
    assert!(next.token().unwrap() > guard.token().unwrap());
    assert_eq!(store.write(next.token().unwrap(), "after"), Written::Accepted);
    assert!(matches!(store.write(guard.token().unwrap(), "stale"), Written::Refused { .. }));
    drop(guard);
    let mut newest = next.token().unwrap();
    next.release().await.expect("held");
    for offset in [0, -HOUR] {
        harness.inject(Fault::ClockStep, || clocks.move_wall(offset));
        let last = take(&clients[1].lock(LOCK).ttl(TTL)).await;
        assert!(last.token().unwrap() > newest, "tokens went back with the clock");
        newest = last.token().unwrap();
        last.release().await.expect("held");
    }
    harness.judge(&clients, SOON).await;
}
