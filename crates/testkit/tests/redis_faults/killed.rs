//! The server is killed (`kill -9`) and started again with what it had on disk.

use std::time::Duration;

use testkit::history::Fault;
use testkit::scenarios::cluster::outlives_a_restart;
use testkit::servers::RedisOptions;
use testkit::workload::contenders::Contenders;

use super::harness::{RedisHarness, SOON};

/// Written before it is answered: with `everysec`, a kill can cost what waited behind a slow disk.
pub(crate) fn durable() -> RedisOptions<'static> {
    RedisOptions { aof: true, config: vec![("appendfsync".into(), "always".into())], ..Default::default() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_wrote_its_locks_down_comes_back_with_holder_and_queue() {
    let harness = RedisHarness::with(durable());
    let clients = harness.clients(4).await;
    outlives_a_restart(&harness, &clients, || harness.server.restart()).await;
    assert_eq!(harness.judge(&clients, SOON).await.exclusive(), 4);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_were_busy_go_on_after_the_kill_as_if_nothing_had_happened() {
    let harness = RedisHarness::with(durable());
    let clients = harness.clients(5).await;
    let contenders = Contenders::start(&harness, &clients, Duration::from_millis(3));
    for _ in 0..3 {
        contenders.wait_for_holds(20).await;
        harness.strike(Fault::Trouble, || harness.server.restart());
    }
    contenders.wait_for_holds(20).await;
    let tally = contenders.stop().await;
    assert!(tally.is_undisturbed() && tally.only_unreachable(), "{tally:?}");
    let judged = harness.judge(&clients, SOON).await;
    assert!(judged.exclusive() >= 80 && judged.excused() == 0, "nobody is excused");
}
