//! Another transaction locks our rows or tables for a long time.

use std::time::Duration;

use latchwork::{Effect, ErrorKind, Loss};

use super::SqlHarness;
use super::shared::TABLE;
use crate::harness::{LOCK, LONG, SOON, clock, connect, now, pause, take, wait_for_loss};
use crate::servers::SqlSession;

/// The documented 3 s, plus the time to notice it on a busy machine.
const LONGEST_WAIT: Duration = Duration::from_secs(5);
const TTL: Duration = Duration::from_secs(2);
/// The stop margin, long enough for a machine that stalls for half a second.
const MARGIN: Duration = Duration::from_millis(700);
/// The ttl of the abandoned claim.
const SHORT: Duration = Duration::from_millis(500);
/// A second lock whose row is locked by the other transaction.
const WANTED: &str = "wanted";

/// A transaction that locks the rows of these locks until it is dropped.
fn keep_rows(harness: &impl SqlHarness, names: &[&str]) -> SqlSession {
    let (mut other, names) = (harness.session(), names.join("', '"));
    let keep =
        format!("BEGIN; UPDATE latchwork_lock SET ticket = ticket WHERE name IN ('{names}'); SELECT 1");
    assert_eq!(other.ask(&keep), "1");
    other
}

/// The loss depends on whether a renewal has already failed, or is still waiting for the row.
fn is_not_renewed(loss: Loss) {
    assert!(matches!(loss, Loss::Unreachable | Loss::Expired), "{loss:?}");
}

async fn until_something_waits(harness: &impl SqlHarness) {
    let end = now().after(SOON);
    while harness.waiting().is_empty() {
        assert!(now() < end, "nothing waits for the row");
        pause(20).await;
    }
}

/// A claim that only tries waits at most 3 s, and fails with an error that says that nothing was done. A
/// claim that waits gets the lock when the row is free again. `keep` locks the row, or all rows.
pub async fn no_claim_waits_for_longer_than_three_seconds(
    harness: &impl SqlHarness,
    keep: impl FnOnce() -> SqlSession,
) {
    let client = harness.observer().await;
    take(&client.lock(LOCK)).await.release().await.expect("held");
    let (other, begun) = (keep(), now());
    let error = client.lock(LOCK).ttl(LONG).try_acquire().await.expect_err("the outcome is unknown");
    let waited = now().since(begun);
    println!("after {waited:?}: {error}");
    assert!(waited < LONGEST_WAIT, "{waited:?}: {error}");
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Unreachable, Effect::None), "{error}");
    let lock = client.lock(LOCK).ttl(LONG).wait(LONG);
    let waiting = tokio::spawn(async move { lock.acquire().await });
    until_something_waits(harness).await;
    drop(other);
    waiting.await.expect("no panic").expect("no client holds the lock").release().await.expect("held");
    harness.judge(&[client], LONG).await;
}

/// Runs the scenario with only the row locked.
pub async fn no_claim_waits_for_a_row_for_longer_than_three_seconds(harness: &impl SqlHarness) {
    no_claim_waits_for_longer_than_three_seconds(harness, || keep_rows(harness, &[LOCK])).await;
}

/// A holder cannot renew while the tables are locked. Its renewals are given up one after the other, and the
/// server must not keep them all until the tables are free. `keep` locks the tables.
pub async fn abandoned_requests_do_not_stay_in_the_server(
    harness: &impl SqlHarness,
    keep: impl FnOnce() -> SqlSession,
) {
    let client = harness.observer().await;
    let guard = take(&client.lock(LOCK).ttl(TTL).with(|lock| lock.stop_margin(MARGIN))).await;
    let other = keep();
    is_not_renewed(wait_for_loss(&guard).await);
    println!("when the lock was lost, {} statements waited", harness.waiting().len());
    // A server that does not check for closed connections notices with the second reply that its client is
    // gone.
    let end = now().after(2 * LONGEST_WAIT);
    while !harness.waiting().is_empty() {
        assert!(now() < end, "these statements have no waiting client any more: {:?} ms", harness.waiting());
        pause(50).await;
    }
    drop((other, guard));
    harness.judge(&[client], LONG).await;
}

/// A client renews many unrelated locks while another transaction locks the row of one of its locks for
/// longer than the ttl. The client also waits for a lock whose row is locked by that transaction.
pub async fn a_locked_row_costs_no_other_lock(harness: &impl SqlHarness) {
    let url = harness.direct_url();
    connect(&url).await.lock(WANTED).acquire().await.expect("free").release().await.expect("held");
    a_locked_row_costs_none_of_these(harness, &url, || keep_rows(harness, &[LOCK, WANTED])).await;
}

/// Runs the scenario with `scheme=insert`. There the transaction of a service also locks a row that it is
/// inserting.
pub async fn a_locked_row_costs_no_other_lock_in_a_shared_table(harness: &impl SqlHarness, url: &str) {
    let keep = || {
        let mut other = harness.session();
        let keep = format!(
            "BEGIN; UPDATE {TABLE} SET holder_id = holder_id WHERE unique_mutex = '{LOCK}'; \
             INSERT INTO {TABLE} (unique_mutex, holder_id) VALUES ('{WANTED}', 'host-7'); SELECT 1"
        );
        assert_eq!(other.ask(&keep), "1");
        other
    };
    a_locked_row_costs_none_of_these(harness, url, keep).await;
}

async fn a_locked_row_costs_none_of_these(
    harness: &impl SqlHarness,
    url: &str,
    keep: impl FnOnce() -> SqlSession,
) {
    let client = harness.connect(url).await;
    let mut guards = Vec::new();
    for number in 0..30 {
        guards.push(take(&client.lock(&format!("unrelated/{number}")).ttl(TTL)).await);
    }
    let kept = client.lock(LOCK).ttl(TTL).with(|lock| lock.stop_margin(MARGIN));
    let kept = take(&kept).await;
    let other = keep();
    let lock = client.lock(WANTED).ttl(LONG).wait(LONG);
    let waiting = tokio::spawn(async move { lock.acquire().await });
    is_not_renewed(wait_for_loss(&kept).await);
    pause(TTL.as_millis() as u64).await;
    let lost = guards.iter().filter(|guard| !guard.is_certain()).count();
    assert_eq!(lost, 0, "of {} unrelated locks", guards.len());
    assert!(!waiting.is_finished());
    drop(other);
    waiting.await.expect("no panic").expect("no client holds the lock").release().await.expect("held");
    for guard in guards {
        guard.release().await.expect("held");
    }
    drop(kept);
    harness.judge(&[client], LONG).await;
}

/// The client vanishes while its claim waits for a row. The row becomes free `freed_after` that, or at the
/// moment that the error names. After that moment no claim holds the lock.
pub async fn no_lock_is_held_after_the_time_that_an_error_names(
    harness: &impl SqlHarness,
    freed_after: Option<Duration>,
) {
    let client = connect(&harness.url()).await;
    client.lock(LOCK).acquire().await.expect("free").release().await.expect("held");
    let other = keep_rows(harness, &[LOCK]);
    let lock = client.lock(LOCK).ttl(SHORT).wait(3 * SHORT);
    let asking = tokio::spawn(async move { lock.acquire().await });
    until_something_waits(harness).await;
    let vanished = now();
    harness.proxy().refuse(true);
    let error = asking.await.expect("no panic").expect_err("the server cannot be reached");
    let until = error.may_be_held_until().expect("its claim was in flight");
    println!("{error}");
    drop(client);
    let freed = freed_after.map_or(until, |span| vanished.after(span));
    clock().sleep_until(freed).await;
    drop(other);
    clock().sleep_until(until).await;
    let end = now().after(SHORT);
    while now() < end {
        let held = format!(
            "SELECT count(*) FROM latchwork_lock WHERE id IS NOT NULL AND expires > {}",
            harness.time()
        );
        assert_eq!(harness.sql(&held), "0", "held without an owner after the time in the error");
        pause(20).await;
    }
}
