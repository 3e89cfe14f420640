//! Messages that arrive too late, or never.

use std::time::Duration;

use latchwork::engine::{Engine, Released, Wake};
use nix::sys::signal::Signal;
use testkit::harness::now;
use testkit::history::checks::{Excuses, exclusion, tokens};
use testkit::history::{Fault, History, Recorder};
use testkit::network::proxy::Proxy;
use testkit::servers::Resp;
use testkit::shim::Clocks;
use testkit::worker_process::WorkerProcess;

use super::claims::{busy, granted, granted_soon, trying, waiting};
use super::harness::{HazardHarness, LOCK, LONG, SOON, pause, soon, take, take_in_background, until, url};
use super::recipe::wall_millis;

const SHORT: Duration = Duration::from_millis(300);
/// The lease of a lock that is handed over: it is seen before it ends, on a machine that stalls for half a
/// second.
const HANDED_OVER: Duration = Duration::from_millis(1_500);

/// A hand-over by message that is believed whenever it is read.
#[tokio::test]
async fn naive_a_message_that_is_read_after_a_pause_makes_two_holders() {
    let harness = HazardHarness::new();
    let [mut holder, mut other] = [harness.naive(), harness.naive()];
    let mut waiter = Resp::tcp(harness.server.address()).expect("the server accepts the connection");
    waiter.ask(&["SUBSCRIBE", "waiter"]).expect("it answers");
    assert!(holder.set_nx_px(LOCK, "holder", 60_000));
    assert!(holder.ask(&["SET", LOCK, "waiter", "PX", "100"]).is("OK"));
    assert_eq!(holder.ask(&["PUBLISH", "waiter", "it is yours"]).integer(), 1);
    // The waiter is paused, and its lease ends.
    until("the lease ends", || other.set_nx_px(LOCK, "other", 60_000)).await;
    let message = waiter.reply().expect("the client continues and reads");
    assert_eq!(message.array()[2].text(), "it is yours");
    assert_eq!(harness.value(LOCK).as_deref(), Some("other"), "the client continues, too");
}

/// The grant that a waiter believes for a while, after it was told that the lock is busy.
async fn believed(waiter: &impl Engine, claim: &latchwork::engine::Claim) -> Option<Wake> {
    let state = busy(waiter, claim).await;
    let wake = tokio::time::timeout(SHORT, waiter.wait(claim, &state)).await;
    wake.ok().map(|wake| wake.expect("the client can subscribe"))
}

#[tokio::test]
async fn a_message_that_is_read_after_others_had_the_lock_is_not_believed() {
    let harness = HazardHarness::new();
    let [holder, waiter, other] =
        [harness.engine("").await, harness.engine("").await, harness.engine("").await];
    let (first, stale, second) = (trying(LONG), waiting(HANDED_OVER), trying(LONG));
    granted(&holder, &first).await;
    busy(&waiter, &stale).await;
    assert_eq!(holder.release(&first).await.expect("it answers"), Released::Freed);
    assert_eq!(harness.value(LOCK), Some(stale.id.to_string()), "handed over, and notified");
    // The message has arrived and is not read; the lease that came with it ends.
    let newest = granted_soon(&other, &second).await;
    let wake = believed(&waiter, &stale).await;
    assert_eq!(wake, None, "the lock is another's");
    assert_eq!(harness.value(LOCK), Some(second.id.to_string()));
    // A new message is believed.
    let state = busy(&waiter, &stale).await;
    assert!(state.floor >= newest.token);
    assert_eq!(other.release(&second).await.expect("it answers"), Released::Freed);
    let wake = tokio::time::timeout(SOON, waiter.wait(&stale, &state))
        .await
        .expect("soon")
        .expect("the waiter is subscribed");
    let Wake::Granted(grant) = wake else { panic!("not granted but {wake:?}") };
    assert!(grant.token > newest.token);
}

/// Whole processes: holders and waiters are stopped at any moment, for less than a lease and for more.
#[tokio::test]
async fn processes_that_are_stopped_and_continue_never_hold_together() {
    const WORKERS: usize = 4;
    let harness = HazardHarness::new();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("history");
    let recorder = Recorder::shared(&path);
    let (url, file) = (harness.url(""), path.display().to_string());
    let mut workers: Vec<_> =
        (0..WORKERS).map(|_| WorkerProcess::start(&["stoppable", &url, LOCK, &file, "300"])).collect();
    for worker in &mut workers {
        assert_eq!(worker.line().await, "started");
    }
    // On a slow machine it takes more rounds until enough has happened.
    let holds = || std::fs::read_to_string(&path).map_or(0, |text| text.matches(" acquired ").count());
    let end = now().after(8 * LONG);
    for round in 0.. {
        if round >= 24 && (holds() > 250 || now() > end) {
            break;
        }
        let stopped = &workers[round % WORKERS];
        let [span] = latchwork::clock::random_bytes();
        recorder.fault_began(Fault::HolderPause);
        stopped.signal(Signal::SIGSTOP);
        pause(u64::from(span) * 2).await;
        stopped.signal(Signal::SIGCONT);
        recorder.fault_ended(Fault::HolderPause);
        pause(u64::from(span) / 8).await;
    }
    for mut worker in workers {
        recorder.killed(worker.pid());
        worker.kill().await;
    }
    let history = History::read(&path);
    let judged = exclusion(&history, &Excuses::none()).expect("one at a time").judged;
    // An acquire may return after a pause, with an expired lease and an old token.
    tokens(&history, &Excuses::of(&history, |_| true)).expect("tokens rise");
    assert!(judged > 200, "too little happened to show anything: {judged} holds");
}

#[tokio::test]
async fn naive_a_lost_message_is_waited_for_for_ever() {
    let harness = HazardHarness::new();
    let proxy = Proxy::to(harness.server.address());
    let mut holder = harness.naive();
    assert!(holder.set_nx_px(LOCK, "holder", 60_000));
    let mut waiter = Resp::tcp_within(proxy.address(), Duration::from_secs(1)).expect("the proxy is there");
    waiter.ask(&["SUBSCRIBE", "released"]).expect("it answers");
    proxy.black_hole(true);
    assert!(holder.del(LOCK));
    assert_eq!(holder.ask(&["PUBLISH", "released", LOCK]).integer(), 1, "as far as the server knows");
    proxy.cut();
    proxy.black_hole(false);
    let mut waiter = Resp::tcp_within(proxy.address(), Duration::from_secs(1)).expect("the proxy is there");
    waiter.ask(&["SUBSCRIBE", "released"]).expect("the waiter is back and subscribed");
    assert!(waiter.reply().is_err(), "nothing comes");
    assert_eq!(harness.value(LOCK), None, "though the lock is free");
}

/// A waiting client behind a proxy, and the holder.
async fn waiter_behind(
    proxy: &Proxy,
    harness: &HazardHarness,
) -> (tokio::task::JoinHandle<latchwork::Guard>, latchwork::Guard) {
    let guard = take(&harness.client("").await, LONG).await;
    let client = latchwork::connect(&url(proxy.address().port(), ""))
        .await
        .expect("the server accepts the connection");
    let waiting = take_in_background(&client, LONG);
    harness.until_queued(1).await;
    (waiting, guard)
}

#[tokio::test]
async fn a_waiter_whose_message_is_lost_gets_its_turn() {
    let harness = HazardHarness::new();
    let proxy = Proxy::to(harness.server.address());
    let (waiting, guard) = waiter_behind(&proxy, &harness).await;
    proxy.black_hole(true);
    guard.release().await.expect("held");
    assert!(harness.value(LOCK).is_some(), "handed over, and notified, as far as the server knows");
    let token = harness.value(&format!("{{{LOCK}}}:latchwork1:f")).expect("there was a grant");
    proxy.cut();
    proxy.black_hole(false);
    let guard = soon(waiting).await;
    assert!(token.starts_with(&guard.token().expect("tokens").engine_token().to_string()), "the same grant");
    guard.release().await.expect("held");
}

#[tokio::test]
async fn a_waiter_that_is_cut_off_during_the_release_gets_its_turn_after_reconnecting() {
    let harness = HazardHarness::new();
    let proxy = Proxy::to(harness.server.address());
    let (waiting, guard) = waiter_behind(&proxy, &harness).await;
    let listeners = || harness.server.command(&["PUBSUB", "CHANNELS", "latchwork:*"]).array().len();
    let before = listeners();
    proxy.refuse(true);
    until("the server has noticed", || listeners() < before).await;
    guard.release().await.expect("held");
    assert_eq!(harness.value(LOCK), None, "there is no waiter to hand it to");
    proxy.refuse(false);
    soon(waiting).await.release().await.expect("held");
}

/// A queue by the clocks of its waiters, which drop every waiter without a recent heartbeat.
#[test]
fn naive_a_client_whose_clock_is_ahead_drops_every_waiter_from_the_queue() {
    const HOUR: i64 = 3_600_000;
    let harness = HazardHarness::new();
    let mut connection = harness.naive();
    for waiter in ["first", "second"] {
        let alive_until = (wall_millis() + 5_000).to_string();
        assert_eq!(connection.ask(&["ZADD", "queue", &alive_until, waiter]).integer(), 1);
    }
    let ahead = (wall_millis() + HOUR).to_string();
    assert_eq!(
        connection.ask(&["ZREMRANGEBYSCORE", "queue", "-inf", &ahead]).integer(),
        2,
        "alive, and dropped from the queue"
    );
}

#[tokio::test]
async fn waiters_whose_clocks_are_wrong_drop_no_other_and_are_granted_in_their_turn() {
    const HOUR: i64 = 3_600_000;
    let (harness, ahead, behind) = (HazardHarness::new(), Clocks::new(), Clocks::new());
    ahead.move_wall(HOUR);
    behind.move_wall(-HOUR);
    let guard = take(&harness.client("").await, LONG).await;
    let (url, history) = (harness.url(""), tempfile::NamedTempFile::new().expect("a temporary file"));
    let file = history.path().display().to_string();
    let args = ["count", &url, LOCK, &format!("{file}-counter"), &file, "1", "1"];
    let mut workers = Vec::new();
    // Correct clocks before, between and behind the two that are wrong.
    for clocks in [None, Some(&ahead), None, Some(&behind), None] {
        workers.push(
            clocks.map_or_else(
                || WorkerProcess::start(&args),
                |clocks| WorkerProcess::with_clocks(&args, clocks),
            ),
        );
        harness.until_queued(workers.len() as i64).await;
    }
    // Longer than a heartbeat of each waiter takes, and than the first entries would last without one.
    pause(3_300).await;
    assert_eq!(harness.queued(), workers.len() as i64, "no waiter was dropped");
    guard.release().await.expect("held");
    let pids: Vec<_> = workers.iter().map(WorkerProcess::pid).collect();
    for worker in &mut workers {
        tokio::time::timeout(SOON, worker.done()).await.expect("its turn came");
    }
    let history = History::read(history.path());
    let order: Vec<_> = history.holds().iter().map(|hold| hold.who.process).collect();
    assert_eq!(order, pids);
}
