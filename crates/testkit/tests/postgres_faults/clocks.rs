//! Wrong clocks.

use testkit::scenarios::sql::clocks;
use testkit::servers::PostgresOptions;
use testkit::shim::Clocks;

use super::harness::PostgresHarness;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_whose_clocks_differ_by_an_hour_agree_on_the_holder() {
    clocks::clients_whose_clocks_differ_by_an_hour_agree_on_the_holder(&PostgresHarness::new()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_rise_whatever_the_servers_clock_shows() {
    let moved = Clocks::new();
    let harness = PostgresHarness::with(PostgresOptions { clocks: Some(&moved), ..Default::default() });
    clocks::tokens_rise_whatever_the_servers_clock_shows(&harness, &moved).await;
}
