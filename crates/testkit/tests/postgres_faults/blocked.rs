//! Another transaction locks rows or tables of ours for a long time.

use testkit::rows::blocked;
use testkit::rows::shared::options;
use testkit::servers::SqlSession;

use super::scene::Scene;

/// A session that locks our tables until it is dropped.
fn lock_tables(scene: &Scene) -> SqlSession {
    let mut other = scene.server.session();
    assert_eq!(other.ask("BEGIN; LOCK TABLE latchwork_lock, latchwork_claim; SELECT 1"), "1");
    other
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_claim_waits_for_a_row_for_longer_than_three_seconds() {
    blocked::no_claim_waits_for_a_row_for_longer_than_three_seconds(&Scene::new()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_claim_waits_for_a_table_for_longer_than_three_seconds() {
    let scene = Scene::new();
    blocked::no_claim_waits_for_longer_than_three_seconds(&scene, || lock_tables(&scene)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_given_up_does_not_stay_in_the_server() {
    let scene = Scene::new();
    blocked::what_was_given_up_does_not_stay_in_the_server(&scene, || lock_tables(&scene)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kept_row_costs_no_other_lock() {
    blocked::a_kept_row_costs_no_other_lock(&Scene::new()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kept_row_costs_no_other_lock_in_a_shared_table() {
    let scene = Scene::new();
    let url = scene.server.url(scene.server.address(), &options());
    blocked::a_kept_row_costs_no_other_lock_in_a_shared_table(&scene, &url).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_held_after_the_moment_that_an_error_names() {
    blocked::nothing_is_held_after_the_moment_that_an_error_names(&Scene::new(), None).await;
}
