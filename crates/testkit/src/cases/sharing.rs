//! Read-write locks and semaphores through the public API.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use latchwork::clock::Clock;
use latchwork::engine::{Engine, Filter, Mode};
use latchwork::{Client, ErrorKind, Lock};
use tokio::task::JoinSet;

use super::support::{LONG, name, nothing_left, pause, waiters};
use crate::history::checks::{Expectations, check_all};
use crate::history::{RecordedClient, Recorder, Witness};
use crate::recording_engine::{RecordingEngine, claims};
use crate::{Fixture, drop_at_poll};

/// Longer than any wait in these cases.
const LIMIT: Duration = Duration::from_secs(100);

fn reader(client: &Client, lock: &str) -> Lock {
    client.rw_lock(lock).read().ttl(LONG)
}

fn writer(client: &Client, lock: &str) -> Lock {
    client.rw_lock(lock).write().ttl(LONG)
}

pub(super) async fn a_thousand_readers_of_one_client_share_a_claim<F: Fixture>(fixture: Arc<F>) {
    let recorder = RecordingEngine::new(fixture.engine().await);
    let (events, mut tasks) = (recorder.events(), JoinSet::new());
    let client = Client::new(recorder);
    // Longer than a machine stalls.
    let lock = reader(&client, "thousand").pass_for(Duration::from_millis(700));
    let clock = Clock::boottime();
    let end = clock.now().after(Duration::from_millis(1_800));
    for _ in 0..1_000 {
        let lock = lock.clone();
        tasks.spawn(async move {
            let mut reads = 0;
            while clock.now() < end {
                let guard = lock.acquire().await.expect("no writer holds the lock");
                pause(1).await;
                guard.release().await.expect("held");
                reads += 1;
            }
            reads
        });
    }
    let reads: usize = tasks.join_all().await.into_iter().sum();
    let (most, all) = claims(&events.lock().expect("no thread panicked while recording"));
    println!("{reads} reads by 1000 tasks: {all} claims, {most} at a time");
    // One claim, and a second one if a busy machine cannot finish a read within the join time.
    assert!(most <= 2, "{most} claims at a time");
    assert!(all > 1 && all * 100 < reads, "{all} claims for {reads} reads");
}

/// Readers of one client come and go so that one always reads: without a limit they would share one claim for
/// ever.
pub(super) async fn a_writer_of_another_client_waits_for_no_more_than_a_read_and_the_join_time<F: Fixture>(
    fixture: Arc<F>,
) {
    const PASS_FOR: Duration = Duration::from_millis(400);
    const READ: Duration = Duration::from_millis(100);
    let (reading, writing) = (fixture.client().await, fixture.client().await);
    let lock = reader(&reading, "patient").pass_for(PASS_FOR);
    let mut readers = JoinSet::new();
    for number in 0..20 {
        let lock = lock.clone();
        readers.spawn(async move {
            pause(number * 5).await;
            loop {
                let guard = lock.acquire().await.expect("its turn comes");
                tokio::time::sleep(READ).await;
                guard.release().await.expect("held");
            }
        });
    }
    pause(120).await;
    let clock = Clock::boottime();
    for _ in 0..2 {
        let asked = clock.now();
        let guard = writer(&writing, "patient").acquire().await.expect("its turn comes");
        let waited = clock.now().since(asked);
        guard.release().await.expect("held");
        assert!(waited < PASS_FOR * 4 + READ, "a writer waited {waited:?}");
        pause(20).await;
    }
    readers.shutdown().await;
    nothing_left(&writing, "patient").await;
}

/// One reader holds; a writer, two readers and another writer arrive from these clients, in this order.
async fn line_up(clients: [&Client; 5], seen_by: &Client) {
    let [first, a, b, c, d] = clients;
    let guard = reader(first, "line").acquire().await.expect("free");
    let in_one_client = std::ptr::eq(first, a);
    let mut tasks = Vec::new();
    for (number, lock) in
        [writer(a, "line"), reader(b, "line"), reader(c, "line"), writer(d, "line")].into_iter().enumerate()
    {
        let mut task = Box::pin(async move { lock.acquire().await.expect("its turn comes") });
        // The first poll enters the queue of its client.
        assert!(drop_at_poll::now(&mut task).is_none(), "another claim holds the lock");
        tasks.push(tokio::spawn(task));
        if !in_one_client {
            waiters(seen_by, "line", number + 1).await;
        }
    }
    // A reader that must not join the readers of its own client.
    let late = reader(first, "line").local_handoff(false).try_acquire().await.expect("answers");
    assert!(late.is_none(), "past a writer");
    guard.release().await.expect("held");
    let mut tasks = tasks.into_iter();
    let mut next = || tasks.next().expect("four came");
    let (writes, one, other, last) = (next(), next(), next(), next());
    let writes = writes.await.expect("no panic");
    assert!(!one.is_finished() && !other.is_finished() && !last.is_finished(), "beside a writer");
    writes.release().await.expect("held");
    let (one, other) = (one.await.expect("no panic"), other.await.expect("no panic"));
    assert!(
        one.is_certain() && other.is_certain() && !last.is_finished(),
        "the readers are admitted together"
    );
    one.release().await.expect("held");
    other.release().await.expect("held");
    last.await.expect("no panic").release().await.expect("held");
}

pub(super) async fn a_waiting_writer_holds_back_readers_and_readers_are_admitted_together<F: Fixture>(
    fixture: Arc<F>,
) {
    let mut clients = Vec::new();
    for _ in 0..5 {
        clients.push(fixture.client().await);
    }
    let [first, a, b, c, d] = &clients[..] else { unreachable!("there are five") };
    line_up([first, a, b, c, d], first).await;
    line_up([first; 5], first).await;
    nothing_left(first, "line").await;
}

pub(super) async fn a_writer_that_gives_up_admits_the_readers_behind_it<F: Fixture>(fixture: Arc<F>) {
    let client = fixture.client().await;
    let reads = reader(&client, "gives up").acquire().await.expect("free");
    let gives_up = {
        let lock = writer(&client, "gives up").wait(Duration::from_millis(150));
        tokio::spawn(async move { lock.acquire().await.map(drop) })
    };
    pause(20).await;
    let behind = {
        let lock = reader(&client, "gives up");
        tokio::spawn(async move { lock.acquire().await })
    };
    let error = gives_up.await.expect("no panic").expect_err("the reader stays");
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    let behind = tokio::time::timeout(Duration::from_secs(10), behind).await;
    let behind = behind.expect("admitted beside the first reader").expect("no panic").expect("held");
    assert!(reads.is_certain() && behind.is_certain());
    reads.release().await.expect("held");
    behind.release().await.expect("held");
    nothing_left(&client, "gives up").await;
}

/// Clients acquire a lock in these modes, two of them in four tasks each and four in one. Some acquires are
/// dropped half-way, and every guarantee is checked.
async fn crowd<F: Fixture>(fixture: &Arc<F>, lock: &str, modes: [Mode; 4]) {
    let recorder = Recorder::in_memory(fixture.engine().await.clock());
    let witness = Witness::of(name(lock), recorder.clone(), fixture.client().await);
    let (mut tasks, mut number) = (JoinSet::new(), 0);
    for members in [4, 4, 1, 1, 1, 1] {
        let client = recorder.client(fixture.client().await);
        for _ in 0..members {
            let mode = modes[(number + number / 4) as usize % modes.len()];
            tasks.spawn(visit(client.clone(), lock.to_owned(), mode, number));
            number += 1;
        }
    }
    tasks.join_all().await;
    drop(witness);
    let client = fixture.client().await;
    nothing_left(&client, lock).await;
    recorder.quiesced();
    let left = Some(client.inspect(&Filter::Name(name(lock))).await.expect("answers"));
    let expected = Expectations { answer_within: LIMIT, idle_at_most: LIMIT, queued_after: None, left };
    let history = recorder.history();
    let stats = check_all(&history, &F::guarantees(), &expected).expect("every guarantee is kept");
    stats.iter().for_each(|stats| println!("{stats}"));
    let in_order = stats.iter().find(|stats| stats.check == "fifo");
    assert!(in_order.is_none_or(|stats| stats.judged > 0), "no waiter was seen");
    assert!(history.holds().len() > 50, "only {} holds", history.holds().len());
    let overlaps = |one: usize, other: usize| {
        let (one, other) = (&history.holds()[one], &history.holds()[other]);
        one.mode == other.mode && one.start < other.end && other.start < one.end
    };
    let count = history.holds().len();
    assert!((1..count).any(|place| overlaps(place - 1, place)), "no two holds were concurrent");
}

async fn visit(client: RecordedClient, lock: String, mode: Mode, seed: u64) {
    for round in 0..8 {
        let lock = client.signed_lock(&lock, mode).ttl(LONG);
        let acquiring = lock.acquire();
        if (seed + round).is_multiple_of(5) {
            let _ = tokio::time::timeout(Duration::from_millis(round), acquiring).await;
            continue;
        }
        let guard = acquiring.await.expect("its turn comes");
        pause((seed * 7 + round) % 4).await;
        guard.release().await.expect("held");
    }
}

pub(super) async fn readers_and_writers_keep_every_promise<F: Fixture>(fixture: Arc<F>) {
    crowd(&fixture, "read and write", [Mode::Read, Mode::Read, Mode::Write, Mode::Read]).await;
}

pub(super) async fn permits_keep_every_promise<F: Fixture>(fixture: Arc<F>) {
    crowd(&fixture, "permits", [Mode::Permit { of: 3 }; 4]).await;
}

pub(super) async fn one_client_may_have_every_permit_and_its_tasks_share_them<F: Fixture>(fixture: Arc<F>) {
    let (client, other) = (fixture.client().await, fixture.client().await);
    let permit = client.semaphore("all of them", 3).ttl(LONG);
    let mut guards = Vec::new();
    for _ in 0..3 {
        guards.push(permit.acquire().await.expect("one is left"));
    }
    let tokens: HashSet<_> = guards.iter().map(|guard| guard.token().ok()).collect();
    assert!(tokens.len() == 3 || F::guarantees().tokens.is_none(), "each has a token of its own");
    assert!(permit.try_acquire().await.expect("answers").is_none());
    let elsewhere = other.semaphore("all of them", 3);
    assert!(elsewhere.try_acquire().await.expect("answers").is_none());
    // The client's local queue advances with every permit that is returned.
    let mut behind = JoinSet::new();
    for _ in 0..3 {
        let permit = permit.clone();
        behind.spawn(async move { permit.acquire().await.expect("its turn comes") });
    }
    pause(20).await;
    for guard in guards {
        guard.release().await.expect("held");
    }
    let mut guards = behind.join_all().await;
    assert!(guards.iter().all(|guard| guard.is_certain()), "three at once");
    guards.pop().expect("three").release().await.expect("held");
    elsewhere.acquire().await.expect("one came back").release().await.expect("held");
    drop(guards);
    nothing_left(&other, "all of them").await;
}

pub(super) async fn another_number_of_permits_is_refused<F: Fixture>(fixture: Arc<F>) {
    let (client, other) = (fixture.client().await, fixture.client().await);
    let refused = async |client: &Client, number: u32| {
        for wait in [Duration::ZERO, Duration::from_secs(5)] {
            let error = client.semaphore("number", number).wait(wait).acquire().await.expect_err("refused");
            assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
            let text = error.to_string();
            assert!(text.contains(&number.to_string()) && text.contains('3'), "{text}");
        }
    };
    let zero = client.semaphore("number", 0).acquire().await.expect_err("no client could hold it");
    assert_eq!(zero.kind(), ErrorKind::Invalid);
    let guard = client.semaphore("number", 3).acquire().await.expect("free");
    for number in [2, 4] {
        refused(&client, number).await;
        refused(&other, number).await;
    }
    // No permit is held, but a task waits for one.
    guard.release().await.expect("held");
    let alone = client.lock("number").acquire().await.expect("free");
    let waiting = {
        let client = fixture.client().await;
        tokio::spawn(async move { client.semaphore("number", 3).acquire().await })
    };
    waiters(&client, "number", 1).await;
    refused(&other, 4).await;
    alone.release().await.expect("held");
    waiting.await.expect("no panic").expect("its turn").release().await.expect("held");
    nothing_left(&client, "number").await;
    // No client is left that would conflict.
    other.semaphore("number", 4).acquire().await.expect("free").release().await.expect("held");
}

pub(super) async fn an_unsupported_mode_is_refused_before_anything_is_sent<F: Fixture>(fixture: Arc<F>) {
    let promised = F::guarantees();
    let recorder = RecordingEngine::new(fixture.engine().await);
    let events = recorder.events();
    let client = Client::new(recorder);
    let both = client.rw_lock("cannot");
    let asked: HashMap<_, _> = [
        ("read", (both.read(), promised.read_write)),
        ("write", (both.write(), promised.read_write)),
        ("permit", (client.semaphore("cannot", 2), promised.permits)),
    ]
    .into();
    for (what, (lock, is_promised)) in asked {
        events.lock().expect("no thread panicked while recording").clear();
        match lock.acquire().await {
            Ok(guard) => {
                assert!(is_promised, "{what} is not guaranteed");
                guard.release().await.expect("held");
            }
            Err(error) => {
                assert!(!is_promised, "{what} is guaranteed: {error}");
                assert_eq!(error.kind(), ErrorKind::Unsupported);
                assert!(error.to_string().contains(promised.engine), "{error}");
                assert!(
                    events.lock().expect("no thread panicked while recording").is_empty(),
                    "{what} was sent"
                );
            }
        }
    }
}

pub(super) async fn an_unavailable_permit_reports_how_many_are_held<F: Fixture>(fixture: Arc<F>) {
    let (one, two) = (fixture.client().await, fixture.client().await);
    let permit = |client: &Client| client.semaphore("counted", 2).ttl(LONG);
    let guards = [permit(&one).acquire().await.expect("free"), permit(&one).acquire().await.expect("free")];
    for (wait, words) in
        [(Duration::ZERO, "2 of 2 permits held"), (Duration::from_secs(1), "2 of 2 permits still held")]
    {
        let error = permit(&two).wait(wait).acquire().await.expect_err("none is free");
        assert!(error.to_string().contains(words), "{error}");
    }
    let own = permit(&one).wait(Duration::from_millis(200)).acquire().await.expect_err("none is free");
    let words =
        "still not free after waiting 200ms: other tasks of this client hold or wait for all 2 permits";
    assert!(own.to_string().contains(words), "{own}");
    let state = two.inspect(&Filter::Name(name("counted"))).await.expect("the engine answers");
    let permits: Vec<_> = state[0].holders.iter().map(|holder| holder.permits).collect();
    assert_eq!(permits, [Some(2); 2]);
    for guard in guards {
        guard.release().await.expect("held");
    }
    let alone = one.lock("alone").ttl(LONG).acquire().await.expect("free");
    let state = two.inspect(&Filter::Name(name("alone"))).await.expect("the engine answers");
    assert_eq!(state[0].holders[0].permits, None);
    alone.release().await.expect("held");
}
