//! Other programs' clients on the same key.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use latchwork::engine::{Engine, Filter, Released, Wake};
use latchwork::{Client, ErrorKind, LockName};
use testkit::harness::now;
use testkit::servers::{RedisOptions, RedisServer, Reply};

use super::claims::{busy, granted, trying, waiting};
use super::getset_scheme::getset;
use super::harness::{
    HazardHarness, LOCK, LONG, SHARED, SOON, pause, soon, take, take_in_background, until, with_both,
};

/// The limit for the answer to a claim, even on a machine that stalls for half a second.
const PATIENCE: Duration = Duration::from_secs(2);

/// The client finds the lock busy, whether it only tries or waits for it.
async fn is_kept_out(client: &Client) {
    let lock = client.lock(LOCK);
    assert!(lock.try_acquire().await.expect("it answers").is_none());
    let error = lock.wait(PATIENCE).acquire().await.expect_err("the lock is another client's");
    assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
    assert!(error.to_string().contains("not latchwork"), "{error}");
}

#[tokio::test]
async fn a_lock_of_another_program_excludes_ours_and_stays_unchanged() {
    with_both(async |options| {
        let harness = HazardHarness::new();
        let (client, mut foreign) = (harness.client(options).await, harness.naive());
        // One has the form of our own ids, and one is empty.
        for value in ["foreign", "0123456789abcdef0123456789abcdef", "!", "?", ""] {
            assert!(foreign.set_nx_px(LOCK, value, 60_000));
            let left = harness.pttl(LOCK);
            is_kept_out(&client).await;
            let filter = Filter::Name(LockName::new(LOCK).expect("a good name"));
            let seen = client.inspect(&filter).await.expect("it answers");
            assert!(seen[0].holders[0].note.as_str().starts_with("a client that is not latchwork"));
            assert_eq!(harness.value(LOCK).as_deref(), Some(value));
            assert!((1..left).contains(&harness.pttl(LOCK)), "its lease is unchanged");
            assert!(foreign.del(LOCK));
            take(&client, LONG).await.release().await.expect("held");
        }
    })
    .await;
}

#[tokio::test]
async fn a_lock_that_another_program_left_behind_is_granted_after_its_lease() {
    let harness = HazardHarness::new();
    assert!(harness.naive().set_nx_px(LOCK, "foreign", 300));
    let guard = soon(take_in_background(&harness.client("").await, LONG)).await;
    assert!(guard.is_certain() && harness.value(LOCK).is_some_and(|value| value != "foreign"));
}

#[tokio::test]
async fn a_lock_without_an_expiry_excludes_ours_until_it_is_deleted() {
    let harness = HazardHarness::new();
    let (client, mut foreign) = (harness.client("").await, harness.naive());
    assert!(foreign.setnx(LOCK, "foreign"));
    is_kept_out(&client).await;
    assert_eq!(harness.value(LOCK).as_deref(), Some("foreign"));
    assert_eq!(harness.pttl(LOCK), -1, "our client does not delete it");
    let waiting = take_in_background(&client, LONG);
    harness.until_queued(1).await;
    assert!(foreign.del(LOCK));
    assert!(soon(waiting).await.is_certain());
}

#[tokio::test]
async fn a_key_of_another_type_is_busy_and_never_overwritten() {
    with_both(async |options| {
        let harness = HazardHarness::new();
        let (client, mut foreign) = (harness.client(options).await, harness.naive());
        for (make, read) in [
            (["RPUSH", LOCK, "element"].as_slice(), ["LRANGE", LOCK, "0", "-1"].as_slice()),
            (&["HSET", LOCK, "field", "value"], &["HGETALL", LOCK]),
            (&["SADD", LOCK, "member"], &["SMEMBERS", LOCK]),
            (&["ZADD", LOCK, "1", "member"], &["ZRANGE", LOCK, "0", "-1"]),
            (&["XADD", LOCK, "1-1", "field", "value"], &["XRANGE", LOCK, "-", "+"]),
        ] {
            let made = foreign.ask(make);
            assert!(!matches!(made, Reply::Error(_)), "{made:?}");
            let content = foreign.ask(read);
            is_kept_out(&client).await;
            assert_eq!((foreign.ask(read), harness.pttl(LOCK)), (content, -1));
            assert!(foreign.del(LOCK));
            take(&client, LONG).await.release().await.expect("held");
        }
    })
    .await;
}

/// The value replaced our lock while we held it: our release must not touch it.
#[tokio::test]
async fn a_key_of_another_type_under_a_holder_is_a_loss_and_stays() {
    let harness = HazardHarness::new();
    let (client, mut foreign) = (harness.client("").await, harness.naive());
    // A stall of half a second does not end the lease: an expired lease is another loss.
    const TTL: Duration = Duration::from_secs(2);
    let guard = take(&client, TTL).await;
    assert!(foreign.del(LOCK));
    assert_eq!(foreign.ask(&["RPUSH", LOCK, "element"]).integer(), 1);
    let loss = tokio::time::timeout(TTL, guard.lost()).await.expect("at the next renewal");
    assert_eq!(loss, latchwork::Loss::Removed);
    assert_eq!(guard.release().await.expect_err("lost").kind(), ErrorKind::Lost);
    assert_eq!(foreign.ask(&["LLEN", LOCK]).integer(), 1);
}

/// Another client's release is not announced, so somebody has to poll: only the first in the queue, and
/// rarely.
#[tokio::test]
async fn only_the_first_waiter_polls_for_the_release_of_another_program() {
    let harness = HazardHarness::new();
    let mut foreign = harness.naive();
    assert!(foreign.set_nx_px(LOCK, "foreign", 60_000));
    let asked = || harness.server.calls(&["evalsha"]);
    let mut waiting = Vec::new();
    for number in 1..=5 {
        waiting.push(take_in_background(&harness.client("").await, LONG));
        harness.until_queued(number).await;
        if number == 1 {
            // Heartbeats alone, one a second, would take twice as long.
            let (before, begun) = (asked(), now());
            until("it looks", || asked() - before >= 8).await;
            assert!(now().since(begun) < Duration::from_secs(4), "only its heartbeats arrived");
        }
    }
    let (before, begun) = (asked(), now());
    pause(1_500).await;
    let asked = asked() - before;
    // The first polls every 250 ms, each of the others once a second, in the time that has really passed.
    let seconds = now().since(begun).as_secs_f64();
    let most = (2.0 + 4.0 * seconds) + 4.0 * (1.0 + seconds);
    assert!(asked as f64 <= most, "{asked} requests in {seconds} s");
    assert!(foreign.del(LOCK));
    for waiter in waiting {
        soon(waiter).await.release().await.expect("held");
    }
}

/// The server notifies the first in the queue.
#[tokio::test]
async fn the_first_waiter_is_notified_when_another_program_releases() {
    let harness = HazardHarness::new();
    let (waiter, claim, mut foreign) = (harness.engine("").await, waiting(LONG), harness.naive());
    assert!(foreign.set_nx_px(LOCK, "foreign", 60_000));
    let state = busy(&waiter, &claim).await;
    assert!(tokio::time::timeout(PATIENCE, waiter.wait(&claim, &state)).await.is_err(), "nothing happens");
    assert!(foreign.del(LOCK));
    let wake = tokio::time::timeout(SOON, waiter.wait(&claim, &state)).await.expect("it is told");
    assert_eq!(wake.expect("the waiter is subscribed"), Wake::Recheck);
    granted(&waiter, &claim).await;
}

#[tokio::test]
async fn a_user_without_the_right_to_subscribe_polls() {
    let acl = vec!["app on >app ~* &* +@all -client|tracking".to_owned()];
    let harness =
        HazardHarness { server: RedisServer::start(RedisOptions { acl, ..RedisOptions::default() }) };
    let url = format!("redis://app:app@127.0.0.1:{}", harness.server.port());
    let mut foreign = harness.naive();
    assert!(foreign.set_nx_px(LOCK, "foreign", 60_000));
    let waiting =
        take_in_background(&latchwork::connect(&url).await.expect("the server accepts the connection"), LONG);
    harness.until_queued(1).await;
    assert!(foreign.del(LOCK));
    assert!(soon(waiting).await.is_certain());
    let refused = harness.server.command(&["ACL", "LOG"]);
    let is_tracking = |entry: &Reply| entry.array().contains(&Reply::Bulk(b"client|tracking".into()));
    assert!(refused.array().iter().any(is_tracking), "it was refused: {refused:?}");
}

/// A client that claims the lock all the time and keeps none: the number of claims, and of grants.
struct GreedyClient {
    stop: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<[u64; 2]>,
}

impl GreedyClient {
    fn start(harness: &HazardHarness) -> Self {
        let (mut connection, stop) = (harness.naive(), Arc::<AtomicBool>::default());
        let thread = std::thread::spawn({
            let stop = stop.clone();
            move || {
                let mut figures = [0, 0];
                while !stop.load(Ordering::Relaxed) {
                    figures[0] += 1;
                    if connection.set_nx_px(LOCK, "greedy", 60_000) {
                        figures[1] += 1;
                        assert!(connection.del(LOCK));
                    }
                }
                figures
            }
        });
        Self { stop, thread }
    }

    fn stop(self) -> [u64; 2] {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("the other program deletes only its own value")
    }
}

/// Hands the lock over from one client to the other, repeatedly.
async fn handed_over(harness: &HazardHarness, clients: [&Client; 2], times: usize) -> [u64; 2] {
    let mut guard = take(clients[1], LONG).await;
    let greedy = GreedyClient::start(harness);
    for number in 0..times {
        let next = take_in_background(clients[number % 2], LONG);
        harness.until_queued(1).await;
        guard.release().await.expect("held");
        guard = soon(next).await;
    }
    let figures = greedy.stop();
    assert!(guard.is_certain());
    guard.release().await.expect("held");
    figures
}

#[tokio::test]
async fn another_program_cannot_slip_in_during_our_hold_or_handover() {
    let harness = HazardHarness::new();
    let [one, other] = [harness.client("scheme=set").await, harness.client("scheme=setnx").await];
    let [asked, got] = handed_over(&harness, [&one, &other], 100).await;
    assert!(asked > 1_000 && got == 0, "{got} of {asked}");
}

/// For services that migrate from another client to ours: otherwise the other client would never get a turn.
#[tokio::test]
async fn another_program_can_slip_in_during_the_gap() {
    let harness = HazardHarness::new();
    let [one, other] = [harness.client("handover=wake").await, harness.client("handover=wake").await];
    let [asked, got] = handed_over(&harness, [&one, &other], 3).await;
    assert!(got > 0, "{got} of {asked}");
}

#[tokio::test]
async fn both_schemes_exclude_each_other_and_hand_over_to_each_other() {
    let harness = HazardHarness::new();
    let [set, setnx] = [harness.client("scheme=set").await, harness.client("scheme=setnx").await];
    let mut guard = take(&set, LONG).await;
    for turn in 0..20 {
        let [other, holder] = if turn % 2 == 0 { [&setnx, &set] } else { [&set, &setnx] };
        assert!(other.lock(LOCK).try_acquire().await.expect("it answers").is_none());
        let next = take_in_background(other, LONG);
        harness.until_queued(1).await;
        let value = harness.value(LOCK);
        let token = guard.token().expect("tokens");
        guard.release().await.expect("held");
        guard = soon(next).await;
        assert!(guard.token().expect("tokens") > token);
        assert!(harness.value(LOCK) != value && harness.pttl(LOCK) > 0);
        assert!(holder.lock(LOCK).try_acquire().await.expect("it answers").is_none());
    }
    guard.release().await.expect("held");
    assert_eq!(harness.value(LOCK), None);
}

#[tokio::test]
async fn our_value_is_not_a_time_and_excludes_clients_of_the_getset_recipe() {
    let harness = HazardHarness::new();
    for options in SHARED {
        let (holder, stranger) = (harness.engine(options).await, getset(&harness).await);
        let (claim, other) = (trying(LONG), trying(LONG));
        granted(&holder, &claim).await;
        busy(&stranger, &other).await;
        assert_eq!(stranger.release(&other).await.expect("it answers"), Released::NotHeld);
        assert_eq!(harness.value(LOCK), Some(claim.id.to_string()));
        assert_eq!(holder.release(&claim).await.expect("it answers"), Released::Freed);
    }
    let mut foreign = harness.naive();
    for value in ["foreign", "", "-1", "1.5", "1e3", "0x10"] {
        assert!(foreign.set_nx_px(LOCK, value, 60_000));
        busy(&getset(&harness).await, &trying(LONG)).await;
        assert_eq!(foreign.getset(LOCK, value).as_deref(), Some(value));
        assert!(foreign.del(LOCK));
    }
    assert_eq!(foreign.ask(&["RPUSH", LOCK, "element"]).integer(), 1);
    busy(&getset(&harness).await, &trying(LONG)).await;
    assert_eq!(foreign.ask(&["LLEN", LOCK]).integer(), 1);
}

#[tokio::test]
async fn the_time_of_a_getset_holder_excludes_ours_like_any_other_value() {
    let harness = HazardHarness::new();
    let (holder, claim) = (getset(&harness).await, trying(LONG));
    granted(&holder, &claim).await;
    let value = harness.value(LOCK);
    for options in SHARED {
        is_kept_out(&harness.client(options).await).await;
    }
    assert_eq!((harness.value(LOCK), harness.pttl(LOCK)), (value, -1));
    assert_eq!(holder.release(&claim).await.expect("it answers"), Released::Freed);
    until("it is free", || harness.value(LOCK).is_none()).await;
}
