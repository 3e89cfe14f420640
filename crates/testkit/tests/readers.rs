//! How readers of one client share its claims, to the millisecond, under paused time.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use latchwork::clock::Clock;
use latchwork::engine::Filter;
use latchwork::engines::Memory;
use latchwork::{Client, LockName};
use testkit::drop_at_poll;
use testkit::recording_engine::{self, EngineEvent, RecordingEngine};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

const PASS_FOR: Duration = Duration::from_millis(5);
const LONG: Duration = Duration::from_secs(10);

fn recorded() -> (Client, Memory, Arc<Mutex<Vec<EngineEvent>>>) {
    let memory = Memory::new();
    let recorder = RecordingEngine::new(memory.clone());
    let events = recorder.events();
    (Client::new(recorder), memory, events)
}

fn claims(events: &Mutex<Vec<EngineEvent>>) -> (usize, usize) {
    recording_engine::claims(&events.lock().unwrap())
}

async fn in_all(client: &Client) -> usize {
    let found = client.inspect(&Filter::Prefix(String::new())).await.unwrap();
    found.iter().map(|lock| lock.holders.len() + lock.waiters.len()).sum()
}

#[tokio::test(start_paused = true)]
async fn a_thousand_readers_need_one_claim_at_a_time() {
    let (client, _, events) = recorded();
    let (clock, mut tasks) = (Clock::tokio(), JoinSet::new());
    let end = clock.now().after(Duration::from_millis(100));
    for number in 0..1_000 {
        let lock = client.rw_lock("a").read();
        tasks.spawn(async move {
            while clock.now() < end {
                let guard = lock.acquire().await.unwrap();
                sleep(Duration::from_millis(1 + number % 3)).await;
                guard.release().await.unwrap();
            }
        });
    }
    tasks.join_all().await;
    let (most, all) = claims(&events);
    assert_eq!(most, 1, "at a time");
    assert!((10..=20).contains(&all), "{all} claims in 100 ms, each for 5 ms to 8 ms");
    assert_eq!(in_all(&client).await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_long_reader_delays_others_no_longer_than_the_join_time() {
    let (client, _, events) = recorded();
    let (read, clock) = (client.rw_lock("a").read(), Clock::tokio());
    let long = read.acquire().await.unwrap();
    sleep(PASS_FOR * 3).await;
    let asked = clock.now();
    let beside = read.acquire().await.unwrap();
    let waited = clock.now().since(asked);
    assert!(waited <= PASS_FOR + Duration::from_millis(1), "waited {waited:?}");
    assert!(long.is_certain() && long.token().unwrap() < beside.token().unwrap());
    assert_eq!(claims(&events), (2, 2));
    let joined = read.acquire().await.unwrap();
    assert_eq!(joined.token().unwrap(), beside.token().unwrap(), "the newest claim can be joined");
    drop((long, beside, joined));
    client.close().await.unwrap();
    assert_eq!(in_all(&client).await, 0);
}

#[tokio::test(start_paused = true)]
async fn the_last_reader_releases_the_claim_and_a_view_reports_its_own_guard() {
    let (client, memory, _) = recorded();
    let rival = Client::new(memory);
    let read = client.rw_lock("a").read();
    let (one, other) = (read.acquire().await.unwrap(), read.acquire().await.unwrap());
    let view = one.held();
    one.release().await.unwrap();
    assert!(!view.is_certain() && other.is_certain());
    let write = rival.rw_lock("a").write();
    assert!(write.try_acquire().await.unwrap().is_none());
    other.release().await.unwrap();
    assert!(write.try_acquire().await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn readers_that_cannot_share_a_claim_still_read_together() {
    let (client, _, events) = recorded();
    let read = client.rw_lock("a").read();
    let guards = [
        read.clone().local_handoff(false).acquire().await.unwrap(),
        read.clone().local_handoff(false).acquire().await.unwrap(),
        read.clone().ttl(LONG).acquire().await.unwrap(),
        read.clone().max_hold(LONG).acquire().await.unwrap(),
        read.clone().max_hold(LONG).acquire().await.unwrap(),
    ];
    assert!(guards.iter().all(|guard| guard.is_certain()));
    assert_eq!(claims(&events), (5, 5));
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_leaves_while_it_waits_for_others_leaves_its_place_to_the_next() {
    let (client, _, _) = recorded();
    let read = client.rw_lock("a").read();
    let long = read.acquire().await.unwrap();
    for polls in 1..4 {
        sleep(PASS_FOR * 3).await;
        let mut leaves = Box::pin(read.acquire());
        let _ = timeout(PASS_FOR / 2, drop_at_poll::after_polls(&mut leaves, polls)).await;
        let next = tokio::spawn({
            let read = read.clone();
            async move { read.acquire().await.unwrap() }
        });
        tokio::task::yield_now().await;
        drop(leaves);
        let next = timeout(PASS_FOR * 3, next).await.expect("not behind the long one").unwrap();
        assert!(next.is_certain() && long.is_certain());
    }
    drop(long);
    client.close().await.unwrap();
    assert_eq!(in_all(&client).await, 0);
}

#[tokio::test(start_paused = true)]
async fn no_reader_joins_a_claim_that_is_lost() {
    let (client, memory, _) = recorded();
    let read = client.rw_lock("a").read().ttl(LONG).pass_for(LONG * 10);
    let lost = read.acquire().await.unwrap();
    memory.lose(&LockName::new("a").unwrap());
    lost.lost().await;
    let fresh = timeout(LONG, read.acquire()).await.expect("not behind the lost one").unwrap();
    assert!(fresh.is_certain() && !lost.is_certain());
    assert!(fresh.token().unwrap() > lost.token().unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_writer_of_this_client_is_queued_while_its_readers_hold() {
    let (client, memory, _) = recorded();
    let rival = Client::new(memory);
    let reads = client.rw_lock("a").read().acquire().await.unwrap();
    let mut writes = tokio::spawn({
        let write = client.rw_lock("a").write();
        async move { write.acquire().await.unwrap() }
    });
    tokio::task::yield_now().await;
    assert!(rival.rw_lock("a").read().try_acquire().await.unwrap().is_none(), "past the writer");
    assert!(timeout(LONG, &mut writes).await.is_err());
    reads.release().await.unwrap();
    timeout(LONG, writes).await.expect("its turn").unwrap().release().await.unwrap();
    assert_eq!(in_all(&rival).await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_try_to_read_beside_waiting_or_holding_readers_succeeds() {
    let (client, memory, _) = recorded();
    memory.delay(latchwork::engines::memory::Verb::Claim, Duration::from_millis(3));
    let read = client.rw_lock("a").read();
    let tries = (0..10).map(|_| {
        let read = read.clone();
        tokio::spawn(async move { read.try_acquire().await.unwrap() })
    });
    let mut guards = Vec::new();
    for tried in tries.collect::<Vec<_>>() {
        guards.push(tried.await.unwrap().expect("no writer holds the lock"));
    }
    assert!(client.rw_lock("a").write().try_acquire().await.unwrap().is_none());
    drop(guards);
    client.close().await.unwrap();
    assert_eq!(in_all(&client).await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_task_that_gives_up_delays_no_task_that_the_others_admit() {
    let (client, _, _) = recorded();
    let permit = client.semaphore("a", 2);
    let held = permit.acquire().await.unwrap();
    let gives_up = tokio::spawn({
        let alone = client.lock("a").wait(LONG);
        async move { alone.acquire().await.map(drop) }
    });
    tokio::task::yield_now().await;
    let behind = tokio::spawn({
        let permit = permit.clone();
        async move { permit.acquire().await.unwrap() }
    });
    gives_up.await.unwrap().expect_err("the permit is held");
    let behind = timeout(LONG, behind).await.expect("there are two permits").unwrap();
    assert!(held.is_certain() && behind.is_certain());
}
