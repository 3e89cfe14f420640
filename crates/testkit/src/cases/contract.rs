//! The rules an engine keeps, one case or more each.

use std::sync::Arc;
use std::time::Duration;

use latchwork::engine::{Engine, Filter, Grant, Released, Renewal, Revoke, Revoked, Verdict, Wake};
use latchwork::{Effect, Loss};

use super::support::{
    LONG, busy, granted, granted_soon, name, pause, revocation, revoked_now, rose, told_until, trying,
    waiting,
};
use crate::{Fixture, cut};

pub(super) async fn a_repeated_claim_gives_the_same_answer<F: Fixture>(fixture: Arc<F>) {
    let (one, two) = (fixture.engine().await, fixture.engine().await);
    let holder = waiting("c1", LONG);
    let first = granted(&one, &holder).await;
    assert_eq!(granted(&one, &holder).await.token, first.token);
    let waiter = waiting("c1", LONG);
    let place = busy(&two, &waiter).await.position;
    assert_eq!(busy(&two, &waiter).await.position, place, "asked again, it must not queue twice");
    assert_eq!(granted(&one, &holder).await.token, first.token, "also when others wait");
    one.release(&holder).await.expect("answers");
    let second = granted(&two, &waiter).await;
    assert!(rose(fixture.has_tokens(), first.token, second.token));
    assert_eq!(granted(&two, &waiter).await.token, second.token, "also after a hand-over");
    two.release(&waiter).await.expect("answers");
}

pub(super) async fn a_release_is_safe_at_any_time_and_touches_no_other_claim<F: Fixture>(fixture: Arc<F>) {
    let (one, two) = (fixture.engine().await, fixture.engine().await);
    let (first, second) = (trying("c2", F::SHORT), trying("c2", LONG));
    assert_eq!(one.release(&first).await.expect("answers"), Released::NotHeld, "before it was ever claimed");
    granted(&one, &first).await;
    assert_eq!(two.release(&second).await.expect("answers"), Released::NotHeld, "blind, beside a holder");
    if F::guarantees().lives_with_session {
        // It would last as long as its session: an operator ends it.
        let state = two.inspect(&Filter::Name(name("c2"))).await.expect("answers").remove(0);
        assert_eq!(two.revoke(&state, Revoke::Now).await.expect("answers"), Revoked::Done);
    }
    pause(F::SHORT.as_millis() as u64 + 50).await;
    let token = granted_soon(&two, &second).await.token;
    assert_eq!(one.release(&first).await.expect("answers"), Released::NotHeld, "late, after the lease ended");
    assert_eq!(granted(&two, &second).await.token, token, "the later holder was not touched");
    assert_eq!(two.release(&second).await.expect("answers"), Released::Freed);
    assert_eq!(two.release(&second).await.expect("answers"), Released::NotHeld, "twice");
}

pub(super) async fn nobody_else_is_granted_before_the_deadline_that_was_told<F: Fixture>(fixture: Arc<F>) {
    if F::guarantees().lives_with_session {
        return nobody_else_is_granted_before_the_session_ends(&*fixture).await;
    }
    let (one, two) = (fixture.engine().await, fixture.engine().await);
    let clock = one.clock();
    let sent = clock.now();
    let until = told_until(&granted(&one, &trying("c4", F::SHORT)).await, sent);
    let other = trying("c4", F::SHORT);
    loop {
        let asked = two.claim(&other).await.expect("answers");
        if let Verdict::Granted(_) = asked {
            break;
        }
        pause(1).await;
    }
    assert!(clock.now() >= until, "granted to another while the first was told it holds");
    assert!(clock.now() < until.after(F::STEADY + F::ENDS_LATE), "an unrenewed lease ends");
}

/// The same where a claim ends with its session: that is cut off, while a rival reaches the server on another way.
async fn nobody_else_is_granted_before_the_session_ends<F: Fixture>(fixture: &F) {
    let one = fixture.engine().await;
    let rival = latchwork::connect(&fixture.url().expect("shared between processes")).await.expect("reached");
    let (clock, claim) = (one.clock(), Arc::new(trying("c4", F::SHORT)));
    granted(&one, &claim).await;
    // A connection has no signs of life of its own.
    let span = if F::IS_A_CONNECTION { F::SHORT / 2 } else { F::SHORT * 2 };
    pause(span.as_millis() as u64).await;
    let sent = clock.now();
    let Ok(Renewal::Kept(valid)) = one.renew(std::slice::from_ref(&claim)).await.remove(0) else {
        panic!("it lasts while its session does");
    };
    let until = told_until(&Grant { token: None, valid }, sent);
    match F::IS_A_CONNECTION {
        // It would end with its connection: nothing more is heard on that.
        true => fixture.hinder(LONG),
        false => fixture.breaks().await,
    }
    while rival.lock("c4").try_acquire().await.expect("answers").is_none() {
        pause(1).await;
    }
    assert!(clock.now() >= until, "granted to another while the first was told it holds");
    assert!(clock.now() < until.after(F::STEADY), "a session that nothing is heard of ends");
}

pub(super) async fn a_handed_over_grant_is_above_the_floor<F: Fixture>(fixture: Arc<F>) {
    let (one, two) = (fixture.engine().await, fixture.engine().await);
    let (holder, waiter) = (trying("floor", LONG), waiting("floor", LONG));
    granted(&one, &holder).await;
    let answer = busy(&two, &waiter).await;
    let (wake, _) = tokio::join!(two.wait(&waiter, &answer), async {
        pause(20).await;
        one.release(&holder).await.expect("answers")
    });
    let token = match wake.expect("answers") {
        Wake::Granted(grant) => grant.token,
        Wake::Recheck => granted(&two, &waiter).await.token,
    };
    assert!(answer.floor.is_none() || token > answer.floor, "{token:?} is not above {:?}", answer.floor);
    two.release(&waiter).await.expect("answers");
}

pub(super) async fn an_error_says_that_nothing_was_done_and_nothing_was<F: Fixture>(fixture: Arc<F>) {
    let engine = fixture.engine().await;
    let claim = trying("c5", LONG);
    let other = trying("c5 other", LONG);
    granted(&engine, &other).await;
    fixture.breaks().await;
    let mut error = engine.claim(&claim).await.expect_err("it is broken");
    if error.effect() == Effect::Unknown {
        // It was this request that found the connection closed; the next claim has none.
        error = engine.claim(&trying("c5 again", LONG)).await.expect_err("it is broken");
    }
    assert_eq!(error.effect(), Effect::None, "{error}");
    let error = engine.release(&other).await.expect_err("it is broken");
    fixture.mend().await;
    let fresh = fixture.engine().await;
    let held = fresh.inspect(&Filter::Name(name("c5 other"))).await.expect("answers");
    assert!(error.effect() == Effect::Unknown || held.len() == 1, "said to have done nothing: {error}");
    assert!(fresh.inspect(&Filter::Name(name("c5"))).await.expect("answers").is_empty());
}

pub(super) async fn a_dropped_wait_misses_nothing<F: Fixture>(fixture: Arc<F>) {
    let (one, two) = (fixture.engine().await, fixture.engine().await);
    // Zero: the news comes between the answer and the first wait.
    for polls in 0..6 {
        let (holder, waiter) = (trying("c6", LONG), waiting("c6", LONG));
        granted(&one, &holder).await;
        let answer = busy(&two, &waiter).await;
        let dropped = cut::after_polls(two.wait(&waiter, &answer), polls);
        let _ = tokio::time::timeout(Duration::from_millis(5), dropped).await;
        one.release(&holder).await.expect("answers");
        let wake = tokio::time::timeout(Duration::from_secs(5), two.wait(&waiter, &answer)).await;
        wake.expect("news from before the second wait must not be lost").expect("answers");
        granted(&two, &waiter).await;
        two.release(&waiter).await.expect("answers");
    }
}

pub(super) async fn a_hundred_ids_of_one_session_get_one_grant<F: Fixture>(fixture: Arc<F>) {
    let engine = Arc::new(fixture.engine().await);
    let claims = (0..100).map(|_| {
        let engine = engine.clone();
        tokio::spawn(async move {
            let claim = trying("c7", LONG);
            matches!(engine.claim(&claim).await.expect("answers"), Verdict::Granted(_))
        })
    });
    let mut grants = 0;
    for claim in claims.collect::<Vec<_>>() {
        grants += usize::from(claim.await.expect("no panic"));
    }
    assert!(grants == 1 || F::SPLITS_VOTES && grants == 0, "{grants} grants");
}

pub(super) async fn a_renewal_never_revives_what_was_released_expired_or_revoked<F: Fixture>(
    fixture: Arc<F>,
) {
    let engine = fixture.engine().await;
    let renew = async |claim: &Arc<latchwork::engine::Claim>| {
        engine.renew(std::slice::from_ref(claim)).await.remove(0).expect("answers")
    };
    let released = Arc::new(trying("c8 released", LONG));
    granted(&engine, &released).await;
    assert!(matches!(renew(&released).await, Renewal::Kept(_)));
    engine.release(&released).await.expect("answers");
    assert!(matches!(renew(&released).await, Renewal::Lost(_)));
    assert!(engine.inspect(&Filter::Name(name("c8 released"))).await.expect("answers").is_empty());

    let revoked = Arc::new(trying("c8 revoked", LONG));
    granted(&engine, &revoked).await;
    let state = engine.inspect(&Filter::Name(name("c8 revoked"))).await.expect("answers").remove(0);
    let (how, loss) = revocation::<F>();
    engine.revoke(&state, how).await.expect("answers");
    assert_eq!(renew(&revoked).await, Renewal::Lost(loss));

    if F::guarantees().lives_with_session {
        let ended = Arc::new(trying("c8 ended", F::SHORT));
        granted(&engine, &ended).await;
        fixture.breaks().await;
        pause(F::SHORT.as_millis() as u64 * 2).await;
        fixture.mend().await;
        // Another session takes the place of the one that ended; this claim does not come along.
        let free = async { granted(&engine, &trying("c8 next", LONG)).await };
        tokio::time::timeout(LONG, free).await.expect("there is a new session");
        assert_eq!(renew(&ended).await, Renewal::Lost(Loss::SessionEnded));
        return;
    }

    let expired = Arc::new(trying("c8 expired", F::SHORT));
    granted(&engine, &expired).await;
    pause((F::SHORT + F::ENDS_LATE).as_millis() as u64 + 20).await;
    assert!(matches!(renew(&expired).await, Renewal::Lost(_)), "although nobody has taken it since");
    granted(&engine, &trying("c8 expired", LONG)).await;

    // The same on the contended path, where the claim stands in a queue.
    let (queued, waiter) = (Arc::new(waiting("c8 queued", F::SHORT)), waiting("c8 queued", LONG));
    granted(&engine, &queued).await;
    busy(&engine, &waiter).await;
    assert!(matches!(renew(&queued).await, Renewal::Kept(_)));
    pause((F::SHORT + F::ENDS_LATE).as_millis() as u64 + 20).await;
    assert!(matches!(renew(&queued).await, Renewal::Lost(_)));
    granted(&engine, &waiter).await;
}

pub(super) async fn a_removed_claim_is_told_long_before_its_next_renewal<F: Fixture>(fixture: Arc<F>) {
    let ttl = Duration::from_secs(9);
    let (client, operator) = (fixture.client().await, fixture.client().await);
    let guard = client.lock("c14").ttl(ttl).acquire().await.expect("free");
    // An engine may begin to listen with the first renewal, at a third of the ttl.
    pause(3_500).await;
    let state = operator.inspect(&Filter::Name(name("c14"))).await.expect("answers").remove(0);
    assert_eq!(operator.revoke(&state, Revoke::Now).await.expect("answers"), Revoked::Done);
    let loss = tokio::time::timeout(Duration::from_secs(2), guard.lost()).await;
    assert_eq!(loss.expect("told long before 6 s are over"), revoked_now::<F>());
}
