//! The server is killed and restarts without data: holders may not know it yet.

use std::time::Duration;

use latchwork::clock::wall_micros;
use latchwork::{ErrorKind, Loss};
use testkit::history::Fault;
use testkit::store::Written;

use super::harness::{ANSWERED, LOCK, LONG, RedisHarness, SOON, now, pause, take, wait_for_loss};

/// The longest lease, and so the quarantine.
const MOST: Duration = Duration::from_secs(2);

/// Waits for a moment late in a second of the wall clock: a server that starts then soon reports an uptime of
/// one second.
async fn until_late_in_a_second() {
    let into = wall_micros() % 1_000_000;
    pause((1_000_000 + 850_000 - into) % 1_000_000 / 1_000).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_whose_server_lost_its_data_is_told_at_its_next_renewal_and_waits_out_the_quarantine() {
    // Has not ended when the holder is told and others have asked, even on a machine that stalls in between.
    const MOST: Duration = Duration::from_secs(7);
    let (harness, options) = (RedisHarness::new(), "max-ttl=7s");
    let clients =
        [harness.connect(&harness.url(options)).await, harness.connect(&harness.url(options)).await];
    let guard = take(&clients[0].lock(LOCK).ttl(MOST)).await;
    let mut store = harness.store();
    assert_eq!(store.write(guard.token().unwrap(), "before"), Written::Accepted);
    until_late_in_a_second().await;
    let killed = now();
    harness.inject(Fault::Restart, || harness.server.restart_empty());
    let lease_end = guard.lease_end();
    assert_eq!(wait_for_loss(&guard).await, Loss::Removed);
    let told = now().since(killed);
    // On a machine that stalls, a renewal is late, but comes before the lease ends; and no earlier one was
    // answered.
    assert!(told < MOST && guard.lease_end() == lease_end, "told {told:?} after the kill");

    let lock = clients[1].lock(LOCK).ttl(MOST);
    let error = lock.clone().wait(ANSWERED).acquire().await.expect_err("not yet");
    let message = error.to_string();
    assert_eq!(error.kind(), ErrorKind::TimedOut, "{message}");
    for part in [&harness.proxy.address().to_string(), " s left", "quarantine=off"] {
        assert!(message.contains(part), "{part:?} in {message}");
    }
    assert!(lock.try_acquire().await.expect("an answer").is_none(), "it cannot be acquired yet");

    let next = take(&lock).await;
    let waited = now().since(killed);
    assert!(
        waited >= MOST,
        "granted {waited:?} after the kill: another client may have held it for {MOST:?}"
    );
    assert!(waited < MOST + SOON / 2, "granted only {waited:?} after the kill");
    assert!(next.token().unwrap() > guard.token().unwrap());
    assert_eq!(store.write(next.token().unwrap(), "after"), Written::Accepted);
    assert!(matches!(store.write(guard.token().unwrap(), "stale"), Written::Refused { .. }));
    assert_eq!(guard.release().await.expect_err("lost").kind(), ErrorKind::Lost);
    next.release().await.expect("held");
    harness.judge(&clients, SOON).await;
}

/// The processor time of this thread.
fn busy() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").expect("the kernel counts");
    let nanos = stat.split(' ').next().and_then(|nanos| nanos.parse().ok());
    Duration::from_nanos(nanos.expect("a number"))
}

/// In a runtime with one thread, so that its processor time is the waiter's.
#[tokio::test]
async fn a_client_that_waits_out_the_quarantine_sleeps() {
    // Most of it is left after the pause, even on a machine that stalls in between.
    let harness = RedisHarness::new();
    let client = harness.connect(&harness.url("max-ttl=4s")).await;
    take(&client.lock(LOCK).ttl(MOST)).await.release().await.expect("held");
    harness.inject(Fault::Restart, || harness.server.restart_empty());
    let (lock, begun, was_busy) = (client.lock(LOCK).ttl(MOST).wait(LONG), now(), busy());
    let waiting = tokio::spawn(async move { lock.acquire().await });
    pause(500).await;
    let (paused, busy) = (now().since(begun), busy().saturating_sub(was_busy));
    assert!(paused < Duration::from_secs(2), "a pause of 0.5 s took {paused:?}: the client kept the thread");
    assert!(busy < Duration::from_millis(100), "it was busy for {busy:?} of {paused:?}");
    waiting.await.expect("no panic").expect("the quarantine ends").release().await.expect("held");
    harness.judge(&[client], SOON).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_without_quarantine_grants_at_once_after_data_loss_and_with_a_greater_token() {
    let harness = RedisHarness::new();
    let url = harness.url("quarantine=off");
    let clients = [harness.connect(&url).await, harness.connect(&url).await];
    // Longer than a restart and a claim take on a machine that stalls in between.
    const TTL: Duration = Duration::from_secs(6);
    let guard = take(&clients[0].lock(LOCK).ttl(TTL)).await;
    let mut store = harness.store();
    assert_eq!(store.write(guard.token().unwrap(), "before"), Written::Accepted);
    let begun = now();
    harness.inject(Fault::Restart, || harness.server.restart_empty());
    let next = take(&clients[1].lock(LOCK).ttl(TTL)).await;
    assert!(now().since(begun) < TTL, "the lock was granted before any lease could have ended");
    assert!(next.token().unwrap() > guard.token().unwrap());
    assert_eq!(store.write(next.token().unwrap(), "after"), Written::Accepted);
    assert!(matches!(store.write(guard.token().unwrap(), "stale"), Written::Refused { .. }));
    assert_eq!(wait_for_loss(&guard).await, Loss::Removed);
    assert!(next.is_certain());
    next.release().await.expect("held");
    drop(guard);
    assert_eq!(
        harness.judge(&clients, SOON).await.excused(),
        1,
        "fenced only, and only holds under the fault"
    );
}

/// The holder is cut off, so that it cannot be told anything: only the quarantine keeps others from its lock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strict_quarantine_keeps_a_new_client_from_a_lock_whose_holder_is_cut_off() {
    let (begun, harness) = (now(), RedisHarness::new());
    let options = "max-ttl=2s&quarantine=strict";
    let cut_off = harness.connect(&harness.url(options)).await;
    let guard = take(&cut_off.lock(LOCK).ttl(MOST).with(|lock| lock.stop_margin(Duration::ZERO))).await;
    let waited = now().since(begun);
    assert!(waited >= MOST, "a server granted that was not yet {waited:?} old");
    until_late_in_a_second().await;
    harness.recorder.fault_began(Fault::Restart);
    harness.proxy.black_hole(true);
    let killed = now();
    harness.server.restart_empty();
    let newcomer = harness.connect(&harness.direct_url(options)).await;
    let next = take(&newcomer.lock(LOCK).ttl(MOST)).await;
    let waited = now().since(killed);
    assert!(
        waited >= MOST,
        "granted {waited:?} after the kill: another client may have held it for {MOST:?}"
    );
    assert!(!guard.is_certain(), "two holders");
    assert!(next.token().unwrap() > guard.token().unwrap());
    next.release().await.expect("held");
    drop(guard);
    harness.proxy.black_hole(false);
    harness.recorder.fault_ended(Fault::Restart);
    assert_eq!(
        harness.judge(&[newcomer, cut_off], SOON).await.exclusive(),
        2,
        "guaranteed, so no hold is excused"
    );
}
