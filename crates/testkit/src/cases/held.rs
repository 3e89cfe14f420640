//! The state of a held lock, and work that ends with it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use latchwork::engine::{Filter, Revoke};
use latchwork::{Client, Error, ErrorKind, Loss};

use super::support::{LONG, hold, name, nothing_left, pause, removed, revoked_now, token};
use crate::Fixture;

async fn take_away(client: &Client, lock: &str) {
    let state = client.inspect(&Filter::Name(name(lock))).await.expect("answers").remove(0);
    client.revoke(&state, Revoke::Now).await.expect("answers");
}

pub(super) async fn a_view_reports_the_state_of_its_guard_and_no_more<F: Fixture>(fixture: Arc<F>) {
    let client = fixture.client().await;
    let guard = hold(&client, "seen").await;
    let (view, next) = (guard.held(), client.clone());
    assert!(view.is_certain() && view.remaining() <= LONG && !view.remaining().is_zero());
    assert_eq!(view.token().ok(), token(fixture.has_tokens(), &guard));
    // The lock is handed to another task of the client: the claim is the same, the view's guard is not.
    let next = tokio::spawn(async move { hold(&next, "seen").await });
    pause(20).await;
    guard.release().await.expect("held");
    let next = next.await.expect("no panic");
    assert!(next.is_certain() && !view.is_certain() && view.remaining().is_zero());
    let (after, lost) = (next.held(), view.clone());
    next.release().await.expect("held");
    assert!(!after.is_certain());
    let told = tokio::time::timeout(Duration::from_millis(50), lost.lost()).await;
    assert!(told.is_err(), "a release is not a loss: {told:?}");
}

pub(super) async fn work_is_dropped_when_its_lock_is_lost<F: Fixture>(fixture: Arc<F>) {
    struct Flag(Arc<AtomicBool>);
    impl Drop for Flag {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }
    let (client, operator) = (fixture.client().await, fixture.client().await);
    let dropped = Arc::new(AtomicBool::new(false));
    let (flag, lock) = (Flag(dropped.clone()), client.lock("work").ttl(F::STEADY));
    let (begin, begun) = tokio::sync::oneshot::channel();
    let work = tokio::spawn(async move {
        lock.run(async |_| {
            let _flag = flag;
            begin.send(()).expect("waited for");
            std::future::pending::<Result<(), Error>>().await
        })
        .await
    });
    begun.await.expect("it is held");
    take_away(&operator, "work").await;
    let error = work.await.expect("no panic").expect_err("lost");
    assert_eq!(error.kind(), ErrorKind::Lost);
    // On ZooKeeper only a holder that was renewed before learns that the loss was a revocation.
    let says = |loss: Loss| error.to_string().contains(&loss.to_string());
    assert!(says(revoked_now::<F>()) || says(removed::<F>()), "the error has the reason: {error}");
    assert!(dropped.load(Ordering::SeqCst));
    nothing_left(&client, "work").await;
}

pub(super) async fn work_returns_its_result_and_releases_the_lock<F: Fixture>(fixture: Arc<F>) {
    #[derive(Debug, PartialEq)]
    enum Mine {
        Lock(ErrorKind),
        Work,
    }
    impl From<Error> for Mine {
        fn from(error: Error) -> Self {
            Self::Lock(error.kind())
        }
    }
    let (client, rival) = (fixture.client().await, fixture.client().await);
    let lock = client.lock("result").ttl(LONG).wait(Duration::ZERO);
    let value = lock.run(async |held| Ok::<_, Mine>(held.token().ok())).await;
    assert_eq!(value.expect("its own").is_some(), F::guarantees().tokens.is_some());
    hold(&rival, "result").await.release().await.expect("the lock was released before run returned");
    let failed = lock.run(async |_| Err::<(), _>(Mine::Work)).await;
    assert_eq!(failed, Err(Mine::Work));
    let held = rival
        .lock("result")
        .try_acquire()
        .await
        .expect("answers")
        .expect("the lock was released nevertheless");
    let refused = lock.run(async |_| Ok::<_, Mine>(())).await;
    assert_eq!(refused, Err(Mine::Lock(ErrorKind::Busy)));
    held.release().await.expect("held");
    // The lock was lost so shortly before the end that the work had not been told yet.
    let taken = lock
        .run(async |_| {
            take_away(&rival, "result").await;
            Ok::<_, Mine>(())
        })
        .await;
    assert_eq!(taken, Err(Mine::Lock(ErrorKind::Lost)));
}

pub(super) async fn no_client_holds_longer_than_max_hold<F: Fixture>(fixture: Arc<F>) {
    let (client, rival) = (fixture.client().await, fixture.client().await);
    let lock = client.lock("bounded").ttl(F::STEADY).max_hold(F::STEADY * 3 / 2);
    let guard = lock.acquire().await.expect("free");
    pause(F::STEADY.as_millis() as u64 * 5 / 4).await;
    assert!(guard.is_certain(), "renewed until then");
    assert_eq!(guard.lost().await, Loss::HeldTooLong);
    if F::guarantees().lives_with_session {
        // There is no lease to end: the lock becomes free when its holder releases it.
        assert_eq!(guard.release().await.expect_err("lost").kind(), ErrorKind::Lost);
        return nothing_left(&rival, "bounded").await;
    }
    let next =
        rival.lock("bounded").ttl(LONG).wait(LONG).acquire().await.expect("the lock becomes free by itself");
    assert_eq!(guard.release().await.expect_err("lost").kind(), ErrorKind::Lost);
    assert!(next.is_certain());
    next.release().await.expect("held");
}
