//! Without a majority nothing is granted, and whoever holds is told in time.

use std::time::Duration;

use latchwork::{ErrorKind, Loss};
use testkit::history::Fault;
use testkit::play::Theatre;
use testkit::servers::ZooKeeperMember;

use super::scene::{LOCK, LONG, SOON, Scene, now, renewed, take, told};

/// How long a claim waits in vain.
const IN_VAIN: Duration = Duration::from_millis(1_500);

/// One holder, one who waits for it, and others who ask in vain while two of three do not run.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_granted_and_the_holder_is_told_in_time() {
    let scene = Scene::three();
    let (mut clients, patient) = (scene.clients(4, "3s").await, scene.client("30s").await);
    let guard = take(&clients[0].lock(LOCK).ttl(LONG)).await;
    let held = take(&patient.lock("patient").ttl(LONG)).await;
    renewed(&guard).await;
    let line = scene.line_up(&clients[1..2], LONG).await;
    let gone = &scene.server.members()[1..];
    scene.recorder.fault_began(Fault::Partition);
    gone.iter().for_each(ZooKeeperMember::kill);
    let in_vain = clients[2].lock("free").ttl(LONG).wait(IN_VAIN);
    let in_vain = tokio::spawn(async move { (now(), in_vain.acquire().await, now()) });
    let tried = clients[3].lock("free").ttl(LONG);
    let tried =
        tokio::spawn(async move { (now(), tried.try_acquire().await.map(|guard| guard.is_some()), now()) });
    assert_eq!(told(&guard).await, Loss::Unreachable);
    let early = guard.lease_end().since(now());
    assert!(!early.is_zero(), "told after its lease had ended");
    let (begun, answer, ended) = in_vain.await.expect("no panic");
    let error = answer.expect_err("nobody can grant it");
    let waited = ended.since(begun);
    println!("told {early:?} before the end; {error} after {waited:?}");
    assert!(matches!(error.kind(), ErrorKind::Unreachable | ErrorKind::TimedOut), "{error}");
    assert!(waited < IN_VAIN + Duration::from_secs(2), "{waited:?} is more than it wanted to wait");
    let (begun, answer, ended) = tried.await.expect("no panic");
    let error = answer.expect_err("nobody can grant it");
    println!("a try: {error} after {:?}", ended.since(begun));
    assert_eq!(error.kind(), ErrorKind::Unreachable, "{error}");
    assert!(ended.since(begun) < SOON, "{:?} for one look", ended.since(begun));
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
