//! The server is killed (`kill -9`) and restarted with its data on disk.

use std::time::Duration;

use testkit::history::Fault;
use testkit::scenarios::cluster::survives_a_restart;
use testkit::servers::RedisOptions;
use testkit::workload::contenders::Contenders;

use super::harness::{RedisHarness, SOON};

/// Every write is synced before its reply: with `everysec`, a kill can lose writes that wait behind a slow
/// disk.
pub(crate) fn durable() -> RedisOptions<'static> {
    RedisOptions { aof: true, config: vec![("appendfsync".into(), "always".into())], ..Default::default() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_persistent_server_restarts_with_its_holder_and_queue() {
    let harness = RedisHarness::with(durable());
    let clients = harness.clients(4).await;
    survives_a_restart(&harness, &clients, || harness.server.restart()).await;
    assert_eq!(harness.judge(&clients, SOON).await.exclusive(), 4);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn busy_clients_continue_undisturbed_after_the_kill() {
    let harness = RedisHarness::with(durable());
    let clients = harness.clients(5).await;
    let contenders = Contenders::start(&harness, &clients, Duration::from_millis(3));
    for _ in 0..3 {
        contenders.wait_for_holds(20).await;
        harness.inject(Fault::Trouble, || harness.server.restart());
    }
    contenders.wait_for_holds(20).await;
    let tally = contenders.stop().await;
    assert!(tally.is_undisturbed() && tally.only_unreachable(), "{tally:?}");
    let judged = harness.judge(&clients, SOON).await;
    assert!(judged.exclusive() >= 80 && judged.excused() == 0, "no hold is excused");
}
