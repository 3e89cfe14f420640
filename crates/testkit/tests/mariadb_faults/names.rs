//! Names with special characters.

use testkit::scenarios::sql::names;

use super::harness::MariadbHarness;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_names_are_ordinary_names() {
    names::hostile_names_are_ordinary_names(&MariadbHarness::new()).await;
}
