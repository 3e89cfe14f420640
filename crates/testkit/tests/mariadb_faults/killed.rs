//! The server is killed (`kill -9`) and restarted with its data on disk, or it ends connections.

use testkit::scenarios::sql::killed;

use super::harness::MariadbHarness;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_restarts_with_its_holder_and_queue() {
    killed::a_server_restarts_with_its_holder_and_queue(&MariadbHarness::new()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn busy_clients_continue_after_kills_and_ended_connections() {
    killed::busy_clients_continue_after_kills_and_ended_connections(&MariadbHarness::new()).await;
}
