//! Requests whose replies are missing.

use std::sync::Arc;
use std::time::Duration;

use latchwork::clock::Clock;
use latchwork::engine::Filter;
use latchwork::{Client, Effect, Error, ErrorKind, Wait, blocking};

use super::support::{LONG, hold, name, nothing_left, pause, waiters};
use crate::Fixture;
use crate::faulty_engine::{ClaimFault, EngineFaults, FaultyEngine};
use crate::recording_engine::{EngineEvent, RecordingEngine};

/// Long enough for an answer from a machine that stalls meanwhile: without any answer, the error would be
/// another.
const A_WHILE: Duration = Duration::from_secs(2);

async fn flaky<F: Fixture>(fixture: &F) -> (Client, Arc<EngineFaults>) {
    let (engine, faults) = FaultyEngine::new(fixture.engine().await);
    (Client::new(engine), faults)
}

/// Ends the fault as soon as a claim has hit it.
async fn mend_after_one_claim(faults: &EngineFaults) {
    while faults.claims() == 0 {
        tokio::task::yield_now().await;
    }
    faults.claim(None);
}

pub(super) async fn a_claim_whose_reply_is_lost_is_retried<F: Fixture>(fixture: Arc<F>) {
    for wait in [Duration::ZERO, LONG] {
        let (engine, faults) = FaultyEngine::new(fixture.engine().await);
        let recorder = RecordingEngine::new(engine);
        let events = recorder.events();
        let client = Client::new(recorder);
        faults.claim(Some(ClaimFault::ReplyLost));
        let lock = client.lock("unheard").wait(wait);
        let (acquired, ()) = tokio::join!(lock.acquire(), mend_after_one_claim(&faults));
        let guard = acquired.expect("it held the lock all along");
        assert!(guard.is_certain());
        let sent: Vec<_> = events
            .lock()
            .expect("no thread panicked while recording")
            .iter()
            .filter_map(|event| if let EngineEvent::Claim(_, id) = event { Some(*id) } else { None })
            .collect();
        assert!(sent.len() > 1 && sent.iter().all(|id| *id == sent[0]), "{sent:?}");
        guard.release().await.expect("held");
        nothing_left(&fixture.client().await, "unheard").await;
    }
}

pub(super) async fn a_claim_that_stays_unanswered_is_undone<F: Fixture>(fixture: Arc<F>) {
    let (client, faults) = flaky(&*fixture).await;
    let rival = fixture.client().await;
    // Once before: the first claim may have to start a session, and a try does not wait for that.
    client.lock("undone").ttl(LONG).acquire().await.expect("free").release().await.expect("held");
    faults.claim(Some(ClaimFault::ReplyLost));
    for wait in [Duration::ZERO, A_WHILE] {
        let error = client.lock("undone").ttl(LONG).wait(wait).acquire().await.expect_err("no answer");
        assert_eq!((error.kind(), error.effect()), (ErrorKind::Unreachable, Effect::None), "{error}");
        assert_eq!(error.may_be_held_until(), None, "{error}");
        hold(&rival, "undone").await.release().await.expect("held");
    }
}

pub(super) async fn an_error_tells_until_when_the_lock_may_be_held<F: Fixture>(fixture: Arc<F>) {
    let (client, faults) = flaky(&*fixture).await;
    let clock = latchwork::engine::Engine::clock(&fixture.engine().await);
    faults.claim(Some(ClaimFault::ReplyLost));
    faults.release(true);
    let error = client.lock("perhaps").ttl(LONG).wait(A_WHILE).acquire().await.expect_err("no answer");
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Unreachable, Effect::Unknown), "{error}");
    let until = error.may_be_held_until().expect("the release failed too");
    let left = until.since(clock.now());
    // The claim may have been queued, and may be granted when its queue entry has almost expired.
    assert!(left > LONG && left <= LONG * 2, "{left:?}");
    assert!(error.to_string().contains("may be held for up to"), "{error}");
    assert!(fixture.client().await.lock("perhaps").try_acquire().await.expect("answers").is_none());
    // The janitor retries until it succeeds.
    faults.release(false);
    faults.claim(None);
    client.close().await.expect("work ends long before the lease");
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
        faults.claim(Some(ClaimFault::Refused));
        tokio::spawn(async move { hold(&client, "other").await })
    };
    pause(200).await;
    faults.claim(None);
    held.release().await.expect("held");
    waiter.await.expect("no panic").release().await.expect("held");
    newcomer.await.expect("no panic").release().await.expect("held");
}

pub(super) async fn an_outage_longer_than_the_wait_limit_is_reported_as_one<F: Fixture>(fixture: Arc<F>) {
    let (client, faults) = flaky(&*fixture).await;
    faults.claim(Some(ClaimFault::Refused));
    let error = client.lock("gone").wait(A_WHILE).acquire().await.expect_err("refused");
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Unreachable, Effect::None), "{error}");
    assert!(faults.claims() > 1, "tried once only");
    let before = faults.claims();
    let error = client.lock("gone").try_acquire().await.expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::Unreachable);
    assert_eq!(faults.claims(), before + 1, "the outcome was already known");
}

pub(super) async fn a_claim_that_arrives_after_its_release_is_released_again<F: Fixture>(fixture: Arc<F>) {
    let (client, faults) = flaky(&*fixture).await;
    let rival = fixture.client().await;
    faults.claim(Some(ClaimFault::ArrivesLate(Duration::from_millis(300))));
    let error = client.lock("late").ttl(LONG).try_acquire().await.expect_err("no answer");
    assert_eq!(error.kind(), ErrorKind::Unreachable);
    faults.claim(None);
    // The claim arrives and holds the lock without an owner until the janitor's next round. That is too short
    // to be observed on a machine that stalls meanwhile.
    while faults.arrived() == 0 {
        pause(5).await;
    }
    let next = tokio::time::timeout(LONG / 4, hold(&rival, "late"));
    next.await.expect("long before its lease ends").release().await.expect("held");
}

pub(super) async fn closing_a_client_waits_for_background_work<F: Fixture>(fixture: Arc<F>) {
    let client = fixture.client().await;
    let guards = [hold(&client, "close a").await, hold(&client, "close b").await];
    fixture.hinder(Duration::from_millis(50));
    drop(guards);
    client.close().await.expect("within its limit");
    fixture.hinder(Duration::ZERO);
    for lock in ["close a", "close b"] {
        assert!(client.inspect(&Filter::Name(name(lock))).await.expect("answers").is_empty(), "{lock}");
    }
    hold(&client, "close a").await.release().await.expect("a closed client can still be used");
}

/// No request failed within the wait limit, but one may be pending: on a busy machine this takes long.
fn is_unanswered(error: &Error) -> bool {
    error.kind() == ErrorKind::TimedOut && error.to_string().contains("did not answer")
}

/// An error of an engine that cannot be used, as opposed to an answer of a working engine.
fn is_of_the_engine(error: &Error) -> bool {
    let text = error.to_string();
    let is_answer = matches!(error.kind(), ErrorKind::Busy | ErrorKind::TimedOut) && !is_unanswered(error);
    !is_answer && !text.contains("another task of this client") && text.matches("may have acted").count() <= 1
}

pub(super) async fn an_error_before_anything_was_sent_reports_no_effect<F: Fixture>(fixture: Arc<F>) {
    let client = fixture.client().await;
    hold(&client, "unsent").await.release().await.expect("held");
    fixture.breaks().await;
    // The client may not know yet that its former connection is closed. This claim may be sent on it.
    client.lock("notices").try_acquire().await.expect_err("the connection is broken");
    for wait in [Duration::ZERO, A_WHILE] {
        let mut round = 0;
        let error = loop {
            let lock = client.lock(format!("unsent {round}")).ttl(LONG).wait(wait);
            match lock.acquire().await.expect_err("the connection is broken") {
                error if is_unanswered(&error) => round += 1,
                error => break error,
            }
        };
        let told = (error.effect(), error.may_be_held_until());
        assert_eq!(told, (Effect::None, None), "{error}");
        assert!(is_of_the_engine(&error), "{error}");
        let text = error.to_string();
        assert!(!text.contains("may have acted") && !text.contains("may be held"), "{text}");
    }
    fixture.mend().await;
    nothing_left(&client, "unsent 0").await;
}

/// Tries until the lock is granted. Every earlier answer is an error.
async fn granted_after_an_outage(client: &Client, lock: &str) {
    let clock = Clock::boottime();
    let patience = clock.now().after(LONG);
    loop {
        match client.lock(lock).ttl(LONG).try_acquire().await {
            Ok(Some(guard)) => return guard.release().await.map(drop).expect("held"),
            Ok(None) => panic!("no client holds {lock:?}"),
            Err(error) => assert!(is_of_the_engine(&error) && clock.now() < patience, "{error}"),
        }
        pause(10).await;
    }
}

pub(super) async fn a_try_while_the_server_is_down_reports_the_error<F: Fixture>(fixture: Arc<F>) {
    let client = fixture.client().await;
    hold(&client, "acquired").await.release().await.expect("held");
    let guard = hold(&client, "released").await;
    fixture.breaks().await;
    let error = client
        .lock("acquired")
        .ttl(LONG)
        .wait(A_WHILE)
        .acquire()
        .await
        .expect_err("the connection is broken");
    assert!(is_of_the_engine(&error), "{error}");
    guard.release().await.expect_err("the connection is broken");
    for lock in ["acquired", "released"] {
        let lock = client.lock(lock).ttl(LONG);
        for _ in 0..3 {
            match lock.try_acquire().await {
                Ok(tried) => panic!("{lock:?}: the server is down, and a try says {:?}", tried.map(drop)),
                Err(error) => assert!(is_of_the_engine(&error), "{error}"),
            }
            for wait in [Wait::Never, Wait::UpTo(Duration::from_millis(30))] {
                let error = lock.clone().wait(wait).acquire().await.expect_err("the connection is broken");
                assert!(is_of_the_engine(&error), "{wait:?}: {error}");
            }
        }
    }
    fixture.mend().await;
    for lock in ["acquired", "released"] {
        granted_after_an_outage(&client, lock).await;
    }
}

pub(super) async fn a_try_reports_a_failed_release_and_has_it_retried_at_once<F: Fixture>(fixture: Arc<F>) {
    let (client, faults) = flaky(&*fixture).await;
    let lock = client.lock("not given back").ttl(LONG);
    for round in 0..2 {
        faults.claim(Some(ClaimFault::ReplyLost));
        faults.release(true);
        let failed = lock.clone().wait(A_WHILE).acquire().await.expect_err("no answer");
        assert_eq!(failed.effect(), Effect::Unknown, "{failed}");
        let check = |error: Error| {
            let told = (error.kind(), error.effect(), error.may_be_held_until().is_some());
            assert_eq!(told, (ErrorKind::Unreachable, Effect::Unknown, true), "{error}");
            let text = error.to_string();
            assert!(text.contains("not given back") && text.contains("the connection broke"), "{text}");
            assert!(is_of_the_engine(&error), "{text}");
        };
        for _ in 0..10 {
            check(lock.try_acquire().await.expect_err("its release fails"));
        }
        for wait in [Wait::Never, Wait::UpTo(Duration::from_millis(30))] {
            check(lock.clone().wait(wait).acquire().await.expect_err("its release fails"));
        }
        let waiter = {
            let lock = lock.clone().wait(LONG);
            tokio::spawn(async move { lock.acquire().await })
        };
        faults.claim(None);
        if round == 0 {
            waiter.abort();
            let _ = waiter.await;
            faults.release(false);
            let guard = match lock.try_acquire().await {
                // The retry for the waiter may have been pending.
                Err(_) => lock.try_acquire().await.expect("answers"),
                Ok(guard) => guard,
            };
            guard.expect("a try has the failed release repeated first").release().await.expect("held");
        } else {
            pause(100).await;
            faults.release(false);
            waiter.await.expect("no panic").expect("in time").release().await.expect("held");
        }
    }
    nothing_left(&client, "not given back").await;
}

pub(super) async fn a_blocking_try_reports_a_failed_release<F: Fixture>(fixture: Arc<F>) {
    let (engine, faults) = FaultyEngine::new(fixture.engine().await);
    let on_a_thread = move || {
        let client = blocking::Client::new(engine).expect("a thread");
        let lock = client.lock("not given back").ttl(LONG);
        faults.claim(Some(ClaimFault::ReplyLost));
        faults.release(true);
        lock.clone().wait(A_WHILE).acquire().map(drop).expect_err("no answer");
        for tried in [lock.try_acquire().map(drop), lock.clone().wait(Wait::Never).acquire().map(drop)] {
            let error = tried.expect_err("its release fails");
            assert!(error.kind() == ErrorKind::Unreachable && is_of_the_engine(&error), "{error}");
        }
        faults.claim(None);
        faults.release(false);
        let guard = lock.try_acquire().expect("answers").expect("the lock is released first");
        guard.release().map(drop).expect("held");
    };
    tokio::task::spawn_blocking(on_a_thread).await.expect("no panic");
}

pub(super) async fn an_error_names_another_task_as_holder_only_if_one_holds_the_lock<F: Fixture>(
    fixture: Arc<F>,
) {
    let (client, rival) = (fixture.client().await, fixture.client().await);
    let lock = client.lock("whose").ttl(LONG);
    let wait = [Wait::Never, Wait::UpTo(Duration::from_millis(30))];
    let told = async || {
        let mut texts = Vec::new();
        for wait in wait {
            let error = lock.clone().wait(wait).acquire().await.expect_err("another client has the lock");
            assert!(matches!(error.kind(), ErrorKind::Busy | ErrorKind::TimedOut), "{error}");
            texts.push(error.to_string());
        }
        texts
    };
    let held = hold(&client, "whose").await;
    for text in told().await {
        assert!(text.contains("held by another task of this client"), "{text}");
    }
    held.release().await.expect("held");
    let held = hold(&rival, "whose").await;
    let waiter = tokio::spawn({
        let client = client.clone();
        async move { hold(&client, "whose").await }
    });
    waiters(&rival, "whose", 1).await;
    for text in told().await {
        assert!(!text.contains("held by another task of this client"), "{text}");
        assert!(text.contains("another task of this client waits for it"), "{text}");
    }
    held.release().await.expect("held");
    waiter.await.expect("no panic").release().await.expect("held");
}
