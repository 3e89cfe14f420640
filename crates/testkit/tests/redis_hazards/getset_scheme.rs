//! `scheme=getset` beside services that still use the recipe.

use std::sync::Arc;
use std::time::Duration;

use latchwork::engine::{Engine, Filter, Released, Renewal};
use latchwork::engines::redis::GetSet;
use latchwork::{Effect, ErrorKind, Loss, Promise};
use testkit::network::proxy::Proxy;
use testkit::servers::Resp;

use super::claims::{busy, granted, granted_soon, renewed, trying, waiting};
use super::harness::{HazardHarness, LOCK, LONG, SOON, pause, take, until, url};
use super::recipe::{Recipe, wall_millis};

const OPTIONS: &str = "scheme=getset";
/// The shortest ttl of this scheme.
const TTL: Duration = Duration::from_secs(2);

pub(super) async fn getset(harness: &HazardHarness) -> GetSet {
    let url = harness.url(OPTIONS).parse().expect("a valid URL");
    GetSet::connect(&url).await.expect("the server accepts the connection")
}

fn time(harness: &HazardHarness) -> i64 {
    harness.value(LOCK).and_then(|value| value.parse().ok()).expect("a time stands there")
}

#[tokio::test]
async fn a_client_of_the_recipe_is_excluded_by_ours() {
    let harness = HazardHarness::new();
    let (client, mut rival) = (harness.client(OPTIONS).await, Recipe::new(&harness, 0));
    let guard = take(&client, LONG).await;
    let value = time(&harness);
    let left = value - wall_millis();
    assert!((1..=LONG.as_millis() as i64 + 1).contains(&left), "the time when the lease ends: {left}");
    for _ in 0..3 {
        assert!(!rival.take(LONG));
    }
    assert_eq!(time(&harness), value);
    guard.release().await.expect("held");
    assert!(rival.take(LONG), "the lock became free");
}

#[tokio::test]
async fn our_client_is_excluded_by_a_client_of_the_recipe() {
    let harness = HazardHarness::new();
    let (client, mut holder) = (harness.client(OPTIONS).await, Recipe::new(&harness, 0));
    assert!(holder.take(LONG));
    let lock = client.lock(LOCK).ttl(LONG);
    assert!(lock.try_acquire().await.expect("it answers").is_none());
    let error = lock.clone().wait(Duration::from_millis(300)).acquire().await.expect_err("held");
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    assert_eq!(time(&harness), holder.value, "a refused client changed nothing");
    let waiting = tokio::spawn(async move { lock.acquire().await.expect("the lock becomes free") });
    pause(100).await;
    assert!(!waiting.is_finished() && holder.release());
    let guard = super::harness::soon(waiting).await;
    assert!(!holder.take(LONG), "and is ours now");
    guard.release().await.expect("held");
}

#[tokio::test]
async fn a_dead_holder_of_either_kind_expires_at_its_time() {
    let harness = HazardHarness::new();
    let (engine, mut recipe) = (getset(&harness).await, Recipe::new(&harness, 0));
    let dead = trying(TTL);
    granted(&engine, &dead).await;
    let over = time(&harness);
    until("its time comes", || recipe.take(TTL)).await;
    assert!(wall_millis() > over, "not before");
    assert_eq!(
        engine.release(&dead).await.expect("it answers"),
        Released::NotHeld,
        "as if nothing had happened"
    );
    let over = recipe.value;
    assert_eq!(time(&harness), over, "the late release did no harm");
    granted_soon(&engine, &waiting(TTL)).await;
    assert!(wall_millis() >= over, "not before");
}

#[tokio::test]
async fn a_holder_that_works_longer_than_its_lease_is_renewed() {
    let harness = HazardHarness::new();
    let (client, mut rival) = (harness.client(OPTIONS).await, Recipe::new(&harness, 0));
    // Long enough for a machine that stalls in between.
    const STEADY: Duration = Duration::from_secs(3);
    let guard = take(&client, STEADY).await;
    let first = time(&harness);
    for _ in 0..40 {
        pause(100).await;
        assert!(!rival.take(TTL));
    }
    assert!(guard.is_certain(), "{:?}", guard.lost().await);
    // The last renewal may be a little more than a third of the ttl ago.
    assert!(time(&harness) > first + STEADY.as_millis() as i64 / 2, "renewed");
    guard.release().await.expect("the lock was held to the end");
    assert_eq!(harness.value(LOCK), None);
}

#[tokio::test]
async fn a_holder_whose_value_another_overwrote_is_told_that_it_lost() {
    let harness = HazardHarness::new();
    let (client, mut hurried) = (harness.client(OPTIONS).await, Recipe::new(&harness, 0));
    let guard = take(&client, TTL).await;
    assert!(!hurried.overwrite(LONG), "it did not win, but changed our time");
    let loss = tokio::time::timeout(SOON, guard.lost()).await.expect("at the next renewal");
    assert_eq!(loss, Loss::Removed);
    assert_eq!(guard.release().await.expect_err("lost").kind(), ErrorKind::Lost);
    assert_eq!(time(&harness), hurried.value, "only our own value is deleted");
}

#[tokio::test]
async fn the_getset_scheme_warns_and_has_no_tokens() {
    let harness = HazardHarness::new();
    let client = harness.client(OPTIONS).await;
    let promised = client.guarantees();
    assert!(promised.warnings.iter().any(|warning| warning.contains("clocks")), "{promised:?}");
    assert_eq!((promised.tokens, promised.faults.clock_step), (None, Promise::Breaks));
    let guard = take(&client, LONG).await;
    assert_eq!(guard.token().expect_err("there is none").kind(), ErrorKind::Unsupported);
    let asked =
        client.lock(LOCK).ttl(LONG).fenced().try_acquire().await.expect_err("the scheme has no tokens");
    assert_eq!(asked.kind(), ErrorKind::Unsupported);
    assert!(asked.to_string().contains(".fenced()"), "{asked}");
    assert!(harness.client("").await.guarantees().warnings.is_empty(), "other schemes do not warn");
}

/// As the documented warning says.
#[tokio::test]
async fn a_holder_whose_clock_is_behind_loses_its_lock() {
    let harness = HazardHarness::new();
    let mut behind = Recipe::new(&harness, -3_600_000);
    assert!(behind.take(LONG));
    granted(&getset(&harness).await, &trying(LONG)).await;
}

/// The first version of the recipe used seconds. Read as milliseconds the time would be long past, and the
/// lock free for all.
#[tokio::test]
async fn a_time_in_seconds_excludes_ours_until_then() {
    let harness = HazardHarness::new();
    let (engine, mut foreign) = (getset(&harness).await, harness.naive());
    let over = wall_millis() / 1_000 + 2;
    assert!(foreign.setnx(LOCK, &over.to_string()));
    let claim = waiting(LONG);
    let state = busy(&engine, &claim).await;
    let left = state.holder.and_then(|holder| holder.expires_in).expect("a time stands there");
    assert!(left <= Duration::from_secs(2), "{left:?}");
    let seen =
        harness.client(OPTIONS).await.inspect(&Filter::Name(claim.name.clone())).await.expect("it answers");
    assert_eq!(seen[0].holders.len(), 1);
    granted_soon(&engine, &claim).await;
    assert!(wall_millis() >= over * 1_000, "not before");
}

/// Values are times, and two clients may ask at the same time.
#[tokio::test]
async fn a_rival_that_claimed_in_the_same_millisecond_is_not_mistaken_for_our_own_claim() {
    let harness = HazardHarness::new();
    let (engine, mut foreign) = (getset(&harness).await, harness.naive());
    assert!(foreign.setnx(LOCK, &(wall_millis() + 60_000).to_string()));
    let mut monitor = Resp::tcp(harness.server.address()).expect("the server accepts the connection");
    assert!(monitor.ask(&["MONITOR"]).expect("it answers").is("OK"));
    let claim = waiting(LONG);
    busy(&engine, &claim).await;
    // EVALSHA sha 1 key now value: the value that it would have set.
    let line = monitor.reply().expect("the monitored command").text();
    let asked = line.split('"').nth(11).expect("six words").to_owned();
    let asked_millis: i64 = asked.parse().unwrap_or_else(|_| panic!("{line}"));
    assert!((asked_millis - wall_millis() - LONG.as_millis() as i64).abs() < 10_000, "{line}");
    assert!(foreign.getset(LOCK, &asked).is_some());
    busy(&engine, &claim).await;
    assert_eq!(engine.release(&claim).await.expect("it answers"), Released::NotHeld);
    assert_eq!(harness.value(LOCK), Some(asked), "it is the rival's");
}

/// Only the client itself can know whether it was granted.
#[tokio::test]
async fn a_claim_and_a_renewal_are_recognized_whatever_was_lost() {
    let harness = HazardHarness::new();
    let proxy = Proxy::to(harness.server.address());
    let address = url(proxy.address().port(), OPTIONS).parse().expect("a valid URL");
    let engine = GetSet::connect(&address).await.expect("the server accepts the connection");
    let claim = trying(LONG);
    let mut lose = ["reply", "request", "request", "reply"].into_iter().cycle();
    let mut lose_something = async || {
        pause(2).await; // The next value is another.
        let connected = engine.inspect(&Filter::Name(claim.name.clone())).await;
        connected.expect("the next lost reply is not one to a handshake");
        match lose.next() {
            Some("reply") => proxy.lose_reply_to(b"EVALSHA"),
            _ => proxy.cut_before_next_request(),
        }
    };
    for _ in 0..4 {
        lose_something().await;
        assert_eq!(engine.claim(&claim).await.expect_err("lost").effect(), Effect::Unknown);
    }
    granted(&engine, &claim).await;
    for _ in 0..4 {
        lose_something().await;
        let answer = engine.renew(&[Arc::new(claim.clone())]).await.remove(0);
        assert_eq!(answer.expect_err("lost").effect(), Effect::Unknown);
    }
    assert!(matches!(renewed(&engine, &claim).await, Renewal::Kept(_)));
    lose_something().await;
    assert!(engine.renew(&[Arc::new(claim.clone())]).await.remove(0).is_err());
    assert_eq!(engine.release(&claim).await.expect("it answers"), Released::Freed);
    assert_eq!(harness.value(LOCK), None);
}
