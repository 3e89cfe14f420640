//! The server is killed and starts again with nothing: who held a lock may not know it yet.

use latchwork::clock::wall_micros;
use latchwork::{ErrorKind, Loss};
use testkit::history::Fault;
use testkit::store::Written;

use super::scene::{LOCK, SOON, Scene, now, pause, take};
use std::time::Duration;

/// The longest lease, and so the quarantine.
const MOST: Duration = Duration::from_secs(2);
const OPTIONS: &str = "max-ttl=2s";

/// Starts a new second of the wall clock as late as it can: a server tells its uptime in whole ones.
async fn until_late_in_a_second() {
    let into = wall_micros() % 1_000_000;
    pause((1_000_000 + 850_000 - into) % 1_000_000 / 1_000).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_whose_server_forgot_it_is_told_at_its_next_renewal_and_waits_out_the_quarantine() {
    let scene = Scene::new();
    let clients =
        [scene.connect(&scene.url(OPTIONS)).await, scene.connect(&scene.url(OPTIONS)).await];
    let guard = take(&clients[0].lock(LOCK).ttl(MOST)).await;
    let mut store = scene.store();
    assert_eq!(store.write(guard.token().unwrap(), "before"), Written::Accepted);
    until_late_in_a_second().await;
    let killed = now();
    scene.strike(Fault::Restart, || scene.server.restart_empty());
    assert_eq!(guard.lost().await, Loss::Removed);
    let told = now().since(killed);
    assert!(told < MOST / 2, "told {told:?} after the kill, and not at the next renewal");

    let lock = clients[1].lock(LOCK).ttl(MOST);
    let error = lock.clone().wait(Duration::from_millis(50)).acquire().await.expect_err("not yet");
    let message = error.to_string();
    assert_eq!(error.kind(), ErrorKind::TimedOut, "{message}");
    for part in [&scene.proxy.address().to_string(), " s left", "quarantine=off"] {
        assert!(message.contains(part), "{part:?} in {message}");
    }
    assert!(lock.try_acquire().await.expect("an answer").is_none(), "it is not to be had yet");

    let next = take(&lock).await;
    let waited = now().since(killed);
    assert!(waited >= MOST, "granted {waited:?} after the kill: somebody may have held it for {MOST:?}");
    assert!(waited < MOST + SOON / 2, "granted only {waited:?} after the kill");
    assert!(next.token().unwrap() > guard.token().unwrap());
    assert_eq!(store.write(next.token().unwrap(), "after"), Written::Accepted);
    assert!(matches!(store.write(guard.token().unwrap(), "stale"), Written::Refused { .. }));
    assert_eq!(guard.release().await.expect_err("lost").kind(), ErrorKind::Lost);
    next.release().await.expect("held");
    scene.judge(&clients, SOON).await;
}

/// How long this thread has run on a processor.
fn busy() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").expect("the kernel counts");
    let nanos = stat.split(' ').next().and_then(|nanos| nanos.parse().ok());
    Duration::from_nanos(nanos.expect("a number"))
}

/// In a runtime of one thread, so that its processor time is the waiter's.
#[tokio::test]
async fn a_client_that_waits_out_the_quarantine_sleeps() {
    let scene = Scene::new();
    let client = scene.connect(&scene.url(OPTIONS)).await;
    take(&client.lock(LOCK).ttl(MOST)).await.release().await.expect("held");
    scene.strike(Fault::Restart, || scene.server.restart_empty());
    let (lock, begun, was_busy) = (client.lock(LOCK).ttl(MOST).wait(SOON), now(), busy());
    let waiting = tokio::spawn(async move { lock.acquire().await });
    pause(500).await;
    let (paused, busy) = (now().since(begun), busy().saturating_sub(was_busy));
    assert!(paused < Duration::from_millis(1_200), "a pause of 0.5 s took {paused:?}");
    assert!(busy < Duration::from_millis(100), "it was busy for {busy:?} of {paused:?}");
    waiting.await.expect("no panic").expect("it ends").release().await.expect("held");
    scene.judge(&[client], SOON).await;
}
