//! Names that try to be more than names.

use testkit::scenarios::sql::names;

use super::harness::MariadbHarness;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_names_are_names() {
    names::hostile_names_are_names(&MariadbHarness::new()).await;
}
