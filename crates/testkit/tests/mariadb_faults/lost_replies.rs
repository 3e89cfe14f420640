//! The connection breaks after the server acted.

use testkit::scenarios::sql::lost_replies;

use super::harness::MariadbHarness;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_whose_reply_is_lost_after_the_commit_is_its_own() {
    lost_replies::a_claim_whose_reply_is_lost_after_the_commit_is_its_own(&MariadbHarness::new()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_without_an_answer_says_so_and_the_lock_is_free() {
    lost_replies::a_release_without_an_answer_says_so_and_the_lock_is_free(&MariadbHarness::new()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_lost_in_a_contended_transaction_costs_nobody_a_turn() {
    lost_replies::what_is_lost_in_a_contended_transaction_costs_nobody_a_turn(&MariadbHarness::new()).await;
}
