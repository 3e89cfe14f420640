//! Another transaction locks our rows or tables for a long time.

use std::time::Duration;

use testkit::scenarios::sql::blocked;
use testkit::scenarios::sql::shared::options;
use testkit::servers::SqlSession;

use super::harness::MariadbHarness;

/// A session that locks our tables until it is dropped.
fn lock_tables(harness: &MariadbHarness) -> SqlSession {
    let mut other = harness.server.session();
    assert_eq!(other.ask("LOCK TABLES latchwork_lock WRITE, latchwork_claim WRITE; SELECT 1"), "1");
    other
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_claim_waits_for_a_row_for_longer_than_three_seconds() {
    blocked::no_claim_waits_for_a_row_for_longer_than_three_seconds(&MariadbHarness::new()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_claim_waits_for_a_table_for_longer_than_three_seconds() {
    let harness = MariadbHarness::new();
    blocked::no_claim_waits_for_longer_than_three_seconds(&harness, || lock_tables(&harness)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn abandoned_requests_do_not_stay_in_the_server() {
    let harness = MariadbHarness::new();
    blocked::abandoned_requests_do_not_stay_in_the_server(&harness, || lock_tables(&harness)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_locked_row_costs_no_other_lock() {
    blocked::a_locked_row_costs_no_other_lock(&MariadbHarness::new()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_locked_row_costs_no_other_lock_in_a_shared_table() {
    let harness = MariadbHarness::new();
    let url = harness.server.url(harness.server.address(), &options());
    blocked::a_locked_row_costs_no_other_lock_in_a_shared_table(&harness, &url).await;
}

/// The abandoned claim is granted a moment before the server gives it up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_lock_is_held_after_the_time_that_an_error_names() {
    let freed_after = Some(Duration::from_millis(2_500));
    blocked::no_lock_is_held_after_the_time_that_an_error_names(&MariadbHarness::new(), freed_after).await;
}
