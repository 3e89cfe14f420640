//! Other programs lock our rows: deadlocks and lock wait timeouts have no effect, are retried, and cause no
//! error.

use testkit::harness::{LOCK, LONG, SOON, now, pause, take};
use testkit::scenarios::sql::SqlHarness as _;

use super::harness::MariadbHarness;

/// Waits until the other transaction has its locks, and sleeps with them.
pub(crate) async fn until_it_sleeps(harness: &MariadbHarness) {
    let end = now().after(SOON);
    while harness.sql("SELECT count(*) FROM information_schema.processlist WHERE info LIKE 'DO SLEEP%'")
        == "0"
    {
        assert!(now() < end, "no transaction locks the row");
        pause(5).await;
    }
}

/// A statement waits for 3 s, and is then refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_that_is_locked_beyond_the_statement_timeout_costs_time_and_no_error() {
    let harness = MariadbHarness::new();
    let client = harness.observer().await;
    take(&client.lock(LOCK)).await.release().await.expect("held");
    let keep = "START TRANSACTION; SELECT name FROM latchwork_lock FOR UPDATE; DO SLEEP(3.5); COMMIT";
    let keeper = harness.server.sql_in_background(keep);
    until_it_sleeps(&harness).await;
    let guard = client.lock(LOCK).ttl(LONG).wait(LONG).acquire().await.expect("no client holds the lock");
    assert!(keeper.wait_with_output().expect("the process ends").status.success());
    guard.release().await.expect("held");
    harness.judge(&[client], LONG).await;
}

/// Our transaction locks the row of the lock and then the queue; the other one does the reverse, and is
/// costlier to roll back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deadlock_with_another_program_is_no_callers_error() {
    let harness = MariadbHarness::new();
    let (holder, waiter) = (harness.observer().await, harness.observer().await);
    let held = take(&holder.lock(LOCK).ttl(LONG)).await;
    let lock = waiter.lock(LOCK).ttl(LONG).wait(LONG);
    let waiting = tokio::spawn(async move { lock.acquire().await });
    harness.wait_for_waiters(&holder, 1).await;
    let many = vec!["(1)"; 100].join(", ");
    let other = harness.server.sql_in_background(&format!(
        "START TRANSACTION; INSERT INTO door VALUES {many}; SELECT name FROM latchwork_claim FOR UPDATE; DO SLEEP(1); \
         SELECT name FROM latchwork_lock FOR UPDATE; COMMIT"
    ));
    until_it_sleeps(&harness).await;
    held.release().await.expect("held");
    assert!(
        other.wait_with_output().expect("the process ends").status.success(),
        "our transaction was rolled back"
    );
    waiting.await.expect("no panic").expect("its turn comes").release().await.expect("held");
    assert_eq!(harness.server.deadlocks(), 1);
    harness.judge(&[holder, waiter], LONG).await;
}
