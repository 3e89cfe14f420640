//! Faults under readers, writers and permits of one lock.

use std::time::Duration;

use latchwork::engine::Mode;
use latchwork::{Effect, ErrorKind, Loss};
use testkit::history::{Fault, RecordedClient};
use testkit::workload::contenders::{Contenders, TTL};

use super::harness::{
    ANSWERED, LOCK, LONG, RedisHarness, SOON, pause, take, wait_for_loss, wait_for_renewal,
};
use super::killed::durable;
use super::replies::cut_again_and_again;

const TURN: Duration = Duration::from_millis(3);
/// Every mode, with more shared than exclusive ones.
const MODES: [Mode; 7] = [
    Mode::Read,
    Mode::Permit { of: 2 },
    Mode::Write,
    Mode::Read,
    Mode::Permit { of: 2 },
    Mode::Exclusive,
    Mode::Permit { of: 2 },
];

/// One client for each of [`MODES`], all at one lock.
async fn gather(harness: &RedisHarness) -> (Vec<RecordedClient>, Contenders) {
    let clients = harness.clients(MODES.len()).await;
    let contenders = Contenders::start_mixed(harness, &clients.iter().zip(MODES).collect::<Vec<_>>(), TURN);
    (clients, contenders)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sharers_lose_no_lock_while_connections_are_cut_and_replies_are_lost() {
    let harness = RedisHarness::new();
    let (clients, contenders) = gather(&harness).await;
    cut_again_and_again(&harness, &clients, contenders, 9, 20).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sharers_continue_after_the_kill_of_a_persistent_server() {
    let harness = RedisHarness::with(durable());
    let reads = harness.client().await;
    let other = reads.shared_lock("held throughout", Mode::Read).ttl(TTL);
    let guard = take(&other).await;
    let (mut clients, contenders) = gather(&harness).await;
    for _ in 0..2 {
        contenders.wait_for_holds(20).await;
        harness.inject(Fault::Trouble, || harness.server.restart());
    }
    contenders.wait_for_holds(20).await;
    let tally = contenders.stop().await;
    assert!(tally.is_undisturbed() && tally.only_unreachable(), "{tally:?}");
    wait_for_renewal(&guard).await;
    guard.release().await.expect("held");
    clients.push(reads);
    let judged = harness.judge(&clients, SOON).await;
    assert!(judged.exclusive() > 60 && judged.excused() == 0, "no hold is excused");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sharers_never_hold_beside_a_writer_after_a_server_stall_longer_than_their_leases() {
    let harness = RedisHarness::new();
    let (clients, contenders) = gather(&harness).await;
    contenders.wait_for_holds(20).await;
    for millis in [500, TTL.as_millis() as u64 + 300] {
        harness.recorder.fault_began(Fault::Trouble);
        harness.server.pause();
        pause(millis).await;
        harness.server.resume();
        harness.recorder.fault_ended(Fault::Trouble);
        contenders.wait_for_holds(30).await;
    }
    let tally = contenders.stop().await;
    assert_eq!(tally.refused, 0, "a certain holder was refused: {tally:?}");
    assert!(tally.errors.iter().all(|error| error.kind() == ErrorKind::Lost), "{tally:?}");
    let judged = harness.judge(&clients, SOON).await;
    assert!(judged.exclusive() > 60 && judged.excused() == 0, "no hold is excused");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sharers_do_not_notice_a_script_flush_and_survive_a_key_flush() {
    let harness = RedisHarness::new();
    let (clients, contenders) = gather(&harness).await;
    for _ in 0..20 {
        contenders.wait_for_holds(4).await;
        assert!(harness.server.command(&["SCRIPT", "FLUSH"]).is("OK"));
    }
    for _ in 0..2 {
        contenders.wait_for_holds(20).await;
        harness.inject(Fault::DataDeleted, || harness.server.command(&["FLUSHALL"]));
    }
    contenders.wait_for_holds(40).await;
    let tally = contenders.stop().await;
    assert!(tally.errors.iter().all(|error| error.kind() == ErrorKind::Lost), "{tally:?}");
    assert!(harness.judge(&clients, SOON).await.exclusive() >= 140, "hardly any hold is excused");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_whose_keys_were_flushed_are_told_at_their_next_renewal_and_do_later_holders_no_harm() {
    let harness = RedisHarness::new();
    let clients = harness.clients(4).await;
    let modes = [Mode::Read, Mode::Read, Mode::Write, Mode::Read];
    let locks: Vec<_> =
        clients.iter().zip(modes).map(|(client, mode)| client.shared_lock(LOCK, mode).ttl(TTL)).collect();
    let (one, other) = (take(&locks[0]).await, take(&locks[1]).await);
    assert!(locks[2].try_acquire().await.expect("an answer").is_none());
    harness.inject(Fault::DataDeleted, || assert!(harness.server.command(&["FLUSHALL"]).is("OK")));
    let writes = take(&locks[2]).await;
    assert!(writes.token().unwrap() > other.token().unwrap().max(one.token().unwrap()));
    assert_eq!(wait_for_loss(&one).await, Loss::Removed);
    writes.release().await.expect("held");
    // Members from before are in no new list, whether they know it by now or not.
    let late = take(&locks[3]).await;
    assert_eq!(wait_for_loss(&other).await, Loss::Removed);
    for lost in [one, other] {
        assert_eq!(lost.release().await.expect_err("lost").kind(), ErrorKind::Lost);
    }
    assert!(late.is_certain() && harness.free_in() > 0);
    assert!(locks[2].try_acquire().await.expect("an answer").is_none(), "a late release opened the lock");
    late.release().await.expect("held");
    harness.judge(&clients, SOON).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_wait_out_the_quarantine_of_a_server_that_lost_its_data() {
    let harness = RedisHarness::new();
    let url = harness.url("max-ttl=15s");
    let clients = [harness.connect(&url).await, harness.connect(&url).await];
    let lock = |client: &RecordedClient| client.shared_lock(LOCK, Mode::Read).ttl(TTL);
    let guard = take(&lock(&clients[0])).await;
    harness.inject(Fault::Restart, || harness.server.restart_empty());
    assert_eq!(wait_for_loss(&guard).await, Loss::Removed);
    for mode in [Mode::Read, Mode::Write, Mode::Permit { of: 2 }] {
        let lock = clients[1].shared_lock(LOCK, mode).ttl(TTL).wait(ANSWERED);
        let error = lock.acquire().await.expect_err("not yet");
        assert!(error.to_string().contains("quarantine=off"), "{error}");
    }
    drop(guard);
    harness.judge(&clients, SOON).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_and_permits_are_renewed_admitted_and_released_without_memory_and_new_claims_fail() {
    let harness = RedisHarness::new();
    let clients = harness.clients(4).await;
    let read = |client: usize| clients[client].shared_lock(LOCK, Mode::Read).ttl(TTL).wait(LONG);
    let permit = |client: usize| clients[client].shared_lock("p", Mode::Permit { of: 1 }).ttl(TTL).wait(LONG);
    let (reads, has_permit) = (take(&read(0)).await, take(&permit(0)).await);
    let writer = clients[1].shared_lock(LOCK, Mode::Write).ttl(TTL).wait(LONG);
    let writer = tokio::spawn(async move { writer.acquire().await.expect("its turn comes") });
    harness.wait_for_waiters(&clients[0], 1).await;
    let mut readers = Vec::new();
    for client in [2, 3] {
        let lock = read(client);
        readers.push(tokio::spawn(async move { lock.acquire().await.expect("its turn comes") }));
        harness.wait_for_waiters(&clients[0], client).await;
    }
    let next = permit(1);
    let next = tokio::spawn(async move { next.acquire().await.expect("its turn comes") });
    harness.recorder.fault_began(Fault::Trouble);
    pause(100).await;
    assert!(harness.server.command(&["CONFIG", "SET", "maxmemory", "1"]).is("OK"));
    for mode in [Mode::Read, Mode::Permit { of: 3 }] {
        let error = clients[3].shared_lock("new", mode).try_acquire().await.expect_err("no room");
        assert_eq!((error.kind(), error.effect()), (ErrorKind::Unreachable, Effect::None), "{error}");
        assert!(error.to_string().contains("maxmemory"), "{error}");
    }
    // For longer than a queue entry lasts by itself.
    pause(2_500).await;
    for guard in [reads, has_permit] {
        wait_for_renewal(&guard).await;
        guard.release().await.expect("held");
    }
    let soon = |task| tokio::time::timeout(SOON, task);
    soon(writer).await.expect("handed over").expect("no panic").release().await.expect("held");
    soon(next).await.expect("handed over").expect("no panic").release().await.expect("held");
    for reader in readers {
        let guard = soon(reader).await.expect("let in").expect("no panic");
        wait_for_renewal(&guard).await;
        guard.release().await.expect("held");
    }
    assert!(harness.server.command(&["CONFIG", "SET", "maxmemory", "0"]).is("OK"));
    harness.recorder.fault_ended(Fault::Trouble);
    harness.judge(&clients, SOON).await;
}

/// A reader that missed the message holds without knowing it: its next heartbeat tells it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_that_missed_the_message_finds_its_own_grant() {
    let harness = RedisHarness::new();
    let (client, other) = (harness.client().await, harness.direct_client().await);
    let guard = take(&other.shared_lock(LOCK, Mode::Write).ttl(LONG)).await;
    let lock = client.shared_lock(LOCK, Mode::Read).ttl(LONG);
    let waiting = tokio::spawn(async move { take(&lock).await });
    harness.wait_for_waiters(&other, 1).await;
    harness.recorder.fault_began(Fault::Partition);
    harness.proxy.lose_next_reply();
    guard.release().await.expect("held");
    harness.wait_for_a_lost_reply().await;
    let let_in = harness.newest_token();
    let guard = waiting.await.expect("no panic");
    harness.recorder.fault_ended(Fault::Partition);
    // If it had not found out, it would have got the lock after the lease of that grant, with a greater
    // token.
    assert_eq!(guard.token().unwrap().engine_token(), let_in);
    guard.release().await.expect("held");
    harness.judge(&[client, other], SOON).await;
}
