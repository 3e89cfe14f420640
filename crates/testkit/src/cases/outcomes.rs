//! What becomes of requests whose replies are missing.

use std::sync::Arc;
use std::time::Duration;

use latchwork::{Client, Effect, ErrorKind};

use super::support::{LONG, hold, nothing_left, pause, waiters};
use crate::Fixture;
use crate::flaky::{Fault, Faults, Flaky};
use crate::recorder::{Event, Recorder};

const A_WHILE: Duration = Duration::from_millis(300);

async fn flaky<F: Fixture>(fixture: &F) -> (Client, Arc<Faults>) {
    let (engine, faults) = Flaky::new(fixture.engine().await);
    (Client::new(engine), faults)
}

/// Ends the fault as soon as a claim ran into it.
async fn mend_after_one_claim(faults: &Faults) {
    while faults.claims() == 0 {
        tokio::task::yield_now().await;
    }
    faults.claim(None);
}

pub(super) async fn a_claim_whose_reply_is_lost_is_asked_for_again<F: Fixture>(fixture: Arc<F>) {
    for wait in [Duration::ZERO, LONG] {
        let (engine, faults) = Flaky::new(fixture.engine().await);
        let recorder = Recorder::new(engine);
        let events = recorder.events();
        let client = Client::new(recorder);
        faults.claim(Some(Fault::ReplyLost));
        let lock = client.lock("unheard").wait(wait);
        let (acquired, ()) = tokio::join!(lock.acquire(), mend_after_one_claim(&faults));
        let guard = acquired.expect("it held all along");
        assert!(guard.is_certain());
        let sent: Vec<_> = events
            .lock()
            .expect("no panic while noting")
            .iter()
            .filter_map(|event| if let Event::Claim(_, id) = event { Some(*id) } else { None })
            .collect();
        assert!(sent.len() > 1 && sent.iter().all(|id| *id == sent[0]), "{sent:?}");
        guard.release().await.expect("held");
        nothing_left(&fixture.client().await, "unheard").await;
    }
}

pub(super) async fn a_claim_that_stays_unanswered_is_undone<F: Fixture>(fixture: Arc<F>) {
    let (client, faults) = flaky(&*fixture).await;
    let rival = fixture.client().await;
    // Once before: a first claim may have a session to begin, and nobody who does not wait waits for that.
    client.lock("undone").ttl(LONG).acquire().await.expect("free").release().await.expect("held");
    faults.claim(Some(Fault::ReplyLost));
    for wait in [Duration::ZERO, A_WHILE] {
        let error = client.lock("undone").ttl(LONG).wait(wait).acquire().await.expect_err("no answer");
        assert_eq!((error.kind(), error.effect()), (ErrorKind::Unreachable, Effect::None), "{error}");
        assert_eq!(error.may_be_held_until(), None, "{error}");
        hold(&rival, "undone").await.release().await.expect("held");
    }
}

pub(super) async fn an_error_says_until_when_the_lock_may_be_held<F: Fixture>(fixture: Arc<F>) {
    let (client, faults) = flaky(&*fixture).await;
    let clock = latchwork::engine::Engine::clock(&fixture.engine().await);
    faults.claim(Some(Fault::ReplyLost));
    faults.release(true);
    let error = client.lock("perhaps").ttl(LONG).wait(A_WHILE).acquire().await.expect_err("no answer");
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Unreachable, Effect::Unknown), "{error}");
    let until = error.may_be_held_until().expect("the release failed too");
    let left = until.since(clock.now());
    // It may have been queued, and be granted when its place in the queue is all but over.
    assert!(left > LONG && left <= LONG * 2, "{left:?}");
    assert!(error.to_string().contains("may be held for up to"), "{error}");
    assert!(fixture.client().await.lock("perhaps").try_acquire().await.expect("answers").is_none());
    // The janitor goes on until it succeeds.
    faults.release(false);
    faults.claim(None);
    client.close().await.expect("done long before the lease ends");
    nothing_left(&fixture.client().await, "perhaps").await;
}

pub(super) async fn an_outage_costs_a_waiter_nothing_but_time<F: Fixture>(fixture: Arc<F>) {
    let (client, faults) = flaky(&*fixture).await;
    let rival = fixture.client().await;
    let held = hold(&rival, "outage").await;
    let waiter = {
        let client = client.clone();
        tokio::spawn(async move { hold(&client, "outage").await })
    };
    waiters(&rival, "outage", 1).await;
    let newcomer = {
        let client = client.clone();
        faults.claim(Some(Fault::Refused));
        tokio::spawn(async move { hold(&client, "other").await })
    };
    pause(200).await;
    faults.claim(None);
    held.release().await.expect("held");
    waiter.await.expect("no panic").release().await.expect("held");
    newcomer.await.expect("no panic").release().await.expect("held");
}

pub(super) async fn an_outage_longer_than_the_wait_limit_is_told_as_one<F: Fixture>(fixture: Arc<F>) {
    let (client, faults) = flaky(&*fixture).await;
    faults.claim(Some(Fault::Refused));
    let error = client.lock("gone").wait(A_WHILE).acquire().await.expect_err("refused");
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Unreachable, Effect::None), "{error}");
    assert!(faults.claims() > 1, "tried once only");
    let before = faults.claims();
    let error = client.lock("gone").try_acquire().await.expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::Unreachable);
    assert_eq!(faults.claims(), before + 1, "there was nothing to find out");
}

pub(super) async fn a_claim_that_arrives_after_its_release_is_given_back<F: Fixture>(fixture: Arc<F>) {
    let (client, faults) = flaky(&*fixture).await;
    let rival = fixture.client().await;
    faults.claim(Some(Fault::ArrivesLate(A_WHILE)));
    let error = client.lock("late").ttl(LONG).try_acquire().await.expect_err("no answer");
    assert_eq!(error.kind(), ErrorKind::Unreachable);
    faults.claim(None);
    // It arrives and holds for nobody, until the janitor comes round again.
    let filter = latchwork::engine::Filter::Name(super::support::name("late"));
    while rival.inspect(&filter).await.expect("answers").is_empty() {
        pause(5).await;
    }
    let next = tokio::time::timeout(LONG / 4, hold(&rival, "late"));
    next.await.expect("long before its lease ends").release().await.expect("held");
}

pub(super) async fn closing_waits_for_what_goes_on_in_the_background<F: Fixture>(fixture: Arc<F>) {
    let client = fixture.client().await;
    let guards = [hold(&client, "close a").await, hold(&client, "close b").await];
    fixture.hinder(Duration::from_millis(50));
    drop(guards);
    client.close().await.expect("within its limit");
    fixture.hinder(Duration::ZERO);
    for lock in ["close a", "close b"] {
        let filter = latchwork::engine::Filter::Name(super::support::name(lock));
        assert!(client.inspect(&filter).await.expect("answers").is_empty());
    }
    hold(&client, "close a").await.release().await.expect("a closed client can still be used");
}
