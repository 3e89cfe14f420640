//! Waiters and events that are not their turn.

use std::collections::BTreeSet;
use std::time::Duration;

use latchwork::{Effect, ErrorKind};
use testkit::servers::{Reply, Resp};
use testkit::worker_process::WorkerProcess;
use tokio::sync::mpsc;

use super::claims::{busy, granted, trying, waiting};
use super::harness::{HazardHarness, LOCK, LONG, SOON, pause, soon, take, take_in_background, until};

const WAITERS: usize = 20;
const SHORT: Duration = Duration::from_millis(300);
/// The queue entry of a waiter that is killed: it is seen before it ends, on a machine that stalls for half a
/// second.
const DEAD: Duration = Duration::from_millis(1_500);

/// A connection that is subscribed to these channels, or to all with this prefix.
fn listener(harness: &HazardHarness, subscribe: [&str; 2]) -> Resp {
    let mut listener =
        Resp::tcp_within(harness.server.address(), SHORT).expect("the server accepts the connection");
    assert_eq!(listener.ask(&subscribe).expect("it answers").array()[2], Reply::Integer(1));
    listener
}

#[test]
fn naive_a_broadcast_release_wakes_every_waiter() {
    let harness = HazardHarness::new();
    let mut holder = harness.naive();
    assert!(holder.set_nx_px(LOCK, "holder", 60_000));
    let mut ears: Vec<_> = (0..WAITERS).map(|_| listener(&harness, ["SUBSCRIBE", "released"])).collect();
    assert!(holder.del(LOCK));
    assert_eq!(holder.ask(&["PUBLISH", "released", LOCK]).integer(), WAITERS as i64);
    let before = harness.server.calls(&["set"]);
    let mut winners = 0;
    for (number, waiter) in ears.iter_mut().enumerate() {
        waiter.reply().expect("the waiter is woken");
        winners += usize::from(harness.naive().set_nx_px(LOCK, &number.to_string(), 60_000));
    }
    assert_eq!(winners, 1);
    assert_eq!(harness.server.calls(&["set"]) - before, WAITERS as u64, "requests for one grant");
}

#[tokio::test]
async fn a_release_wakes_one_waiter_and_they_are_granted_in_the_order_of_arrival() {
    let harness = HazardHarness::new();
    let mut monitor = listener(&harness, ["PSUBSCRIBE", "latchwork:*"]);
    let mut guard = take(&harness.client("").await, LONG).await;
    let (sender, mut turns) = mpsc::unbounded_channel();
    for number in 0..WAITERS {
        let (lock, sender) = (harness.client("").await.lock(LOCK), sender.clone());
        tokio::spawn(async move { sender.send((number, lock.acquire().await.expect("its turn"))) });
        harness.until_queued(number as i64 + 1).await;
    }
    let [told, asked] = [["publish"], ["evalsha"]].map(|command| harness.server.calls(&command));
    for expected in 0..WAITERS {
        guard.release().await.expect("held");
        let (number, next) = tokio::time::timeout(SOON, turns.recv()).await.expect("soon").expect("a turn");
        assert_eq!(number, expected);
        guard = next;
    }
    guard.release().await.expect("held");
    // Each release is a message to the next, and an empty one to itself, so that its reply is not sent first.
    let messages: Vec<_> = (0..2 * WAITERS)
        .map(|_| monitor.reply().expect("two messages per waiter"))
        .map(|message| [2, 3].map(|part: usize| message.array()[part].text()))
        .collect();
    let words = || messages.iter().filter(|[_, word]| !word.is_empty());
    let channels: BTreeSet<_> = words().map(|[channel, _]| channel).collect();
    assert_eq!([words().count(), channels.len()], [WAITERS; 2], "each client is notified once");
    assert!(monitor.reply().is_err(), "and no other client is notified");
    assert_eq!(harness.server.calls(&["publish"]) - told, 2 * WAITERS as u64);
    // A thundering herd would send 210 requests. Beside the releases there are heartbeats of the waiters, and
    // renewals.
    let asked = harness.server.calls(&["evalsha"]) - asked;
    assert!(asked >= WAITERS as u64 && asked < 4 * WAITERS as u64, "{asked} requests");
}

/// Each waiter watches the one ahead of it, and believes that it is its turn when that one is gone.
#[tokio::test]
async fn naive_a_waiter_takes_the_death_of_another_waiter_for_its_turn() {
    let harness = HazardHarness::new();
    let [mut holder, mut first, mut second] = [harness.naive(), harness.naive(), harness.naive()];
    assert!(holder.set_nx_px(LOCK, "holder", 60_000));
    assert!(first.set_nx_px("place-1", "alive", 100));
    drop(first); // Its queue entry is not refreshed from here on.
    until("the one ahead is gone", || second.get("place-1").is_none()).await;
    assert_eq!(harness.value(LOCK).as_deref(), Some("holder"), "and it works beside the holder");
}

/// A waiter in a process of its own, in the queue as long after its death as `ttl` says (3 s at the most).
async fn killed_waiter(harness: &HazardHarness, ttl: Duration) {
    let queued = harness.queued();
    let mut waiter = WorkerProcess::start(&["hold", &harness.url(""), LOCK, &ttl.as_millis().to_string()]);
    assert_eq!(waiter.line().await, "started");
    harness.until_queued(queued + 1).await;
    waiter.kill().await;
}

#[tokio::test]
async fn a_waiter_keeps_waiting_when_the_one_ahead_of_it_dies() {
    let harness = HazardHarness::new();
    let holder = take(&harness.client("").await, LONG).await;
    let value = harness.value(LOCK);
    killed_waiter(&harness, DEAD).await;
    let second = take_in_background(&harness.client("").await, LONG);
    harness.until_queued(2).await;
    pause(2 * DEAD.as_millis() as u64).await;
    assert!(!second.is_finished() && harness.value(LOCK) == value && holder.is_certain());
    holder.release().await.expect("held");
    soon(second).await.release().await.expect("held");
}

/// By the release itself, before any waiter could poll or the dead waiter's queue entry has expired.
#[tokio::test]
async fn a_release_skips_dead_waiters() {
    let harness = HazardHarness::new();
    let holder = take(&harness.client("").await, LONG).await;
    killed_waiter(&harness, LONG).await;
    killed_waiter(&harness, LONG).await;
    let second = take_in_background(&harness.client("").await, LONG);
    harness.until_queued(3).await;
    let before = harness.value(LOCK);
    // The waiter and this task share a thread: no other request is sent before the answer is checked.
    holder.release().await.expect("held");
    let handed_over = harness.value(LOCK);
    assert!(handed_over.is_some() && handed_over != before, "the release gave it to the one that lives");
    let guard = soon(second).await;
    assert_eq!(harness.value(LOCK), handed_over);
    guard.release().await.expect("held");
    assert_eq!(harness.value(LOCK), None);
}

/// A holder that died, and behind it waiters that died: no client is left to pass the lock on.
async fn dead_queue(harness: &HazardHarness) {
    granted(&harness.engine("").await, &trying(LONG)).await;
    killed_waiter(harness, LONG).await;
    killed_waiter(harness, LONG).await;
    // Not before the waiters are in the queue, however long their processes take to start.
    harness.server.command(&["PEXPIRE", LOCK, "1"]);
    until("the lease of the holder ends", || harness.value(LOCK).is_none()).await;
}

#[tokio::test]
async fn a_lock_with_only_dead_waiters_is_granted_to_a_try() {
    let harness = HazardHarness::new();
    let client = harness.client("").await;
    dead_queue(&harness).await;
    let guard = client.lock(LOCK).ttl(LONG).try_acquire().await.expect("it answers").expect("it is free");
    assert!(harness.pttl(LOCK) > SHORT.as_millis() as i64, "for a whole lease");
    guard.release().await.expect("held");
    assert_eq!(harness.value(LOCK), None);
}

#[tokio::test]
async fn a_lock_with_only_dead_waiters_is_granted_to_a_new_waiter() {
    let harness = HazardHarness::new();
    let client = harness.client("").await;
    dead_queue(&harness).await;
    let asked = harness.server.calls(&["evalsha"]);
    let guard = soon(take_in_background(&client, LONG)).await;
    assert_eq!(harness.server.calls(&["evalsha"]) - asked, 1, "by its first request");
    assert!(harness.pttl(LOCK) > 10_000, "for a whole lease");
    guard.release().await.expect("held");
}

/// More dead waiters than one request checks: the lock must not go to a new claim, past a live waiter behind
/// them.
#[tokio::test]
async fn hundreds_of_dead_waiters_are_skipped_in_a_few_steps() {
    let harness = HazardHarness::new();
    let (dying, alive) = (harness.engine("").await, harness.engine("").await);
    let holder = trying(LONG);
    granted(&dying, &holder).await;
    for _ in 0..600 {
        busy(&dying, &waiting(LONG)).await;
    }
    let last = waiting(LONG);
    busy(&alive, &last).await;
    assert_eq!(harness.queued(), 601);
    drop(dying);
    let listeners = || harness.server.command(&["PUBSUB", "CHANNELS", "latchwork:*"]).array().len();
    until("the server has noticed", || listeners() == 1).await;
    assert!(harness.naive().del(LOCK), "its lease ends");
    let trying = trying(LONG);
    for _ in 0..4 {
        busy(&alive, &trying).await;
        let value = harness.value(LOCK);
        assert!(value.is_none() || value == Some(last.id.to_string()), "{value:?}");
    }
    assert_eq!(harness.value(LOCK), Some(last.id.to_string()));
}

#[test]
fn naive_a_wait_that_timed_out_is_taken_for_the_lock() {
    let harness = HazardHarness::new();
    let [mut holder, mut waiter] = [harness.naive(), harness.naive()];
    assert!(holder.set_nx_px(LOCK, "holder", 60_000));
    // A client that ignores the answer would work from here on.
    assert_eq!(waiter.ask(&["BLPOP", "released", "0.1"]), Reply::Nil);
    assert_eq!(harness.value(LOCK).as_deref(), Some("holder"), "beside the holder");
}

#[tokio::test]
async fn a_wait_that_timed_out_is_an_error_and_leaves_nothing() {
    let harness = HazardHarness::new();
    let [holder, waiter] = [harness.client("").await, harness.client("").await];
    let guard = take(&holder, LONG).await;
    let error = waiter.lock(LOCK).wait(SHORT).acquire().await.expect_err("held");
    assert_eq!((error.kind(), error.effect()), (ErrorKind::TimedOut, Effect::None), "{error}");
    assert_eq!(harness.queued(), 0);
    guard.release().await.expect("held");
    assert_eq!(harness.value(LOCK), None, "it was not handed to the client that gave up");
}

/// The release comes when the waiter gives up, a little sooner or later each time: the lock is held by the
/// waiter or free.
#[tokio::test]
async fn a_grant_at_the_end_of_the_wait_is_held_or_released() {
    const WAIT: Duration = Duration::from_millis(60);
    const STEP: Duration = Duration::from_micros(400);
    let harness = HazardHarness::new();
    let [holder, waiter] = [harness.client("").await, harness.client("").await];
    let (mut release_after, mut outcomes) = (WAIT, [0, 0]);
    for _ in 0..30 {
        let guard = take(&holder, LONG).await;
        let lock = waiter.lock(LOCK).wait(WAIT);
        let waiting = tokio::spawn(async move { lock.acquire().await });
        // On a machine that stalled, the wait can be over before this check.
        until("it waits, or did", || harness.queued() == 1 || waiting.is_finished()).await;
        tokio::time::sleep(release_after).await;
        guard.release().await.expect("held");
        match waiting.await.expect("no panic") {
            Ok(guard) => {
                assert!(guard.is_certain() && harness.value(LOCK).is_some());
                guard.release().await.expect("held");
                (outcomes[0], release_after) = (outcomes[0] + 1, release_after + STEP);
            }
            Err(error) => {
                assert_eq!((error.kind(), error.effect()), (ErrorKind::TimedOut, Effect::None), "{error}");
                (outcomes[1], release_after) = (outcomes[1] + 1, release_after.saturating_sub(STEP));
            }
        }
        assert_eq!((harness.value(LOCK), harness.queued()), (None, 0));
    }
    assert!(!outcomes.contains(&0), "both happened: {outcomes:?}");
}
