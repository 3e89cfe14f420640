//! Names that are not used any more.

use testkit::rows::forgotten;
use testkit::servers::PostgresOptions;
use testkit::shim::Clocks;

use super::scene::Scene;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_that_was_not_used_for_a_day_is_forgotten_and_its_tokens_rise() {
    let moved = Clocks::new();
    let scene = Scene::with(PostgresOptions { clocks: Some(&moved), ..Default::default() });
    forgotten::a_name_that_was_not_used_for_a_day_is_forgotten_and_its_tokens_rise(&scene, &moved).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_that_is_claimed_while_it_is_forgotten_is_held() {
    forgotten::a_name_that_is_claimed_while_it_is_forgotten_is_held(&Scene::new()).await;
}
