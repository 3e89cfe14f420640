//! The requests that waiting costs a server that pushes nothing, and the effect of a wait for a locked row on
//! a lease.

use testkit::harness::{LOCK, LONG, SOON, now, pause, take};
use testkit::scenarios::sql::SqlHarness as _;

use super::conflicts::until_it_sleeps;
use super::harness::MariadbHarness;

const WAITERS: usize = 30;

/// The next waiter polls at most 40 times a second once the holder has had the lock for a while, the second
/// half as often, and so on: all together hardly more often than the first four.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_queue_polls_little_more_often_than_a_short_one_and_hardly_writes() {
    let harness = MariadbHarness::new();
    let (holder, mut line) = (harness.observer().await, Vec::new());
    let guard = take(&holder.lock(LOCK).ttl(LONG)).await;
    for count in 1..=WAITERS {
        let client = harness.observer().await;
        let lock = client.lock(LOCK).ttl(LONG).wait(LONG);
        line.push(tokio::spawn(async move { lock.acquire().await }));
        harness.wait_for_waiters(&holder, count).await;
    }
    pause(500).await;
    let (begun, before) = (now(), harness.server.statements());
    pause(3_000).await;
    let (asked, took) = (harness.server.statements() - before, now().since(begun));
    let a_second = asked as f64 / took.as_secs_f64();
    println!("{WAITERS} waiters: {a_second:.0} statements a second");
    // 40 + 20 + 13 + ..., one heartbeat of each per second, and no waiter depends on an answer to another.
    assert!(a_second < 40.0 * 4.5 + 2.0 * WAITERS as f64, "{a_second} a second");
    assert!(a_second > 10.0, "the next waiter polls");
    guard.release().await.expect("held");
    for waiter in line {
        let guard = tokio::time::timeout(SOON, waiter).await.expect("granted in the order of arrival");
        guard.expect("no panic").expect("its turn comes").release().await.expect("held");
    }
}

/// The time in a statement must be that of getting the row lock, and not that of the request: another
/// transaction may have held the row for longer than the lease.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_begins_when_the_row_lock_is_granted_and_not_when_it_was_requested() {
    let harness = MariadbHarness::new();
    let (client, other) = (harness.observer().await, harness.observer().await);
    take(&client.lock(LOCK)).await.release().await.expect("held");
    let clock = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))";
    let keeper = harness.server.sql_in_background(&format!(
        "START TRANSACTION; SELECT name FROM latchwork_lock FOR UPDATE; DO SLEEP(1); SELECT {clock}; COMMIT"
    ));
    until_it_sleeps(&harness).await;
    let guard = take(&client.lock(LOCK).ttl(LONG)).await;
    assert!(other.lock(LOCK).try_acquire().await.expect("an answer").is_none());
    let read = |column: &str| -> i64 {
        harness.sql(&format!("SELECT {column} FROM latchwork_lock")).parse().expect("a number")
    };
    let (since, expires) = (read("since"), read("expires"));
    let kept = keeper.wait_with_output().expect("the process ends");
    let kept = String::from_utf8(kept.stdout).expect("text");
    let kept_until: i64 = kept.lines().last().expect("the time").parse().expect("a number");
    println!("granted {} us after the row was let go", since - kept_until);
    assert!(since >= kept_until, "the lease began {} us too early", kept_until - since);
    assert!(expires - kept_until >= LONG.as_micros() as i64, "a whole lease");
    guard.release().await.expect("held");
    harness.judge(&[client, other], SOON).await;
}
