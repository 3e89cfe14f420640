//! The connection breaks after the server acted.

use testkit::rows::cut;

use super::scene::Scene;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_whose_reply_is_lost_after_the_commit_is_its_own() {
    cut::a_claim_whose_reply_is_lost_after_the_commit_is_its_own(&Scene::new()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_without_an_answer_says_so_and_the_lock_is_free() {
    cut::a_release_without_an_answer_says_so_and_the_lock_is_free(&Scene::new()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_lost_in_a_contended_transaction_costs_nobody_a_turn() {
    cut::what_is_lost_in_a_contended_transaction_costs_nobody_a_turn(&Scene::new()).await;
}
