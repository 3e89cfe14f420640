//! The connection breaks after the server acted.

use testkit::scenarios::sql::lost_replies;

use super::harness::PostgresHarness;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_whose_reply_is_lost_after_the_commit_finds_its_own_grant() {
    lost_replies::a_claim_whose_reply_is_lost_after_the_commit_finds_its_own_grant(&PostgresHarness::new())
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_without_an_answer_reports_it_and_the_lock_is_free() {
    lost_replies::a_release_without_an_answer_reports_it_and_the_lock_is_free(&PostgresHarness::new()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_reply_in_a_contended_transaction_costs_no_client_a_turn() {
    lost_replies::a_lost_reply_in_a_contended_transaction_costs_no_client_a_turn(&PostgresHarness::new())
        .await;
}
