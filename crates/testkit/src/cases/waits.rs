//! The states that are reported to a waiter.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use latchwork::clock::Clock;
use latchwork::{Client, ErrorKind, Lock, Wait, Waiting};

use super::support::{LONG, hold, nothing_left, pause};
use crate::Fixture;
use crate::faulty_engine::{ClaimFault, FaultyEngine};

/// The states that a waiter was told, in order.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<Vec<Waiting>>>);

impl Told {
    fn listen(&self, lock: Lock) -> Lock {
        let told = self.0.clone();
        lock.on_waiting(move |state| {
            told.lock().expect("no thread panicked while recording").push(state.clone())
        })
    }

    fn all(&self) -> Vec<Waiting> {
        self.0.lock().expect("no thread panicked while recording").clone()
    }

    async fn until(&self, what: &str, holds: impl Fn(&Waiting) -> bool) -> Waiting {
        let (clock, patience) = (Clock::boottime(), Duration::from_secs(60));
        let end = clock.now().after(patience);
        loop {
            let all = self.all();
            if let Some(state) = all.iter().find(|state| holds(state)) {
                return state.clone();
            }
            assert!(clock.now() < end, "not told {what}: {all:?}");
            pause(2).await;
        }
    }
}

fn waits(lock: Lock, told: &Told) -> tokio::task::JoinHandle<()> {
    let lock = told.listen(lock.ttl(LONG));
    tokio::spawn(async move {
        lock.acquire().await.expect("the lock becomes free").release().await.expect("held");
    })
}

pub(super) async fn a_free_lock_and_a_try_report_no_wait<F: Fixture>(fixture: Arc<F>) {
    let (one, two, told) = (fixture.client().await, fixture.client().await, Told::default());
    let lock = told.listen(one.lock("unwaited").ttl(LONG));
    let guard = lock.acquire().await.expect("free");
    for client in [&one, &two] {
        let lock = told.listen(client.lock("unwaited").ttl(LONG));
        assert!(lock.try_acquire().await.expect("answers").is_none());
        let error = lock.wait(Wait::Never).acquire().await.expect_err("held");
        assert_eq!(error.kind(), ErrorKind::Busy);
    }
    guard.release().await.expect("held");
    assert!(told.all().is_empty(), "{:?}", told.all());
}

pub(super) async fn a_waiter_is_told_the_holder_and_its_changes<F: Fixture>(fixture: Arc<F>) {
    let first = fixture.client().await.with_note("the first holder");
    let guard = hold(&first, "told").await;
    let told = Told::default();
    let waiter = waits(fixture.client().await.lock("told"), &told);
    let began = told.until("that it waits", |_| true).await;
    assert_eq!(began.lock.as_str(), "told");
    assert!(!began.behind_local_task && began.outage.is_none() && began.quarantine.is_none(), "{began:?}");
    if !F::KNOWS_NO_NOTES {
        let is_first = |note: &latchwork::engine::Note| note.as_str().contains("the first holder");
        told.until("who holds", |state| state.holder.as_ref().is_some_and(is_first)).await;
    }
    guard.release().await.expect("held");
    waiter.await.expect("the waiter is granted the lock");
    let all = told.all();
    assert!(all.is_sorted_by_key(|state| state.waited), "{all:?}");
    assert!(all.len() < 20, "told of every heartbeat: {all:?}");
    nothing_left(&first, "told").await;
}

pub(super) async fn a_task_behind_another_of_its_client_is_told_of_it<F: Fixture>(fixture: Arc<F>) {
    let client = fixture.client().await;
    let guard = hold(&client, "behind").await;
    let told = Told::default();
    let waiter = waits(client.lock("behind"), &told);
    assert!(told.until("the report that the task waits", |_| true).await.behind_local_task);
    guard.release().await.expect("held");
    waiter.await.expect("the waiter is granted the lock");
    nothing_left(&client, "behind").await;
}

pub(super) async fn a_waiter_is_told_of_an_outage_and_of_its_end<F: Fixture>(fixture: Arc<F>) {
    let rival = fixture.client().await;
    let guard = hold(&rival, "outage").await;
    let (engine, faults) = FaultyEngine::new(fixture.engine().await);
    let client = Client::new(engine);
    faults.claim(Some(ClaimFault::Refused));
    let told = Told::default();
    let waiter = waits(client.lock("outage"), &told);
    let out = told.until("that requests fail", |state| state.outage.is_some()).await;
    let outage = out.outage.as_ref().expect("the value was present");
    assert_eq!(outage.kind, ErrorKind::Unreachable);
    assert!(!outage.message.is_empty());
    faults.claim(None);
    let over = told.until("that it is over", |state| state.outage.is_none()).await;
    assert!(over.waited >= out.waited, "{over:?} after {out:?}");
    guard.release().await.expect("held");
    waiter.await.expect("the waiter is granted the lock");
    nothing_left(&rival, "outage").await;
}

pub(super) async fn a_panic_in_the_waiting_callback_leaves_nothing_behind<F: Fixture>(fixture: Arc<F>) {
    let (one, two) = (fixture.client().await, fixture.client().await);
    let guard = hold(&one, "panics").await;
    for client in [&one, &two] {
        let lock =
            client.lock("panics").ttl(LONG).on_waiting(|_| std::panic::resume_unwind(Box::new("told")));
        let waiter = tokio::spawn(async move { lock.acquire().await.is_ok() });
        assert!(waiter.await.expect_err("the task panicked").is_panic());
    }
    guard.release().await.expect("held");
    for client in [&one, &two] {
        hold(client, "panics").await.release().await.expect("held");
        nothing_left(client, "panics").await;
    }
}

/// The callback runs on the thread that blocks, not on the one that drives the engine.
pub(super) async fn a_blocking_waiter_is_told_on_its_own_thread<F: Fixture>(fixture: Arc<F>) {
    let rival = fixture.client().await;
    let guard = hold(&rival, "thread").await;
    let engine = fixture.engine().await;
    let told = Arc::new(Mutex::new(None));
    let thread = std::thread::spawn({
        let told = told.clone();
        move || {
            let client = latchwork::blocking::Client::new(engine).expect("there are threads");
            let lock = client.lock("thread").ttl(LONG).on_waiting(move |_| {
                *told.lock().expect("no thread panicked while recording") = Some(std::thread::current().id());
            });
            lock.acquire().expect("the lock becomes free").release().expect("held");
        }
    });
    let waiting = thread.thread().id();
    while told.lock().expect("no thread panicked while recording").is_none() {
        pause(2).await;
    }
    assert_eq!(*told.lock().expect("no thread panicked while recording"), Some(waiting));
    guard.release().await.expect("held");
    tokio::task::spawn_blocking(|| thread.join().expect("no panic")).await.expect("no panic");
    nothing_left(&rival, "thread").await;
}
