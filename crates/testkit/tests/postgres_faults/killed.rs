//! The server is killed (`kill -9`) and started again with what it had on disk; or it ends connections.

use testkit::scenarios::sql::killed;

use super::harness::PostgresHarness;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_comes_back_with_holder_and_queue() {
    killed::a_server_comes_back_with_holder_and_queue(&PostgresHarness::new()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_were_busy_go_on_after_kills_and_ended_connections() {
    killed::clients_that_were_busy_go_on_after_kills_and_ended_connections(&PostgresHarness::new()).await;
}
