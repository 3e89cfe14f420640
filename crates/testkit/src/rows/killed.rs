//! The server is killed (`kill -9`) and started again with what it had on disk; or it ends connections.

use std::time::Duration;

use crate::crowd::Crowd;
use crate::history::Fault;
use crate::play::outlives_a_restart;

use super::Scene;
use crate::stage::SOON;

/// Both are rows.
pub async fn a_server_comes_back_with_holder_and_queue(scene: &impl Scene) {
    let clients = scene.recorded_clients(4).await;
    outlives_a_restart(scene, &clients, || scene.restart()).await;
    assert_eq!(scene.judge(&clients, SOON).await.exclusive(), 4);
}

/// In the middle of claims, renewals, releases, and transactions.
pub async fn clients_that_were_busy_go_on_after_kills_and_ended_connections(scene: &impl Scene) {
    let clients = scene.recorded_clients(5).await;
    let crowd = Crowd::gather(scene, &clients, Duration::from_millis(3));
    for _ in 0..2 {
        crowd.works(20).await;
        scene.strike(Fault::Trouble, || scene.restart());
        for _ in 0..3 {
            crowd.works(10).await;
            scene.strike(Fault::Trouble, || scene.end_connections());
        }
    }
    crowd.works(20).await;
    let tally = crowd.home().await;
    assert!(tally.is_undisturbed() && tally.only_unreachable(), "{tally:?}");
    let judged = scene.judge(&clients, SOON).await;
    assert!(judged.exclusive() >= 100 && judged.excused() == 0, "nobody is excused");
}
