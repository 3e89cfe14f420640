//! Recipes on top of locks: several locks at once, segments, and a lock that is kept for a while.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use latchwork::clock::Clock;
use latchwork::engine::{Filter, Revoke};
use latchwork::{Client, ErrorKind};
use tokio::task::JoinSet;

use super::support::{LONG, hold, name, nothing_left, pause};
use crate::{Fixture, drop_at_poll};

pub(super) async fn fifty_tasks_in_opposite_orders_never_wait_for_each_other<F: Fixture>(fixture: Arc<F>) {
    let (one, two) = (fixture.client().await, fixture.client().await);
    let inside: Arc<[AtomicU32; 3]> = Arc::default();
    let mut tasks = JoinSet::new();
    for number in 0..50 {
        let (client, inside) = ([&one, &two][number % 2].clone(), inside.clone());
        tasks.spawn(async move {
            let places = [[0, 1, 2], [2, 1, 0], [1, 2, 1]][number % 3];
            let lock = client.multi_lock(places.map(|place| format!("order {place}"))).ttl(LONG);
            let guard = lock.acquire().await.expect("its turn comes");
            let mut distinct = places.to_vec();
            distinct.sort_unstable();
            distinct.dedup();
            assert_eq!(guard.each().len(), distinct.len());
            for place in &distinct {
                assert_eq!(inside[*place].fetch_add(1, Ordering::SeqCst), 0, "held twice");
            }
            tokio::task::yield_now().await;
            assert!(guard.is_certain() && guard.remaining() > Duration::ZERO);
            for place in &distinct {
                inside[*place].fetch_sub(1, Ordering::SeqCst);
            }
            guard.release().await.expect("held");
        });
    }
    tasks.join_all().await;
    for place in 0..3 {
        nothing_left(&one, &format!("order {place}")).await;
    }
}

pub(super) async fn several_locks_are_held_together_or_not_at_all<F: Fixture>(fixture: Arc<F>) {
    let (client, other) = (fixture.client().await, fixture.client().await);
    let names = ["all 1", "all 2", "all 3"];
    let all = client.multi_lock(names).ttl(LONG);
    let busy = hold(&other, "all 3").await;
    assert!(all.try_acquire().await.expect("answers").is_none());
    let free = async || {
        for name in &names[..2] {
            nothing_left(&other, name).await;
        }
    };
    free().await;
    let clock = Clock::boottime();
    let (asked, limit) = (clock.now(), Duration::from_millis(300));
    let error = all.clone().wait(limit).acquire().await.expect_err("one is busy");
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    assert_eq!(error.lock().map(|lock| lock.as_str()), Some("all 3"), "{error}");
    assert!(clock.now().since(asked) >= limit, "one limit for all of them");
    free().await;
    // An acquire that is dropped at any point leaves nothing behind either.
    for polls in 1..8 {
        let dropped = drop_at_poll::after_polls(all.acquire(), polls);
        let _ = tokio::time::timeout(Duration::from_millis(30), dropped).await;
        free().await;
    }
    busy.release().await.expect("held");
    let guard = all.acquire().await.expect("all are free");
    for (held, name) in guard.each().iter().zip(names) {
        assert_eq!(held.name().as_str(), name);
        assert_eq!(guard.token(name).ok(), held.token().ok());
    }
    assert_eq!(guard.token("another").expect_err("not among them").kind(), ErrorKind::Invalid);
    guard.release().await.expect("held");
    for bad in [vec![], vec!["all 1", ""]] {
        let error = client.multi_lock(&bad).acquire().await.expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    }
    nothing_left(&other, "all 1").await;
}

pub(super) async fn the_loss_of_one_of_several_locks_is_the_loss_of_all<F: Fixture>(fixture: Arc<F>) {
    let (client, operator) = (fixture.client().await, fixture.client().await);
    let take_away = async |lock: &str| {
        let filter = Filter::Name(name(lock));
        let state = operator.inspect(&filter).await.expect("answers").remove(0);
        operator.revoke(&state, Revoke::Now).await.expect("answers");
    };
    let both = client.multi_lock(["any 1", "any 2"]).ttl(F::STEADY);
    let guard = both.acquire().await.expect("free");
    let held = guard.held();
    take_away("any 2").await;
    let (which, _) = tokio::time::timeout(Duration::from_secs(20), held.lost()).await.expect("told");
    // If both locks are on one connection, both are lost.
    assert!(which.as_str() == "any 2" || F::IS_A_CONNECTION, "{which:?}");
    assert!(!guard.is_certain() && guard.remaining().is_zero());
    assert_eq!(guard.release().await.expect_err("one was lost").kind(), ErrorKind::Lost);
    // The work is dropped, too.
    let work = both.run(async |_| {
        take_away("any 1").await;
        std::future::pending::<latchwork::Result<()>>().await
    });
    let error = tokio::time::timeout(Duration::from_secs(20), work).await.expect("dropped");
    assert_eq!(error.expect_err("lost").kind(), ErrorKind::Lost);
    nothing_left(&operator, "any 1").await;
    nothing_left(&operator, "any 2").await;
}

pub(super) async fn no_waiter_waits_for_a_busy_segment_while_another_is_free<F: Fixture>(fixture: Arc<F>) {
    let (client, other) = (fixture.client().await, fixture.client().await);
    let [here, there] = [&client, &other].map(|client| client.striped_lock("cut", 3).ttl(LONG));
    let mut held = Vec::new();
    for segments in [&here, &there, &here] {
        held.push(segments.any().acquire().await.expect("one is free"));
    }
    let mut numbers: Vec<_> = held.iter().map(|(number, _)| *number).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [0, 1, 2]);
    for (number, guard) in &held {
        assert_eq!(guard.name().as_str(), format!("cut/{number}"));
    }
    assert!(there.any().try_acquire().await.expect("answers").is_none());
    let error =
        there.clone().wait(Duration::from_millis(50)).any().acquire().await.expect_err("all are busy");
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    // Whichever segment becomes free first.
    for free in [1, 2, 0] {
        let waiting = tokio::spawn({
            let there = there.clone();
            async move { there.any().acquire().await.expect("one comes free") }
        });
        pause(30).await;
        let place = held.iter().position(|(number, _)| *number == free).expect("it is held");
        held.swap_remove(place).1.release().await.expect("held");
        let (number, guard) = tokio::time::timeout(Duration::from_secs(20), waiting)
            .await
            .expect("not behind a busy one")
            .expect("no panic");
        assert_eq!(number, free);
        held.push((number, guard));
    }
    let key = here.for_key("order/42");
    assert!(key.try_acquire().await.expect("answers").is_none(), "a key's segment is busy as well");
    held.clear();
    let guard = key.acquire().await.expect("the lock becomes free");
    assert_eq!(guard.name().as_str(), format!("cut/{}", there.segment_of("order/42")));
    guard.release().await.expect("held");
    assert_eq!(
        client.striped_lock("cut", 0).any().acquire().await.expect_err("there are none").kind(),
        ErrorKind::Invalid
    );
    for number in 0..3 {
        nothing_left(&other, &format!("cut/{number}")).await;
    }
}

pub(super) async fn a_lock_is_held_at_least_for_its_minimum_time<F: Fixture>(fixture: Arc<F>) {
    const LEAST: Duration = Duration::from_millis(700);
    let (client, other) = (fixture.client().await, fixture.client().await);
    let clock = Clock::boottime();
    let job = client.lock("job").ttl(LONG).hold_at_least(LEAST);
    for is_dropped in [false, true] {
        let begun = clock.now();
        let guard = job.acquire().await.expect("its turn comes");
        let view = guard.held();
        if is_dropped {
            drop(guard)
        } else {
            guard.release().await.expect("held")
        }
        assert!(!view.is_certain(), "its guard was released");
        let tried = job.try_acquire().await.expect("answers");
        assert!(tried.is_none() || clock.now().since(begun) >= LEAST, "another task of this client");
        drop(tried);
        let next = other.lock("job").ttl(LONG).acquire().await.expect("the lock becomes free");
        assert!(clock.now().since(begun) >= LEAST, "free after {:?}", clock.now().since(begun));
        assert!(drop_at_poll::now(view.lost()).is_none(), "later changes do not concern that guard");
        next.release().await.expect("held");
    }
    // Closing the client waits for it.
    let begun = clock.now();
    drop(job.acquire().await.expect("free"));
    client.close().await.expect("the lock is released");
    assert!(clock.now().since(begun) >= LEAST);
    nothing_left(&other, "job").await;
    let refused = async |client: &Client, text: &str| {
        let lock = client.lock("job").ttl(LONG).max_hold(LONG * 2).hold_at_least(LONG + LEAST);
        let lock = if text == "ttl" { lock } else { lock.ttl(LONG * 3).max_hold(LEAST) };
        let error = lock.acquire().await.expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains(text), "{error}");
    };
    refused(&client, "ttl").await;
    refused(&client, "max_hold").await;
}
