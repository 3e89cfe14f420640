//! The flaws of the GETSET recipe, and the behaviour of our engine in the same situations.

use std::time::Duration;

use latchwork::engine::Engine;
use testkit::harness::clock;
use testkit::scripted_process::ScriptedProcess;
use testkit::shim::Clocks;

use super::claims::{busy, granted, trying, waiting};
use super::getset_scheme::getset;
use super::harness::{HazardHarness, LOCK, LONG, pause, take, with_both};
use super::recipe::Recipe;

const HOUR: i64 = 3_600_000;
const SHORT: Duration = Duration::from_millis(100);

#[tokio::test]
async fn naive_a_loser_of_the_race_moves_the_winners_expiry() {
    let harness = HazardHarness::new();
    let [mut dead, mut winner, mut loser] = [0, 0, 0].map(|ahead| Recipe::new(&harness, ahead));
    assert!(dead.take(SHORT));
    pause(2 * SHORT.as_millis() as u64).await;
    assert!(winner.finds_it_over() && loser.finds_it_over());
    assert!(winner.overwrite(LONG) && !loser.overwrite(2 * LONG));
    assert_eq!(harness.value(LOCK), Some(loser.value.to_string()), "the winner's time is another");
    assert!(!winner.release(), "and it cannot tell its own lock any more");
    assert!(harness.value(LOCK).is_some());
}

#[tokio::test]
async fn a_loser_moves_nothing() {
    with_both(async |options| {
        let harness = HazardHarness::new();
        let [winner, loser] = [harness.engine(options).await, harness.engine(options).await];
        let claim = trying(LONG);
        granted(&winner, &claim).await;
        let mut left = harness.pttl(LOCK);
        for losing in [trying(2 * LONG), waiting(2 * LONG), trying(SHORT)] {
            pause(2).await;
            busy(&loser, &losing).await;
            loser.release(&losing).await.expect("it answers");
            assert_eq!(harness.value(LOCK), Some(claim.id.to_string()));
            let now = harness.pttl(LOCK);
            assert!(now < left, "its time is unchanged");
            left = now;
        }
    })
    .await;
}

#[tokio::test]
async fn a_loser_moves_nothing_with_our_getset_either() {
    let harness = HazardHarness::new();
    let [winner, loser] = [getset(&harness).await, getset(&harness).await];
    let mut dead = Recipe::new(&harness, 0);
    assert!(dead.take(SHORT));
    pause(2 * SHORT.as_millis() as u64).await;
    let claim = trying(LONG);
    granted(&winner, &claim).await;
    let value = harness.value(LOCK);
    for losing in [trying(2 * LONG), waiting(2 * LONG)] {
        busy(&loser, &losing).await;
        loser.release(&losing).await.expect("it answers");
        assert_eq!(harness.value(LOCK), value);
    }
}

#[test]
fn naive_a_client_whose_clock_is_ahead_steals_the_lock() {
    let harness = HazardHarness::new();
    let [mut holder, mut ahead] = [0, HOUR].map(|ahead| Recipe::new(&harness, ahead));
    assert!(holder.take(LONG));
    assert!(ahead.take(LONG), "beside the holder, whose lease has half a minute left");
}

#[tokio::test]
async fn naive_a_client_whose_clock_is_ahead_keeps_others_out_for_an_hour() {
    let harness = HazardHarness::new();
    let [mut ahead, mut rival] = [HOUR, 0].map(|ahead| Recipe::new(&harness, ahead));
    assert!(ahead.take(SHORT)); // And dies.
    pause(2 * SHORT.as_millis() as u64).await;
    assert!(!rival.take(SHORT));
    assert!(ahead.value > super::recipe::wall_millis() + HOUR / 2);
}

/// Holder and rival disagree about the wall-clock time, and about nothing else.
async fn a_wall_clock_off_by(millis: i64) {
    // A machine that stalls for half a second does not lose this lease.
    const TTL: u64 = 2_000;
    let (harness, clocks) = (HazardHarness::new(), Clocks::new());
    let client = harness.client("").await;
    clocks.move_wall(millis);
    let mut subject = ScriptedProcess::with_clocks(&harness.url(""), &clocks);
    let times = subject.ask("clocks").await;
    let wall: i64 = times.rsplit(' ').next().and_then(|wall| wall.parse().ok()).expect("milliseconds");
    assert!((wall - super::recipe::wall_millis() - millis).abs() < HOUR / 60, "the shim moved the clock");

    let mine = take(&client, Duration::from_millis(TTL)).await;
    for _ in 0..3 {
        assert_eq!(subject.ask(&format!("hold {LOCK} {TTL}")).await, "busy", "it is excluded");
        pause(TTL / 2).await;
    }
    let token = mine.token().expect("redis has tokens").get();
    mine.release().await.expect("the lock was held all along");

    let held = subject.ask(&format!("hold {LOCK} {TTL}")).await;
    let theirs: u64 = held.strip_prefix("held ").and_then(|token| token.parse().ok()).expect("it is free");
    assert!(theirs > token, "tokens rise");
    for _ in 0..3 {
        assert!(client.lock(LOCK).try_acquire().await.expect("it answers").is_none(), "it excludes");
        pause(TTL / 2).await;
    }
    assert_eq!(subject.ask(&format!("certain {LOCK}")).await, "true", "it was renewed all along");
    let left = harness.pttl(LOCK);
    assert!((1..=TTL as i64).contains(&left), "its lease is as long as any: {left}");
    assert_eq!(subject.ask(&format!("release {LOCK}")).await, "ok");
    let next = take(&client, LONG).await;
    assert!(next.token().expect("redis has tokens").get() > theirs, "tokens rise");
}

#[tokio::test]
async fn a_client_whose_clock_is_an_hour_ahead_excludes_others_and_is_excluded() {
    a_wall_clock_off_by(HOUR).await;
}

#[tokio::test]
async fn a_client_whose_clock_is_an_hour_behind_excludes_others_and_is_excluded() {
    a_wall_clock_off_by(-HOUR).await;
}

/// Without the preceding GET: every client that asks extends the time of the dead holder.
#[tokio::test]
async fn naive_contenders_all_overwrite_and_none_of_them_wins() {
    // A client that stalls for half a second does not ask too late.
    const LEASE: Duration = Duration::from_millis(1_500);
    let harness = HazardHarness::new();
    let mut clients: Vec<_> = (0..4).map(|_| Recipe::new(&harness, 0)).collect();
    assert!(clients[0].take(LEASE)); // And dies.
    let mut won = false;
    let end = clock().now().after(2 * LEASE);
    // For two leases each of them asks again and again, at intervals much shorter than a lease.
    while clock().now() < end {
        pause(LEASE.as_millis() as u64 / 20).await;
        won |= clients[1..].iter_mut().any(|client| client.overwrite(LEASE));
    }
    assert!(!won, "the lock is free, and nobody gets it");
}

#[tokio::test]
async fn one_contender_wins_soon_after_a_holder_died() {
    for options in ["scheme=set", "scheme=setnx", "scheme=getset"] {
        let harness = HazardHarness::new();
        let mut dead = Recipe::new(&harness, 0);
        assert!(dead.take(SHORT));
        if options != "scheme=getset" {
            assert_eq!(harness.server.command(&["PEXPIRE", LOCK, "100"]).integer(), 1);
        }
        let rivals = (0..4).map(|_| harness.client(options));
        let mut tasks = tokio::task::JoinSet::new();
        for rival in rivals {
            let rival = rival.await;
            tasks.spawn(async move {
                let guard = take(&rival, Duration::from_secs(1)).await;
                pause(2).await;
                guard.release().await.expect("the lock is held by its own claim");
            });
        }
        let all = async { while tasks.join_next().await.is_some_and(|done| done.is_ok()) {} };
        tokio::time::timeout(super::harness::SOON, all).await.expect("all of them win in turn");
        assert!(tasks.is_empty() && harness.value(LOCK).is_none(), "{options}");
    }
}
