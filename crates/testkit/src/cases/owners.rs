//! Owners: nested guards in one client, and take-over from another client.

use std::sync::Arc;
use std::time::Duration;

use latchwork::engine::{Claim, Engine, Filter, Released, Renewal, Verdict};
use latchwork::{Client, ErrorKind, Guard, Loss, OwnerId};

use super::support::{LONG, busy, granted, hold, name, nothing_left, trying, waiters, waiting};
use crate::Fixture;

fn owned(mut claim: Claim, owner: &str) -> Claim {
    claim.owner = Some(OwnerId::new(owner).expect("a good id"));
    claim
}

async fn hold_as(client: &Client, lock: &str, owner: &str) -> Guard {
    client.lock(lock).ttl(LONG).owner(owner).acquire().await.expect("the lock becomes free")
}

pub(super) async fn an_owner_takes_over_from_itself_past_the_queue<F: Fixture>(fixture: Arc<F>) {
    let (one, two, three) = (fixture.engine().await, fixture.engine().await, fixture.engine().await);
    for contended in [false, true] {
        let first = owned(waiting("ledger", LONG), "writer");
        let was = granted(&one, &first).await;
        let waiter = waiting("ledger", LONG);
        if contended {
            busy(&two, &waiter).await;
        }
        busy(&three, &owned(trying("ledger", LONG), "another")).await;
        busy(&three, &trying("ledger", LONG)).await;
        let second = owned(trying("ledger", LONG), "writer");
        let now = granted(&three, &second).await;
        assert!(now.token > was.token, "{now:?} after {was:?}");
        assert_eq!(granted(&three, &second).await.token, now.token, "C1");
        // The former claim can have no further effect.
        let renewed = one.renew(&[Arc::new(first.clone())]).await.remove(0).expect("answers");
        assert_eq!(renewed, Renewal::Lost(Loss::TakenOver));
        assert_eq!(one.release(&first).await.expect("answers"), Released::NotHeld);
        if contended {
            busy(&two, &waiter).await;
        }
        assert_eq!(three.release(&second).await.expect("answers"), Released::Freed);
        if contended {
            assert!(granted(&two, &waiter).await.token > now.token);
            two.release(&waiter).await.expect("answers");
        }
    }
    nothing_left(&fixture.client().await, "ledger").await;
}

pub(super) async fn a_waiting_owner_takes_over_when_it_claims_again<F: Fixture>(fixture: Arc<F>) {
    let (one, two, three) = (fixture.engine().await, fixture.engine().await, fixture.engine().await);
    let holder = waiting("relay", LONG);
    let (first, second) = (owned(waiting("relay", LONG), "writer"), owned(waiting("relay", LONG), "writer"));
    let last = waiting("relay", LONG);
    granted(&one, &holder).await;
    busy(&one, &first).await;
    busy(&two, &second).await;
    busy(&three, &last).await;
    one.release(&holder).await.expect("answers");
    let was = granted(&one, &first).await;
    let now = granted(&two, &second).await;
    assert!(now.token > was.token);
    two.release(&second).await.expect("answers");
    let after = granted(&three, &last).await;
    assert!(after.token > now.token);
    assert!(matches!(two.claim(&trying("relay", LONG)).await, Ok(Verdict::Busy(_))));
    three.release(&last).await.expect("answers");
    nothing_left(&fixture.client().await, "relay").await;
}

pub(super) async fn guards_of_one_owner_hold_together<F: Fixture>(fixture: Arc<F>) {
    let (client, rival) = (fixture.client().await, fixture.client().await);
    let outer = hold_as(&client, "nested", "worker").await;
    let inner = hold_as(&client, "nested", "worker").await;
    let tried = client.lock("nested").owner("worker").try_acquire().await.expect("answers").expect("its own");
    assert_eq!(inner.token().expect("tokens"), outer.token().expect("tokens"));
    assert_eq!(tried.token().expect("tokens"), outer.token().expect("tokens"));
    assert!(client.lock("nested").try_acquire().await.expect("answers").is_none(), "without an owner");
    outer.release().await.expect("held");
    drop(tried);
    assert!(inner.is_certain());
    assert!(rival.lock("nested").try_acquire().await.expect("answers").is_none(), "one is left");
    inner.release().await.expect("held");
    hold(&rival, "nested").await.release().await.expect("held");
    nothing_left(&client, "nested").await;
}

/// The holder may be waiting for the very task that arrived while the holder was still waiting itself.
pub(super) async fn waiting_guards_of_one_owner_are_granted_together<F: Fixture>(fixture: Arc<F>) {
    let (client, rival) = (fixture.client().await, fixture.client().await);
    let held = hold(&rival, "family").await;
    let member = |_| {
        let client = client.clone();
        tokio::spawn(async move { hold_as(&client, "family", "worker").await })
    };
    let members: Vec<_> = (0..3).map(member).collect();
    waiters(&rival, "family", 1).await;
    held.release().await.expect("held");
    let mut guards = Vec::new();
    for member in members {
        guards.push(member.await.expect("no panic"));
    }
    let tokens: Vec<_> = guards.iter().map(|guard| guard.token().expect("tokens")).collect();
    assert!(tokens.iter().all(|token| *token == tokens[0]), "{tokens:?}");
    drop(guards);
    nothing_left(&rival, "family").await;
}

pub(super) async fn a_guard_that_was_taken_over_is_told_and_does_no_harm<F: Fixture>(fixture: Arc<F>) {
    let (before, after) = (fixture.client().await, fixture.client().await);
    let stale = before.lock("restart").ttl(F::STEADY).owner("writer").acquire().await.expect("free");
    let fresh = hold_as(&after, "restart", "writer").await;
    assert!(fresh.token().expect("tokens") > stale.token().expect("tokens"));
    let loss = tokio::time::timeout(F::STEADY, stale.lost()).await.expect("told at the next renewal");
    assert_eq!(loss, Loss::TakenOver);
    let nested = before.lock("restart").owner("writer").wait(Duration::from_secs(1)).acquire().await;
    assert_eq!(nested.expect_err("the outer guard is lost").kind(), ErrorKind::Lost);
    assert_eq!(stale.release().await.expect_err("lost").kind(), ErrorKind::Lost);
    assert!(fresh.is_certain());
    let state = after.inspect(&Filter::Name(name("restart"))).await.expect("answers").remove(0);
    assert_eq!(state.holders[0].owner.as_ref().map(OwnerId::as_str), Some("writer"));
    fresh.release().await.expect("held");
}

pub(super) async fn an_invalid_owner_is_refused_with_the_limit<F: Fixture>(fixture: Arc<F>) {
    let client = fixture.client().await;
    for (owner, says) in [("", "empty"), ("two\nlines", "U+000A"), (&"x".repeat(129), "128")] {
        let error = client.lock("a").owner(owner).try_acquire().await.expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains(says), "{error}");
    }
}
