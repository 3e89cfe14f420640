//! Several clients contend for one lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use latchwork::clock::Clock;
use latchwork::engine::Filter;
use latchwork::{ErrorKind, Lock, Token, Wait};
use tokio::runtime::{Builder, Runtime};

use super::support::{LONG, hold, name, nothing_left, pause, token, waiters};
use crate::Fixture;

pub(super) async fn a_try_of_a_held_lock_returns_none_at_once<F: Fixture>(fixture: Arc<F>) {
    let (one, two) = (fixture.client().await, fixture.client().await);
    let guard = hold(&one, "try").await;
    for client in [&one, &two] {
        assert!(client.lock("try").try_acquire().await.expect("answers").is_none());
        let error = client.lock("try").wait(Wait::Never).acquire().await.expect_err("held");
        assert_eq!(error.kind(), ErrorKind::Busy);
    }
    guard.release().await.expect("held");
    nothing_left(&two, "try").await;
}

pub(super) async fn waiters_are_granted_the_lock_in_the_order_of_arrival<F: Fixture>(fixture: Arc<F>) {
    if !F::guarantees().fair {
        return;
    }
    let holder = fixture.client().await;
    let guard = hold(&holder, "fifo").await;
    let (sender, mut served) = tokio::sync::mpsc::unbounded_channel();
    for number in 0..12 {
        let (client, sender) = (fixture.client().await, sender.clone());
        tokio::spawn(async move {
            let guard = hold(&client, "fifo").await;
            sender.send((number, guard.token().expect("tokens"))).expect("listened to");
            guard.release().await.expect("held");
        });
        waiters(&holder, "fifo", number + 1).await;
    }
    let mut last = guard.token().expect("tokens");
    guard.release().await.expect("held");
    for expected in 0..12 {
        let (number, token) = served.recv().await.expect("every task gets the lock");
        assert_eq!(number, expected);
        assert!(token > last);
        last = token;
    }
    nothing_left(&holder, "fifo").await;
}

pub(super) async fn a_hundred_contenders_all_get_their_turn_one_at_a_time<F: Fixture>(fixture: Arc<F>) {
    let (inside, newest) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let has_tokens = fixture.has_tokens();
    let mut tasks = Vec::new();
    for _ in 0..10 {
        let client = fixture.client().await;
        for _ in 0..10 {
            let (client, inside, newest) = (client.clone(), inside.clone(), newest.clone());
            tasks.push(tokio::spawn(async move {
                for _ in 0..3 {
                    let guard = hold(&client, "hundred").await;
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two inside");
                    if let Some(token) = token(has_tokens, &guard).map(Token::get) {
                        assert!(newest.swap(token, Ordering::SeqCst) < token, "the token went back");
                    }
                    tokio::task::yield_now().await;
                    inside.fetch_sub(1, Ordering::SeqCst);
                    guard.release().await.expect("held");
                }
            }));
        }
    }
    for task in tasks {
        task.await.expect("every contender gets a turn");
    }
    nothing_left(&fixture.client().await, "hundred").await;
}

pub(super) async fn a_wait_that_times_out_names_the_holder_and_leaves_nothing<F: Fixture>(fixture: Arc<F>) {
    let (one, two) = (fixture.client().await.with_note("the holder's note"), fixture.client().await);
    let guard = hold(&one, "limit").await;
    let error = two.lock("limit").wait(Duration::from_secs(1)).acquire().await.expect_err("held");
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    let who = if F::KNOWS_NO_NOTES { "connection" } else { "the holder's note" };
    assert!(error.to_string().contains(who), "{error}");
    let seen = one.inspect(&Filter::Name(name("limit"))).await.expect("answers");
    assert!(seen[0].waiters.is_empty(), "{seen:?}");
    // The limit also applies behind a task of the same client.
    let error = one.lock("limit").wait(Duration::from_millis(200)).acquire().await.expect_err("held");
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    guard.release().await.expect("held");
    nothing_left(&two, "limit").await;
}

pub(super) async fn a_waiter_that_leaves_the_middle_of_the_queue_blocks_no_other<F: Fixture>(
    fixture: Arc<F>,
) {
    let (one, two, three) = (fixture.client().await, fixture.client().await, fixture.client().await);
    let guard = hold(&one, "middle").await;
    let middle = tokio::spawn(async move { two.lock("middle").wait(Duration::from_secs(2)).acquire().await });
    waiters(&one, "middle", 1).await;
    let last = tokio::spawn(async move { hold(&three, "middle").await });
    waiters(&one, "middle", 2).await;
    middle.await.expect("no panic").expect_err("the wait timed out");
    guard.release().await.expect("held");
    let served = tokio::time::timeout(LONG / 2, last)
        .await
        .expect("the last waiter is granted the lock")
        .expect("no panic");
    served.release().await.expect("held");
    nothing_left(&one, "middle").await;
}

pub(super) async fn a_lock_is_handed_from_task_to_task_with_rising_tokens<F: Fixture>(fixture: Arc<F>) {
    let client = fixture.client().await;
    for handoff in [true, false] {
        let lock = if handoff {
            client.lock("pass").pass_for(LONG)
        } else {
            client.lock("pass").local_handoff(false)
        };
        let first = lock.acquire().await.expect("free");
        let (sender, mut served) = tokio::sync::mpsc::unbounded_channel();
        for number in 0..5 {
            let (lock, sender) = (lock.clone(), sender.clone());
            tokio::spawn(async move {
                let guard = lock.acquire().await.expect("the lock becomes free");
                sender.send((number, guard.token().expect("tokens"))).expect("listened to");
                guard.release().await.expect("held");
            });
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let (mut last, engine_token) =
            (first.token().expect("tokens"), first.token().expect("tokens").engine_token());
        first.release().await.expect("held");
        for expected in 0..5 {
            let (number, token) = served.recv().await.expect("every task gets the lock");
            assert_eq!(number, expected, "in the order of arrival");
            assert!(token > last, "a pass without a new token");
            assert_eq!(token.engine_token() == engine_token, handoff, "whether the engine was asked");
            last = token;
        }
        nothing_left(&client, "pass").await;
    }
}

pub(super) async fn a_lock_without_local_handoff_is_not_handed_over<F: Fixture>(fixture: Arc<F>) {
    let client = fixture.client().await;
    let first = client.lock("kept").pass_for(LONG).acquire().await.expect("free");
    let take = |lock: latchwork::Lock| {
        tokio::spawn(async move {
            lock.acquire().await.expect("the lock becomes free").token().expect("tokens").engine_token()
        })
    };
    let kept = take(client.lock("kept").local_handoff(false));
    tokio::time::sleep(Duration::from_millis(10)).await;
    let last = take(client.lock("kept").pass_for(LONG));
    tokio::time::sleep(Duration::from_millis(10)).await;
    drop(first);
    assert_ne!(kept.await.expect("no panic"), last.await.expect("no panic"), "the engine had to be asked");
    nothing_left(&client, "kept").await;
}

pub(super) async fn local_handoff_is_limited_in_favour_of_other_clients<F: Fixture>(fixture: Arc<F>) {
    let (greedy, other) = (fixture.client().await, fixture.client().await);
    let tasks = (0..4).map(|_| {
        let lock = greedy.lock("greedy");
        tokio::spawn(async move {
            // Until the task is aborted, or its runtime ends.
            while let Ok(guard) = lock.acquire().await {
                drop(guard.release().await);
            }
        })
    });
    let tasks: Vec<_> = tasks.collect();
    for _ in 0..10 {
        let guard =
            other.lock("greedy").wait(LONG).acquire().await.expect("granted beside four greedy tasks");
        guard.release().await.expect("held");
    }
    tasks.iter().for_each(tokio::task::JoinHandle::abort);
    nothing_left(&other, "greedy").await;
}

pub(super) async fn an_engine_that_hangs_does_not_outlast_the_wait_limit<F: Fixture>(fixture: Arc<F>) {
    let (client, other) = (fixture.client().await, fixture.client().await);
    hold(&client, "hung").await.release().await.expect("held");
    fixture.hinder(Duration::from_secs(3));
    let waited = Clock::boottime().now();
    // Sooner than a client could detect that the server is gone.
    let error = client.lock("hung").wait(F::SHORT / 3).acquire().await.expect_err("the engine hangs");
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    assert!(Clock::boottime().now().since(waited) < Duration::from_secs(2), "longer than the wait limit");
    fixture.hinder(Duration::ZERO);
    nothing_left(&other, "hung").await;
    nothing_left(&client, "hung").await;
}

pub(super) async fn the_holder_and_the_waiters_can_be_inspected<F: Fixture>(fixture: Arc<F>) {
    let (one, two) = (fixture.client().await.with_note("first"), fixture.client().await.with_note("second"));
    let guard = hold(&one, "seen/a").await;
    let waiter = tokio::spawn(async move { hold(&two, "seen/a").await });
    waiters(&one, "seen/a", 1).await;
    let (_unrelated, _last) = (hold(&one, "unseen").await, hold(&one, "seen/\u{10FFFF}z").await);
    let listed = one.inspect(&Filter::Prefix("seen/".into())).await;
    let seen = match F::CANNOT_LIST {
        false => listed.expect("answers"),
        true => {
            let error = listed.expect_err("it cannot");
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
            let mut seen = one.inspect(&Filter::Name(name("seen/a"))).await.expect("answers");
            seen.extend(one.inspect(&Filter::Name(name("seen/\u{10FFFF}z"))).await.expect("answers"));
            seen
        }
    };
    assert_eq!(seen.len(), 2, "{seen:?}");
    let (holder, waiting) = (&seen[0].holders[0], &seen[0].waiters);
    assert!(holder.note.as_str().ends_with("first") || F::KNOWS_NO_NOTES);
    // Without a queue, waiters cannot be listed.
    assert!(waiting.len() == usize::from(F::guarantees().fair) || F::IS_A_CONNECTION);
    assert!(waiting.iter().all(|waiting| waiting.note.as_str().ends_with("second")));
    let known = token(fixture.has_tokens() && !F::IS_A_CONNECTION, &guard);
    assert_eq!(holder.token, known.map(Token::engine_token));
    let is_bound_to_its_session = F::guarantees().lives_with_session;
    assert!(holder.expires_in.map_or(is_bound_to_its_session, |left| left <= LONG));
    assert!(holder.since.is_some() || F::HAS_NO_WALL_CLOCK);
    guard.release().await.expect("held");
    waiter.await.expect("no panic").release().await.expect("held");
    nothing_left(&one, "seen/a").await;
}

pub(super) async fn tokens_rise_even_after_all_stored_data_was_destroyed<F: Fixture>(fixture: Arc<F>) {
    let client = fixture.client().await;
    let guard = hold(&client, "precious").await;
    let before = guard.token().expect("tokens");
    fixture.destroy().await;
    let fresh = fixture.client().await;
    let after = hold(&fresh, "precious").await.token().expect("tokens");
    assert!(after > before, "{after} does not follow {before}");
    drop(guard);
}

/// A runtime with a task that waits for `lock`; the runtime is not driven any more.
async fn undriven(lock: Lock) -> Runtime {
    let idle = tokio::task::spawn_blocking(move || {
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.spawn(async move { drop(lock.acquire().await) });
        runtime.block_on(pause(100));
        runtime
    });
    idle.await.expect("no panic")
}

/// If a task does not take its turn, the turn passes to the next task, both with the lock and without it.
pub(super) async fn a_task_that_is_not_polled_does_not_keep_its_turn<F: Fixture>(fixture: Arc<F>) {
    let client = fixture.client().await;
    for (lock, pass_for) in [("undriven-duty", Duration::ZERO), ("undriven-pass", LONG)] {
        let lock = client.lock(lock).ttl(LONG).pass_for(pass_for);
        let guard = lock.acquire().await.expect("the lock is free");
        let idle = undriven(lock.clone()).await;
        let next = tokio::spawn({
            let lock = lock.clone();
            async move { lock.acquire().await }
        });
        // The task queues behind the other task of this client.
        pause(100).await;
        guard.release().await.expect("held");
        let served = tokio::time::timeout(Duration::from_secs(6), next).await;
        let guard = served.unwrap_or_else(|_| panic!("a task that is not polled keeps {lock:?}"));
        guard.expect("no panic").expect("its turn").release().await.expect("held");
        // The task gets its turn when its runtime is driven again.
        run_for_a_while(idle).await;
        let last = lock.try_acquire().await.expect("the engine answers").expect("nothing is left behind");
        last.release().await.expect("held");
    }
}

/// The first task of a client claims the lock for all of them. If it is not polled, another task claims it.
pub(super) async fn a_task_that_is_not_polled_does_not_claim_for_the_others<F: Fixture>(fixture: Arc<F>) {
    let (holder, client) = (fixture.client().await, fixture.client().await);
    let guard = hold(&holder, "undriven-asker").await;
    let lock = client.lock("undriven-asker").ttl(F::STEADY);
    let idle = undriven(lock.clone()).await;
    let next = tokio::spawn({
        let lock = lock.clone();
        async move { lock.acquire().await }
    });
    pause(100).await;
    guard.release().await.expect("held");
    let served = tokio::time::timeout(Duration::from_secs(12), next).await;
    let guard = served.expect("a task that is not polled keeps the lock");
    guard.expect("no panic").expect("its turn").release().await.expect("held");
    run_for_a_while(idle).await;
    nothing_left(&holder, "undriven-asker").await;
}

/// A runtime whose task has sent the release of `lock`, and which is not driven any more: the reply is on a
/// connection that is not read.
async fn undriven_release<F: Fixture>(fixture: &Arc<F>, lock: Lock) -> Runtime {
    let slow = fixture.clone();
    let idle = tokio::task::spawn_blocking(move || {
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        let guard = runtime.block_on(lock.acquire()).expect("the lock is free");
        slow.hinder(Duration::from_millis(300));
        runtime.spawn(async move { drop(guard.release().await) });
        runtime.block_on(pause(50));
        slow.hinder(Duration::ZERO);
        runtime
    });
    idle.await.expect("no panic")
}

/// The server freed the lock long ago, but its client does not read the reply.
pub(super) async fn a_release_that_is_not_polled_does_not_keep_its_lock<F: Fixture>(fixture: Arc<F>) {
    let client = fixture.client().await;
    let lock = client.lock("undriven-release").ttl(LONG);
    let idle = undriven_release(&fixture, lock.clone()).await;
    let served = tokio::time::timeout(Duration::from_secs(12), lock.acquire()).await;
    let guard = served.expect("a release that is not polled keeps the lock").expect("its turn");
    guard.release().await.expect("held");
    run_for_a_while(idle).await;
    nothing_left(&client, "undriven-release").await;
}

/// Tries need the lock as much as waiting tasks do. This case has only tries and short waits.
pub(super) async fn a_task_that_is_not_polled_does_not_keep_its_lock_from_tries<F: Fixture>(fixture: Arc<F>) {
    const NAME: &str = "undriven-tries";
    let (holder, client) = (fixture.client().await, fixture.client().await);
    let lock = client.lock(NAME).ttl(F::STEADY);
    let tries = lock.clone().wait(Wait::Never);
    let idle = undriven_release(&fixture, lock.clone()).await;
    tried_until_free(&tries, "a release").await;
    run_for_a_while(idle).await;
    for waits in [tries.clone(), lock.clone().wait(Duration::from_millis(200))] {
        let guard = hold(&holder, NAME).await;
        let idle = undriven(lock.clone()).await;
        guard.release().await.expect("held");
        tried_until_free(&waits, "a claim").await;
        run_for_a_while(idle).await;
    }
    let guard = hold(&holder, NAME).await;
    let idle = undriven_withdrawal(&fixture, lock.clone()).await;
    guard.release().await.expect("held");
    tried_until_free(&tries, "a withdrawal").await;
    run_for_a_while(idle).await;
    nothing_left(&holder, NAME).await;
}

/// A runtime whose task has stopped waiting for `lock`, and which is not driven any more: the reply is on a
/// connection that is not read.
async fn undriven_withdrawal<F: Fixture>(fixture: &Arc<F>, lock: Lock) -> Runtime {
    let slow = fixture.clone();
    let idle = tokio::task::spawn_blocking(move || {
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        let waits = lock.wait(Duration::from_millis(200));
        runtime.spawn(async move { drop(waits.acquire().await) });
        runtime.block_on(pause(150));
        slow.hinder(Duration::from_millis(300));
        runtime.block_on(pause(100));
        slow.hinder(Duration::ZERO);
        runtime
    });
    idle.await.expect("no panic")
}

async fn tried_until_free(lock: &Lock, keeps: &str) {
    let tries = async {
        loop {
            match lock.acquire().await {
                Ok(guard) => return guard,
                Err(error) if matches!(error.kind(), ErrorKind::Busy | ErrorKind::TimedOut) => {}
                Err(error) => panic!("{keeps}: {error}"),
            }
            // Less often than the client checks for tasks that are not polled.
            pause(1_500).await;
        }
    };
    let guard = tokio::time::timeout(Duration::from_secs(15), tries).await;
    let guard = guard.unwrap_or_else(|_| panic!("{keeps} that is not polled keeps the lock from {lock:?}"));
    guard.release().await.expect("held");
}

async fn run_for_a_while(runtime: Runtime) {
    tokio::task::spawn_blocking(move || runtime.block_on(pause(500))).await.expect("no panic");
}
