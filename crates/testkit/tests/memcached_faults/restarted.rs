//! The server is killed and restarts without data: holders may not know it yet.

use std::sync::Arc;
use std::time::Duration;

use latchwork::engine::{Engine, Released, Renewal};
use latchwork::{ErrorKind, Loss, Promise};
use testkit::history::Fault;

use super::harness::{
    ANSWERED, LOCK, LONG, MemcachedHarness, SOON, claim, engine, granted, now, pause, take, wait_for_loss,
};

/// The longest lease, and so the quarantine.
const MOST: Duration = Duration::from_secs(2);

/// The CAS id in the server's description of [`LOCK`].
fn cas(harness: &MemcachedHarness) -> String {
    let item = harness.server.item(LOCK).expect("the server accepts the connection");
    item.split(' ').find(|part| part.starts_with('c')).expect("a CAS id").to_owned()
}

/// CAS ids begin at 1 with every start: the next holder's value has exactly the id that the former holder
/// remembers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cas_id_from_before_a_restart_never_frees_or_changes_the_next_holders_lock() {
    let harness = MemcachedHarness::new();
    let options = "quarantine=off";
    let former = engine(&harness.url(options)).await;
    let (mine, next) = (Arc::new(claim(LOCK, LONG)), claim(LOCK, LONG));
    granted(&former, &mine).await;
    let before = cas(&harness);
    harness.server.restart();
    let newcomer = engine(&harness.direct_url(options)).await;
    granted(&newcomer, &next).await;
    assert_eq!(cas(&harness), before, "the hazard: both have the same id");
    let held = harness.server.item(LOCK);
    // The first request may still go to the connection that broke.
    let renewed = loop {
        if let Ok(renewed) = former.renew(std::slice::from_ref(&mine)).await.remove(0) {
            break renewed;
        }
    };
    assert_eq!(renewed, Renewal::Lost(Loss::Removed));
    assert_eq!(former.release(&mine).await.expect("an answer"), Released::NotHeld);
    let left = |item: Option<String>| item.map(|item| item.split_once("\r\n").expect("a value").1.to_owned());
    assert_eq!((left(harness.server.item(LOCK)), cas(&harness)), (left(held), before), "the next holder's");
    assert_eq!(newcomer.release(&next).await.expect("an answer"), Released::Freed);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_whose_server_lost_its_data_is_told_at_its_next_renewal_and_waits_out_the_quarantine() {
    // Has not ended when the holder is told and others have asked, even on a machine that stalls in between.
    const MOST: Duration = Duration::from_secs(7);
    let (harness, options) = (MemcachedHarness::new(), "max-ttl=7s");
    let clients =
        [harness.connect(&harness.url(options)).await, harness.connect(&harness.url(options)).await];
    let guard = take(&clients[0].lock(LOCK).ttl(MOST)).await;
    let killed = now();
    harness.inject(Fault::Restart, || harness.server.restart());
    assert_eq!(wait_for_loss(&guard).await, Loss::Removed);

    let lock = clients[1].lock(LOCK).ttl(MOST);
    let error = lock.clone().wait(ANSWERED).acquire().await.expect_err("not yet");
    let message = error.to_string();
    assert_eq!(error.kind(), ErrorKind::TimedOut, "{message}");
    for part in [&harness.proxy.address().to_string(), " s left", "quarantine=off"] {
        assert!(message.contains(part), "{part:?} in {message}");
    }
    assert!(lock.try_acquire().await.expect("an answer").is_none(), "it cannot be acquired yet");
    let next = lock.clone().wait(LONG).acquire().await.expect("the quarantine ends");
    let waited = now().since(killed);
    assert!(
        waited >= MOST,
        "granted {waited:?} after the kill: another client may have held it for {MOST:?}"
    );
    assert_eq!(guard.release().await.expect_err("lost").kind(), ErrorKind::Lost);
    next.release().await.expect("held");
    harness.judge(&clients, LONG).await;
}

/// The documented effect of a restart: a client that did not see it acquires the lock that another holds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_client_gets_a_lock_that_a_restart_deleted_as_guarantees_say() {
    let harness = MemcachedHarness::new();
    let client = harness.client().await;
    assert_eq!(client.client().guarantees().faults.restart, Promise::Breaks);
    let guard = take(&client.lock(LOCK).ttl(LONG)).await;
    harness.inject(Fault::Restart, || harness.server.restart());
    let newcomer = harness.direct_client().await;
    let next = take(&newcomer.lock(LOCK).ttl(LONG)).await;
    assert!(guard.is_certain() && next.is_certain(), "two holders, and no token to tell them apart");
    drop(guard);
    pause(100).await;
    assert!(next.is_certain(), "the release of the first is harmless");
    next.release().await.expect("held");
    assert_eq!(harness.judge(&[client, newcomer], SOON).await.excused(), 1, "only holds under the fault");
}

/// The holder is cut off, so that it cannot be told anything: only the quarantine keeps others from its lock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strict_quarantine_keeps_a_new_client_from_a_lock_whose_holder_is_cut_off() {
    let (begun, harness) = (now(), MemcachedHarness::new());
    let options = "max-ttl=2s&quarantine=strict";
    let cut_off = harness.connect(&harness.url(options)).await;
    assert_eq!(cut_off.client().guarantees().faults.restart, Promise::Exclusive);
    let lock = cut_off.lock(LOCK).ttl(MOST).wait(LONG).with(|lock| lock.stop_margin(Duration::ZERO));
    let guard = lock.acquire().await.expect("the quarantine ends");
    let waited = now().since(begun);
    assert!(waited >= MOST, "a server granted that was not yet {waited:?} old");
    harness.recorder.fault_began(Fault::Restart);
    harness.proxy.black_hole(true);
    let killed = now();
    harness.server.restart();
    let newcomer = harness.connect(&harness.direct_url(options)).await;
    let next = newcomer.lock(LOCK).ttl(MOST).wait(LONG).acquire().await.expect("the quarantine ends");
    let waited = now().since(killed);
    assert!(
        waited >= MOST,
        "granted {waited:?} after the kill: another client may have held it for {MOST:?}"
    );
    assert!(!guard.is_certain(), "two holders");
    next.release().await.expect("held");
    drop(guard);
    harness.proxy.black_hole(false);
    harness.recorder.fault_ended(Fault::Restart);
    assert_eq!(
        harness.judge(&[newcomer, cut_off], LONG).await.exclusive(),
        2,
        "guaranteed, so no hold is excused"
    );
}
