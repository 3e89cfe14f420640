//! Corner cases in which two rules of the core meet, under paused time where time matters.

use std::time::Duration;

use latchwork::clock::Moment;
use latchwork::engine::{Engine, Filter};
use latchwork::engines::{Memory, memory::Verb};
use latchwork::{Client, Effect, ErrorKind, Held, LockName, Loss};
use testkit::faulty_engine::{ClaimFault, FaultyEngine};

const SECOND: Duration = Duration::from_secs(1);

/// The time until which the server keeps the lock for its holder.
async fn held_until(memory: &Memory) -> Moment {
    let found = memory.inspect(&Filter::Prefix(String::new())).await.expect("the memory engine answers");
    let left = found[0].holders[0].expires_in.expect("a lease");
    memory.clock().now().after(left)
}

/// Far more calls than tokio's cooperative budget allows a task.
#[test]
fn a_task_may_make_any_number_of_blocking_calls() {
    let (sender, done) = std::sync::mpsc::channel();
    // On a thread of its own, so that a call that never returns is a failure and not a test that hangs.
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let client = latchwork::blocking::connect("memory:").expect("memory");
            for _ in 0..1_000 {
                client.lock("a").acquire().expect("free").release().expect("held");
            }
        });
        let _ = sender.send(());
    });
    done.recv_timeout(20 * SECOND).expect("all calls return");
}

/// This engine always has tokens.
#[tokio::test(start_paused = true)]
async fn a_fenced_lock_is_passed_on_like_any_other() {
    let client = Client::new(Memory::new());
    let guard = client.lock("a").acquire().await.expect("free");
    let (lock, token) = (client.lock("a").fenced(), guard.token().expect("tokens"));
    let next = tokio::spawn(async move { lock.acquire().await.expect("the lock becomes free") });
    tokio::time::sleep(Duration::from_millis(1)).await;
    guard.release().await.expect("held");
    let next = next.await.expect("no panic").token().expect("tokens");
    assert!(next > token && next.engine_token() == token.engine_token(), "passed: {token} {next}");
}

/// The claim is still in the queue, and will be granted without an owner.
#[tokio::test(start_paused = true)]
async fn a_waiter_that_could_not_withdraw_says_that_the_lock_may_be_held() {
    let memory = Memory::new();
    let (first, second) = (Client::new(memory.clone()), Client::new(memory.clone()));
    let _guard = first.lock("a").acquire().await.expect("free");
    memory.fail_always(Verb::Release, Some(Effect::None));
    let error = second.lock("a").wait(SECOND).acquire().await.expect_err("held");
    assert_eq!((error.kind(), error.effect()), (ErrorKind::TimedOut, Effect::Unknown), "{error}");
    assert!(error.may_be_held_until().is_some(), "{error}");
    memory.lose(&LockName::new("a").expect("a good name"));
    assert!(held_until(&memory).await > memory.clock().now());
}

/// The janitor pauses between two requests, and a try ends its pause.
#[tokio::test(start_paused = true)]
async fn concurrent_tries_retry_a_failed_release_once() {
    let (engine, faults) = FaultyEngine::new(Memory::new());
    let lock = Client::new(engine).lock("a");
    faults.claim(Some(ClaimFault::ReplyLost));
    faults.release(true);
    let error = lock.clone().wait(SECOND).acquire().await.expect_err("no answer");
    assert_eq!(error.effect(), Effect::Unknown, "{error}");
    tokio::time::sleep(Duration::from_millis(1)).await;
    let before = faults.releases();
    let tries: Vec<_> = (0..100)
        .map(|_| {
            let lock = lock.clone();
            tokio::spawn(async move {
                lock.try_acquire().await.map(drop).expect_err("the claim was not released")
            })
        })
        .collect();
    for tried in tries {
        let error = tried.await.expect("no panic");
        assert_eq!(error.kind(), ErrorKind::Unreachable, "{error}");
        assert_eq!(error.to_string().matches("may have acted").count(), 1, "{error}");
    }
    assert_eq!(faults.releases() - before, 1);
    faults.claim(None);
    faults.release(false);
    assert!(lock.try_acquire().await.expect("answers").is_some(), "the first try after the outage");
}

/// The wait limit passes while the claim is in flight. The claim continues in the background, and no task
/// waits for it.
#[tokio::test(start_paused = true)]
async fn a_try_waits_for_a_claim_that_no_task_waits_for() {
    let memory = Memory::new();
    let lock = Client::new(memory.clone()).lock("a");
    // No request takes longer than ten seconds: then the claim is released, and the lock is usable again.
    for span in [5 * SECOND, 60 * SECOND] {
        memory.delay(Verb::Claim, span);
        let error = lock.clone().wait(SECOND).acquire().await.expect_err("no answer");
        assert_eq!((error.kind(), error.effect()), (ErrorKind::TimedOut, Effect::Unknown), "{error}");
        memory.delay(Verb::Claim, Duration::ZERO);
        let waiting = lock.clone().wait(SECOND).acquire().await.expect_err("the claim is in flight");
        assert!(waiting.may_be_held_until().is_some(), "{waiting}");
        let tried = lock.try_acquire().await.expect("the claim was released");
        tried.expect("no task holds the lock").release().await.expect("held");
    }
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_is_dropped_before_it_sent_anything_leaves_the_lock_usable() {
    let (engine, faults) = FaultyEngine::new(Memory::new());
    let lock = Client::new(engine).lock("a");
    faults.claim(Some(ClaimFault::Refused));
    faults.release(true);
    tokio::time::timeout(SECOND, lock.acquire()).await.expect_err("the waiter keeps claiming");
    let error = lock.try_acquire().await.expect_err("refused");
    assert_eq!((error.effect(), error.may_be_held_until()), (Effect::None, None), "{error}");
    faults.claim(None);
    assert_eq!(faults.releases(), 0, "there was nothing to release");
    assert!(lock.try_acquire().await.expect("answers").is_some());
}

/// The claim reaches the server only after its caller has given up; its lease counts from there.
#[tokio::test(start_paused = true)]
async fn a_claim_that_takes_effect_late_holds_no_longer_than_its_error_said() {
    let memory = Memory::new();
    memory.delay(Verb::Claim, 5 * SECOND);
    memory.fail_always(Verb::Release, Some(Effect::None));
    let error = Client::new(memory.clone()).lock("a").wait(SECOND).acquire().await.expect_err("no answer");
    let told = error.may_be_held_until().expect("the claim is in flight");
    tokio::time::sleep(10 * SECOND).await;
    assert!(held_until(&memory).await <= told, "{error}");
}

/// A renewal is in flight when the release fails, and extends the lease after it.
#[tokio::test(start_paused = true)]
async fn a_lock_that_could_not_be_released_is_held_no_longer_than_the_error_said() {
    let memory = Memory::new();
    let guard = Client::new(memory.clone()).lock("a").acquire().await.expect("free");
    let renewed_by = guard.lease_end();
    memory.delay(Verb::Renew, 3 * SECOND);
    memory.fail_always(Verb::Release, Some(Effect::None));
    // After the renewal is sent despite its jitter, and before its answer.
    tokio::time::sleep(Duration::from_millis(11_500)).await;
    let error = guard.release().await.expect_err("the release fails");
    let told = error.may_be_held_until().expect("the release failed");
    tokio::time::sleep(5 * SECOND).await;
    let until = held_until(&memory).await;
    assert!(until > renewed_by && until <= told, "{error}");
}

/// A renewal at the time of the loss would keep the lock from others for another lease.
#[tokio::test(start_paused = true)]
async fn a_lost_lock_is_free_when_the_lease_that_it_had_ends() {
    let memory = Memory::new();
    let client = Client::new(memory.clone());
    let guard = client.lock("a").max_hold(5 * SECOND).acquire().await.expect("free");
    assert_eq!(guard.lost().await, Loss::HeldTooLong);
    tokio::time::sleep(SECOND).await;
    assert_eq!(held_until(&memory).await, guard.lease_end());
}

#[tokio::test(start_paused = true)]
async fn the_view_of_a_nested_guard_ends_with_that_guard() {
    let memory = Memory::new();
    let lock = Client::new(memory.clone()).lock("a").owner("me");
    let outer = lock.acquire().await.expect("free");
    let [released, dropped] = [lock.acquire().await.expect("nested"), lock.acquire().await.expect("nested")];
    let views = [released.held(), dropped.held()];
    assert!(views.iter().all(Held::is_certain));
    released.release().await.expect("held");
    drop(dropped);
    assert!(outer.is_certain() && !views.iter().any(Held::is_certain));
    memory.lose(&LockName::new("a").expect("a good name"));
    assert_eq!(outer.lost().await, Loss::Removed);
    for view in views {
        assert!(
            tokio::time::timeout(60 * SECOND, view.lost()).await.is_err(),
            "the hints contain the claim that was released"
        );
    }
}

/// A server that hangs for longer than the request limit costs a waiter with a longer wait limit nothing but
/// time.
#[tokio::test(start_paused = true)]
async fn a_claim_that_is_never_answered_is_sent_again() {
    let memory = Memory::new();
    let client = Client::new(memory.clone());
    memory.delay(Verb::Claim, 3_600 * SECOND);
    let waiter = tokio::spawn(async move { client.lock("a").acquire().await });
    tokio::time::sleep(5 * SECOND).await;
    memory.delay(Verb::Claim, Duration::ZERO);
    let guard = waiter.await.expect("no panic").expect("the second claim is answered");
    assert!(guard.is_certain());
}

/// The request is moved to another thread when its runtime ends, and its timeout must be moved too.
#[test]
fn a_release_in_flight_is_answered_even_if_its_runtime_ends() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("locks.db");
    let url = format!("sqlite:{}", path.display());
    let stays =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("one");
    let (client, other) = stays
        .block_on(async {
            Ok::<_, latchwork::Error>((latchwork::connect(&url).await?, latchwork::connect(&url).await?))
        })
        .expect("a new database opens");
    let guard = stays.block_on(client.lock("a").acquire()).expect("free");
    let held_up = rusqlite::Connection::open(&path).expect("the database opens");
    held_up.execute_batch("BEGIN IMMEDIATE").expect("no other process writes");
    let ends = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("another");
    ends.block_on(async {
        tokio::spawn(async move { drop(guard.release().await) });
        tokio::time::sleep(SECOND / 5).await;
    });
    drop(ends);
    std::thread::sleep(SECOND / 5);
    held_up.execute_batch("COMMIT").expect("the transaction has begun");
    let next = stays.block_on(other.lock("a").wait(5 * SECOND).acquire());
    stays.block_on(next.expect("long before the lease ends").release()).expect("held");
}

/// The server receives one request for many claims, on every retry.
#[tokio::test(start_paused = true)]
async fn a_server_that_is_down_gets_one_renewal_request_for_many_locks() {
    let (engine, faults) = FaultyEngine::new(Memory::new());
    let (client, mut guards) = (Client::new(engine), Vec::new());
    for number in 0..200 {
        guards.push(client.lock(format!("{number}")).acquire().await.expect("free"));
    }
    faults.renewal_fails();
    for guard in &guards {
        assert_eq!(guard.lost().await, Loss::Unreachable);
    }
    let (requests, claims) = faults.renewals();
    println!("{requests} requests for {claims} renewals");
    assert!(claims > 400 && claims / requests >= 20, "{requests} requests for {claims} renewals");
}

/// The pauses grow, but the last release is sent at the end of the time in which requests may arrive late.
#[tokio::test(start_paused = true)]
async fn a_claim_that_arrives_at_the_last_moment_is_released_at_the_end() {
    let memory = Memory::new();
    let (flaky, faults) = FaultyEngine::new(memory.clone());
    let (client, rival) = (Client::new(flaky), Client::new(memory.clone()));
    let ttl = 10 * SECOND;
    faults.claim(Some(ClaimFault::ArrivesLate(ttl - SECOND / 10)));
    client.lock("a").ttl(ttl).try_acquire().await.expect_err("no answer");
    let given_up = memory.clock().now();
    faults.claim(None);
    tokio::time::sleep(ttl - SECOND / 20).await;
    assert!(rival.lock("a").try_acquire().await.expect("an answer").is_none(), "the claim has not arrived");
    let guard = rival.lock("a").acquire().await.expect("the lock becomes free");
    let free = memory.clock().now().since(given_up);
    assert!(free <= ttl, "free after {free:?}");
    guard.release().await.expect("held");
}
