//! Leases are renewed while the holder lives, and a holder learns when they are not.

use std::sync::Arc;
use std::time::Duration;

use latchwork::engine::{Filter, Lifetime, Revoke, Revoked};
use latchwork::{ErrorKind, Loss};

use super::support::{LONG, hold, name, nothing_left, pause, removed, revocation, rose, token};
use crate::Fixture;

pub(super) async fn work_longer_than_the_ttl_keeps_its_lock<F: Fixture>(fixture: Arc<F>) {
    let (one, two) = (fixture.client().await, fixture.client().await);
    let ttl = F::STEADY;
    let guard = one.lock("long work").ttl(ttl).acquire().await.expect("free");
    for _ in 0..3 {
        pause(ttl.as_millis() as u64 / 2).await;
        assert!(guard.is_certain());
        assert!(two.lock("long work").try_acquire().await.expect("answers").is_none());
    }
    guard.release().await.expect("still held");
    nothing_left(&two, "long work").await;
}

pub(super) async fn blocked_user_code_does_not_starve_renewal<F: Fixture>(fixture: Arc<F>) {
    let ttl = F::STEADY;
    let guard = fixture.client().await.lock("blocked").ttl(ttl).acquire().await.expect("free");
    // More blocking tasks than the runtime has worker threads.
    let blockers = (0..3).map(|_| tokio::spawn(async move { std::thread::sleep(ttl * 3 / 2) }));
    let blockers = blockers.collect::<Vec<_>>();
    std::thread::sleep(ttl * 3 / 2);
    assert!(guard.is_certain(), "every worker was blocked for longer than a lease");
    for blocker in blockers {
        blocker.await.expect("no panic");
    }
    guard.release().await.expect("still held");
}

pub(super) async fn the_holder_is_told_before_its_lease_ends_when_the_engine_is_gone<F: Fixture>(
    fixture: Arc<F>,
) {
    let client = fixture.client().await;
    let guard = client.lock("cut off").ttl(F::STEADY).acquire().await.expect("free");
    pause(F::STEADY.as_millis() as u64 / 4).await;
    fixture.breaks().await;
    let loss = guard.lost().await;
    assert_eq!(loss, if F::IS_A_CONNECTION { Loss::SessionEnded } else { Loss::Unreachable });
    assert!(!guard.is_certain() && guard.remaining().is_zero());
    fixture.mend().await;
    // The loss is reported before the end: the lease still runs at this moment, unless the machine was very
    // slow.
    let error = guard.release().await.expect_err("the lock was lost");
    assert_eq!(error.kind(), ErrorKind::Lost);
    nothing_left(&fixture.client().await, "cut off").await;
}

pub(super) async fn a_holder_whose_claim_was_removed_is_told_at_the_next_renewal<F: Fixture>(
    fixture: Arc<F>,
) {
    let client = fixture.client().await;
    let guard = client.lock("flushed").ttl(F::STEADY).acquire().await.expect("free");
    fixture.destroy().await;
    let loss = tokio::time::timeout(F::STEADY, guard.lost()).await.expect("told within the lease");
    assert_eq!(loss, removed::<F>());
    assert_eq!(guard.release().await.expect_err("lost").kind(), ErrorKind::Lost);
}

pub(super) async fn a_revoked_lock_is_reported_and_becomes_free<F: Fixture>(fixture: Arc<F>) {
    let (holder, operator) = (fixture.client().await, fixture.client().await);
    let guard = holder.lock("stuck").ttl(F::STEADY).acquire().await.expect("free");
    let state = operator.inspect(&Filter::Name(name("stuck"))).await.expect("answers").remove(0);
    let (how, loss) = revocation::<F>();
    assert_eq!(operator.revoke(&state, how).await.expect("answers"), Revoked::Done);
    assert!(
        how == Revoke::Now || operator.lock("stuck").try_acquire().await.expect("answers").is_none(),
        "not before the lease ends"
    );
    assert_eq!(guard.lost().await, loss);
    if F::guarantees().lives_with_session {
        // There is no lease to end: the lock becomes free when its holder releases it.
        assert_eq!(guard.release().await.expect_err("lost").kind(), ErrorKind::Lost);
        return nothing_left(&operator, "stuck").await;
    }
    let next = operator.lock("stuck").wait(LONG).acquire().await.expect("the lock becomes free");
    assert_eq!(guard.release().await.expect_err("lost").kind(), ErrorKind::Lost);
    assert_eq!(
        operator.revoke(&state, Revoke::Now).await.expect("answers"),
        Revoked::NotHeld,
        "the lock has moved on"
    );
    assert!(next.is_certain());
    next.release().await.expect("held");
}

pub(super) async fn a_lock_revoked_at_once_is_free_at_once<F: Fixture>(fixture: Arc<F>) {
    let (holder, operator) = (fixture.client().await, fixture.client().await);
    for contended in [false, true] {
        let guard = hold(&holder, "urgent").await;
        let waiter = contended.then(|| {
            let client = operator.clone();
            tokio::spawn(async move { hold(&client, "urgent").await })
        });
        super::support::waiters(&operator, "urgent", usize::from(contended)).await;
        let state = operator.inspect(&Filter::Name(name("urgent"))).await.expect("answers").remove(0);
        assert_eq!(operator.revoke(&state, Revoke::Now).await.expect("answers"), Revoked::Done);
        let next = match waiter {
            Some(waiter) => waiter.await.expect("no panic"),
            None => operator.lock("urgent").try_acquire().await.expect("answers").expect("free at once"),
        };
        let has_tokens = fixture.has_tokens();
        assert!(rose(has_tokens, token(has_tokens, &guard), token(has_tokens, &next)));
        assert_eq!(
            guard.release().await.expect_err("lost").kind(),
            ErrorKind::Lost,
            "the release is harmless"
        );
        assert!(next.is_certain());
        next.release().await.expect("held");
    }
}

/// Also if another client has acquired the lock since, and if the holder has not renewed before.
pub(super) async fn a_holder_whose_lock_was_revoked_at_once_is_told_of_the_revocation<F: Fixture>(
    fixture: Arc<F>,
) {
    let (holder, operator) = (fixture.client().await, fixture.client().await);
    // Where every claim depends on the session, a node is watched only after it was read once.
    let at_once = (!F::guarantees().lives_with_session).then_some(Duration::ZERO);
    for (contended, after) in
        at_once.into_iter().chain([F::STEADY / 2]).flat_map(|after| [(false, after), (true, after)])
    {
        let guard = holder.lock("told").ttl(F::STEADY).acquire().await.expect("free");
        let waiter = contended.then(|| {
            let client = operator.clone();
            tokio::spawn(async move { hold(&client, "told").await })
        });
        if F::guarantees().lists_waiters {
            super::support::waiters(&operator, "told", usize::from(contended)).await;
        }
        tokio::time::sleep(after).await;
        let state = operator.inspect(&Filter::Name(name("told"))).await.expect("answers").remove(0);
        assert_eq!(operator.revoke(&state, Revoke::Now).await.expect("answers"), Revoked::Done);
        let next = match waiter {
            Some(waiter) => waiter.await.expect("no panic"),
            None => hold(&operator, "told").await,
        };
        let told = tokio::time::timeout(F::STEADY * 3, guard.lost()).await.expect("told in time");
        assert!(told == Loss::Revoked, "told {told:?}; contended {contended}, after {after:?}");
        assert_eq!(guard.release().await.expect_err("lost").kind(), ErrorKind::Lost);
        assert!(next.is_certain(), "the release is harmless");
        next.release().await.expect("held");
        nothing_left(&operator, "told").await;
    }
    if at_once.is_some() {
        // The release is the first request to meet the revocation: the next renewal is far away.
        let guard = hold(&holder, "released").await;
        let state = operator.inspect(&Filter::Name(name("released"))).await.expect("answers").remove(0);
        operator.revoke(&state, Revoke::Now).await.expect("answers");
        let error = guard.release().await.expect_err("lost").to_string();
        assert!(error.contains(&Loss::Revoked.to_string()), "{error}");
        nothing_left(&operator, "released").await;
    }
}

pub(super) async fn a_claim_bound_to_its_session_needs_no_renewal<F: Fixture>(fixture: Arc<F>) {
    let (one, two) = (fixture.client().await, fixture.client().await);
    let lock = one.lock("bound").ttl(F::STEADY).lifetime(Lifetime::Session);
    let guard = lock.acquire().await.expect("free");
    pause(F::STEADY.as_millis() as u64 * 3 / 2).await;
    assert!(guard.is_certain());
    assert!(two.lock("bound").try_acquire().await.expect("answers").is_none());
    guard.release().await.expect("held");
    nothing_left(&two, "bound").await;
    // The loss is reported nevertheless when the lock is taken away.
    let guard = lock.acquire().await.expect("free");
    let state = two.inspect(&Filter::Name(name("bound"))).await.expect("answers").remove(0);
    two.revoke(&state, Revoke::Now).await.expect("answers");
    tokio::time::timeout(F::STEADY * 2, guard.lost()).await.expect("the loss is reported at the next check");
}

pub(super) async fn a_guard_dropped_outside_a_runtime_is_released<F: Fixture>(fixture: Arc<F>) {
    let (one, two) = (fixture.client().await, fixture.client().await);
    let guard = hold(&one, "outside").await;
    std::thread::spawn(move || drop(guard)).join().expect("no panic");
    nothing_left(&two, "outside").await;
    let panicking = hold(&one, "outside").await;
    let panicked = tokio::spawn(async move {
        let _held = panicking;
        std::panic::resume_unwind(Box::new("on purpose"));
    });
    panicked.await.expect_err("the task panicked");
    nothing_left(&two, "outside").await;
}

pub(super) async fn a_failed_release_is_retried_in_the_background<F: Fixture>(fixture: Arc<F>) {
    let client = fixture.client().await;
    let guard = hold(&client, "stubborn").await;
    fixture.breaks().await;
    guard.release().await.expect_err("the engine is broken");
    fixture.mend().await;
    let next = client.lock("stubborn").wait(Duration::from_secs(10)).acquire().await;
    next.expect("released long before its lease of twenty seconds").release().await.expect("held");
    nothing_left(&fixture.client().await, "stubborn").await;
}

pub(super) async fn a_client_outlives_the_runtime_it_was_used_in<F: Fixture>(fixture: Arc<F>) {
    let client = fixture.client().await;
    let rival = hold(&client, "waited for").await;
    let (first, other) = (client.clone(), fixture.client().await);
    let used = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let waiting = other.clone();
        runtime.spawn(async move { hold(&waiting, "waited for").await });
        let owned = first.clone();
        runtime.spawn(async move {
            let _held = hold(&owned, "owned by a task").await;
            std::future::pending::<()>().await
        });
        runtime.block_on(async {
            drop(hold(&first, "dropped at the end").await);
            pause(20).await;
            drop(hold(&first, "dropped at the end").await);
        });
        drop(runtime); // Must end, though tasks wait and hold.
        other
    };
    let other = tokio::task::spawn_blocking(used).await.expect("no panic");
    let free = Duration::from_secs(5);
    for lock in ["dropped at the end", "owned by a task"] {
        client
            .lock(lock)
            .wait(free)
            .acquire()
            .await
            .expect("the lock is released and not left to its ttl")
            .release()
            .await
            .expect("held");
    }
    rival.release().await.expect("held");
    other
        .lock("waited for")
        .wait(free)
        .acquire()
        .await
        .expect("works in another runtime")
        .release()
        .await
        .expect("held");
}

pub(super) async fn a_runtime_that_is_not_driven_withholds_no_notification_from_others<F: Fixture>(
    fixture: Arc<F>,
) {
    let (holder, waiter) = (fixture.client().await, fixture.client().await);
    let (asleep, awake) = (hold(&holder, "asleep").await, hold(&holder, "awake").await);
    let sleepy = waiter.clone();
    let idle = tokio::task::spawn_blocking(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.spawn(async move { drop(sleepy.lock("asleep").acquire().await) });
        runtime.block_on(pause(50));
        runtime
    });
    let idle = idle.await.expect("no panic");
    let waiting = tokio::spawn(async move { hold(&waiter, "awake").await });
    super::support::waiters(&holder, "awake", 1).await;
    awake.release().await.expect("held");
    let served = tokio::time::timeout(Duration::from_secs(5), waiting).await;
    drop(served.expect("the notification reached the running runtime"));
    asleep.release().await.expect("held");
    idle.shutdown_background();
}
