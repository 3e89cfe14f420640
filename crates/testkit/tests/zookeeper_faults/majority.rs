//! Without a majority nothing is granted, and whoever holds is told in time.

use latchwork::Loss;
use testkit::crowd::MARGIN;
use testkit::history::Fault;
use testkit::in_vain::InVain;
use testkit::play::Theatre;
use testkit::servers::ZooKeeperMember;

use super::scene::{LOCK, LONG, MORTAL, SOON, Scene, now, renewed, take, told};

/// One holder, one who waits for it, and others who ask in vain while two of three do not run.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_granted_and_the_holder_is_told_in_time() {
    let scene = Scene::three();
    let (mut clients, patient) = (vec![scene.client(MORTAL).await], scene.client("30s").await);
    clients.extend(scene.clients(3, "3s").await);
    let guard = take(&clients[0].lock(LOCK).ttl(LONG).with(|lock| lock.stop_margin(MARGIN))).await;
    let held = take(&patient.lock("patient").ttl(LONG)).await;
    renewed(&guard).await;
    let line = scene.line_up(&clients[1..2], LONG).await;
    let gone = &scene.server.members()[1..];
    scene.recorder.fault_began(Fault::Partition);
    gone.iter().for_each(ZooKeeperMember::kill);
    let [waited, tried] = [2, 3].map(|client| clients[client].lock("free").ttl(LONG));
    let in_vain = InVain::asked(waited, tried);
    assert_eq!(told(&guard).await, Loss::Unreachable);
    let early = guard.lease_end().since(now());
    assert!(!early.is_zero(), "told after its lease had ended");
    println!("told {early:?} before the end");
    in_vain.refused().await;
    assert!(line.stands(), "no false grant");
    assert!(held.is_certain(), "its session is long");
    gone.iter().for_each(ZooKeeperMember::start_again);
    scene.until_healthy();
    scene.recorder.fault_ended(Fault::Partition);
    drop(guard);
    line.served(held.token().expect("certain")).await;
    held.release().await.expect("held throughout");
    take(&clients[2].lock("free").ttl(LONG)).await.release().await.expect("held");
    clients.push(patient);
    scene.judge(&clients, 2 * SOON).await;
}
