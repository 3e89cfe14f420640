//! Names that try to be more than names.

use testkit::rows::names;

use super::scene::Scene;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_names_are_names() {
    names::hostile_names_are_names(&Scene::new()).await;
}
