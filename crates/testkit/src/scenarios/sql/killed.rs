//! The server is killed (`kill -9`) and restarted with its data on disk, or it ends connections.

use std::time::Duration;

use crate::history::Fault;
use crate::scenarios::cluster::survives_a_restart;
use crate::workload::contenders::Contenders;

use super::SqlHarness;
use crate::harness::SOON;

/// The holder and the queue are both rows.
pub async fn a_server_restarts_with_its_holder_and_queue(harness: &impl SqlHarness) {
    let clients = harness.recorded_clients(4).await;
    survives_a_restart(harness, &clients, || harness.restart()).await;
    assert_eq!(harness.judge(&clients, SOON).await.exclusive(), 4);
}

/// In the middle of claims, renewals, releases, and transactions.
pub async fn busy_clients_continue_after_kills_and_ended_connections(harness: &impl SqlHarness) {
    let clients = harness.recorded_clients(5).await;
    let contenders = Contenders::start(harness, &clients, Duration::from_millis(3));
    for _ in 0..2 {
        contenders.wait_for_holds(20).await;
        harness.inject(Fault::Trouble, || harness.restart());
        for _ in 0..3 {
            contenders.wait_for_holds(10).await;
            harness.inject(Fault::Trouble, || harness.end_connections());
        }
    }
    contenders.wait_for_holds(20).await;
    let tally = contenders.stop().await;
    assert!(tally.is_undisturbed() && tally.only_unreachable(), "{tally:?}");
    let judged = harness.judge(&clients, SOON).await;
    assert!(judged.exclusive() >= 100 && judged.excused() == 0, "no hold is excused");
}
