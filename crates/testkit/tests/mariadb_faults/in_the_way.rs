//! Others who lock our rows: deadlocks and waits that are too long did nothing, are tried again, and are nobody's error.

use testkit::harness::{LOCK, LONG, SOON, now, pause, take};
use testkit::scenarios::sql::SqlHarness as _;

use super::harness::MariadbHarness;

/// Waits until somebody's transaction has what it locks, and sleeps with it.
pub(crate) async fn until_it_sleeps(harness: &MariadbHarness) {
    let end = now().after(SOON);
    while harness.sql("SELECT count(*) FROM information_schema.processlist WHERE info LIKE 'DO SLEEP%'")
        == "0"
    {
        assert!(now() < end, "nobody keeps the row");
        pause(5).await;
    }
}

/// A statement waits for 3 s, and is then refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_that_is_kept_for_longer_than_a_statement_waits_costs_time_and_no_error() {
    let harness = MariadbHarness::new();
    let client = harness.observer().await;
    take(&client.lock(LOCK)).await.release().await.expect("held");
    let keep = "START TRANSACTION; SELECT name FROM latchwork_lock FOR UPDATE; DO SLEEP(3.5); COMMIT";
    let keeper = harness.server.sql_in_background(keep);
    until_it_sleeps(&harness).await;
    let guard = client.lock(LOCK).ttl(LONG).wait(LONG).acquire().await.expect("nobody holds the lock");
    assert!(keeper.wait_with_output().expect("it ends").status.success());
    guard.release().await.expect("held");
    harness.judge(&[client], LONG).await;
}

/// We lock the row of the lock and then the queue; they do it the other way round, and have more to lose.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deadlock_with_others_is_nobodys_error() {
    let harness = MariadbHarness::new();
    let (holder, waiter) = (harness.observer().await, harness.observer().await);
    let held = take(&holder.lock(LOCK).ttl(LONG)).await;
    let lock = waiter.lock(LOCK).ttl(LONG).wait(LONG);
    let waiting = tokio::spawn(async move { lock.acquire().await });
    harness.until_waiting(&holder, 1).await;
    let many = vec!["(1)"; 100].join(", ");
    let other = harness.server.sql_in_background(&format!(
        "START TRANSACTION; INSERT INTO door VALUES {many}; SELECT name FROM latchwork_claim FOR UPDATE; DO SLEEP(1); \
         SELECT name FROM latchwork_lock FOR UPDATE; COMMIT"
    ));
    until_it_sleeps(&harness).await;
    held.release().await.expect("held");
    assert!(other.wait_with_output().expect("it ends").status.success(), "we gave way");
    waiting.await.expect("no panic").expect("its turn comes").release().await.expect("held");
    assert_eq!(harness.server.deadlocks(), 1);
    harness.judge(&[holder, waiter], LONG).await;
}
