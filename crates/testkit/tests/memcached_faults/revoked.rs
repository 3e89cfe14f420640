//! An operator revokes locks: twice, from other programs, and too late.

use std::time::Duration;

use latchwork::engine::{Filter, LockState, Revoke, Revoked};
use latchwork::{Client, ErrorKind, LockName, Loss};
use testkit::harness::connect;

use super::harness::{LOCK, LONG, MemcachedHarness, SOON};

async fn state(client: &Client) -> LockState {
    let filter = Filter::Name(LockName::new(LOCK).expect("a good name"));
    client.inspect(&filter).await.expect("an answer").remove(0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_that_is_revoked_twice_still_ends_with_its_lease() {
    let harness = MemcachedHarness::new();
    let (client, operator) = (connect(&harness.direct_url("")).await, connect(&harness.direct_url("")).await);
    let guard = client.lock(LOCK).ttl(Duration::from_secs(3)).acquire().await.expect("free");
    let found = state(&operator).await;
    assert_eq!(operator.revoke(&found, Revoke::AtLeaseEnd).await.expect("an answer"), Revoked::Done);
    let marked =
        |harness: &MemcachedHarness| harness.server.item(LOCK).expect("the claim stays until its lease ends");
    // The value and its CAS id, without the remaining time.
    let once = marked(&harness).split_whitespace().find(|word| word.starts_with('c')).map(str::to_owned);
    assert!(once.is_some());
    for found in [found.clone(), state(&operator).await] {
        assert_eq!(operator.revoke(&found, Revoke::AtLeaseEnd).await.expect("an answer"), Revoked::Done);
    }
    let twice = marked(&harness).split_whitespace().find(|word| word.starts_with('c')).map(str::to_owned);
    assert_eq!(once, twice, "nothing was written again, so its end has not moved");
    let told = tokio::time::timeout(SOON, guard.lost()).await.expect("at its next renewal");
    assert_eq!(told, Loss::Revoked);
    let next = operator.lock(LOCK).ttl(LONG).wait(LONG).acquire().await.expect("when its lease is over");
    for how in [Revoke::AtLeaseEnd, Revoke::Now] {
        let late = operator.revoke(&found, how).await.expect("an answer");
        assert_eq!(late, Revoked::NotHeld, "it was another program's lock");
    }
    assert!(next.is_certain());
    next.release().await.expect("held");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_programs_lock_can_only_be_revoked_at_once_and_only_as_inspected() {
    let harness = MemcachedHarness::new();
    let operator = connect(&harness.direct_url("")).await;
    assert_eq!(harness.server.command(&format!("add {LOCK} 0 30 5\r\nfirst")), "STORED\r\n");
    let first = state(&operator).await;
    let error =
        operator.revoke(&first, Revoke::AtLeaseEnd).await.expect_err("the other program cannot be told");
    assert_eq!(error.kind(), ErrorKind::Foreign, "{error}");
    assert!(error.to_string().contains("cannot be told"), "{error}");
    assert_eq!(state(&operator).await.holders[0].id, first.holders[0].id, "nothing was done");
    harness.server.command(&format!("set {LOCK} 0 30 6\r\nsecond"));
    for how in [Revoke::AtLeaseEnd, Revoke::Now, Revoke::NowAlsoForeign] {
        assert_eq!(operator.revoke(&first, how).await.expect("an answer"), Revoked::NotHeld);
    }
    let second = state(&operator).await;
    assert_eq!(operator.revoke(&second, Revoke::NowAlsoForeign).await.expect("an answer"), Revoked::Done);
    assert_eq!(harness.server.item(LOCK), None);
    assert_eq!(operator.revoke(&second, Revoke::NowAlsoForeign).await.expect("an answer"), Revoked::NotHeld);
}
