//! Calls that are dropped at every point where they can be dropped.

use std::sync::Arc;
use std::time::Duration;

use latchwork::Client;

use super::support::{hold, nothing_left, pause};
use crate::faulty_engine::{ClaimFault, FaultyEngine};
use crate::{Fixture, drop_at_poll};

/// The most polls that an acquire needs in these situations. The cases fail if it ever needs more, so that no
/// point is left out.
const MOST_POLLS: u32 = 40;

/// The situations in which an acquire is dropped.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Situation {
    Free,
    HeldByAnotherClient,
    ReleasedWhileWaiting,
    HeldByThisClient,
}

const SITUATIONS: [Situation; 4] = [
    Situation::Free,
    Situation::HeldByAnotherClient,
    Situation::ReleasedWhileWaiting,
    Situation::HeldByThisClient,
];

pub(super) async fn an_acquire_dropped_at_any_point_leaves_nothing_behind<F: Fixture>(fixture: Arc<F>) {
    let two = fixture.client().await;
    let (slow, faults) = FaultyEngine::new(fixture.engine().await);
    faults.claim(Some(ClaimFault::Slow(Duration::from_millis(5))));
    let mut points = 0;
    for (one, delay) in [
        (fixture.client().await, Duration::ZERO),
        (fixture.client().await, Duration::from_millis(3)),
        (Client::new(slow), Duration::ZERO),
    ] {
        for situation in SITUATIONS {
            points += drop_at_every_poll(&*fixture, situation, &one, &two, delay).await;
        }
    }
    println!("{}: acquire dropped at {points} points", fixture.kind().name);
    assert!(points > 16, "only {points} points were tried");
}

/// Runs a situation with one poll more each time, until the acquire gets the lock before it is dropped.
async fn drop_at_every_poll<F: Fixture>(
    fixture: &F,
    situation: Situation,
    one: &Client,
    two: &Client,
    delay: Duration,
) -> u32 {
    for polls in 1..MOST_POLLS {
        fixture.hinder(delay);
        let finished = run(situation, polls, one, two).await;
        fixture.hinder(Duration::ZERO);
        // Twice: a request that was still pending during the first look would be found by the second.
        nothing_left(two, "cut").await;
        pause(6).await;
        nothing_left(one, "cut").await;
        nothing_left(two, "cut").await;
        if finished || (situation == Situation::HeldByAnotherClient && polls > 4) {
            return polls;
        }
    }
    panic!("{situation:?} does not end in {MOST_POLLS} polls");
}

/// Runs one situation with an acquire that is dropped after `polls` polls. True if it got the lock before
/// that.
async fn run(situation: Situation, polls: u32, one: &Client, two: &Client) -> bool {
    let lock = one.lock("cut").wait(Duration::from_secs(30));
    let holder = match situation {
        Situation::Free => None,
        Situation::HeldByThisClient => Some(hold(one, "cut").await),
        _ => Some(hold(two, "cut").await),
    };
    let dropped = drop_at_poll::after_polls(lock.acquire(), polls);
    if situation == Situation::HeldByAnotherClient {
        // The lock is not released: the acquire is dropped while it waits.
        return tokio::time::timeout(Duration::from_millis(30), dropped)
            .await
            .is_ok_and(|done| done.is_some());
    }
    let release = async {
        pause(2).await;
        if let Some(holder) = holder {
            holder.release().await.expect("held");
        }
    };
    let (done, ()) = tokio::join!(dropped, release);
    done.is_some()
}

pub(super) async fn a_dropped_driver_hands_its_place_to_the_task_behind_it<F: Fixture>(fixture: Arc<F>) {
    let (one, two) = (fixture.client().await, fixture.client().await);
    for polls in 1..5 {
        let holder = hold(&two, "inherit").await;
        let lock = one.lock("inherit");
        let mut driver = Box::pin(lock.acquire());
        let poll = drop_at_poll::after_polls(&mut driver, polls);
        let _ = tokio::time::timeout(Duration::from_millis(10), poll).await;
        let behind = {
            let client = one.clone();
            tokio::spawn(async move { hold(&client, "inherit").await.release().await })
        };
        pause(2).await;
        drop(driver);
        holder.release().await.expect("held");
        let behind = tokio::time::timeout(Duration::from_secs(10), behind).await;
        behind.expect("it takes over the duty").expect("no panic").expect("held");
        nothing_left(&two, "inherit").await;
    }
}

pub(super) async fn a_release_dropped_at_any_point_still_releases<F: Fixture>(fixture: Arc<F>) {
    let (one, two) = (fixture.client().await, fixture.client().await);
    for delay in [Duration::ZERO, Duration::from_millis(3)] {
        for polls in 1.. {
            assert!(polls < MOST_POLLS, "it does not end");
            let guard = hold(&one, "half released").await;
            fixture.hinder(delay);
            let finished = drop_at_poll::after_polls(guard.release(), polls).await.is_some();
            fixture.hinder(Duration::ZERO);
            nothing_left(&two, "half released").await;
            if finished {
                break;
            }
        }
    }
}
