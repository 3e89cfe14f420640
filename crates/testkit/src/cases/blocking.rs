//! The guarantees of the blocking API.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use latchwork::blocking::Client;
use latchwork::engine::Filter;
use latchwork::{Error, ErrorKind, Version, Written};

use super::support::{LONG, name, nothing_left, revocation, rose};
use crate::Fixture;

/// Runs `work` on a thread outside any runtime.
async fn outside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let thread = std::thread::spawn(work);
    tokio::task::spawn_blocking(|| thread.join().expect("no panic")).await.expect("no panic")
}

async fn client<F: Fixture>(fixture: &F) -> Client {
    let engine = fixture.engine().await;
    outside(|| Client::new(engine).expect("there are threads")).await
}

pub(super) async fn threads_take_turns_without_a_runtime<F: Fixture>(fixture: Arc<F>) {
    const TIMES: u64 = 50;
    let (one, two) = (client(&*fixture).await, client(&*fixture).await);
    let count = Arc::new(AtomicU64::new(0));
    let work = |number: usize| {
        let (client, count) =
            (if number.is_multiple_of(2) { one.clone() } else { two.clone() }, count.clone());
        outside(move || {
            for _ in 0..TIMES {
                let guard = client.lock("threads").ttl(LONG).acquire().expect("the lock becomes free");
                let now = count.load(Ordering::Relaxed);
                std::thread::yield_now();
                count.store(now + 1, Ordering::Relaxed);
                assert!(guard.is_certain());
                guard.release().expect("held");
            }
        })
    };
    tokio::join!(work(0), work(1), work(2), work(3));
    assert_eq!(count.load(Ordering::Relaxed), 4 * TIMES);
    nothing_left(&fixture.client().await, "threads").await;
}

/// Blocking calls of other libraries panic inside a runtime.
pub(super) async fn a_blocking_call_inside_a_runtime_works<F: Fixture>(fixture: Arc<F>) {
    let client = Client::new(fixture.engine().await).expect("there are threads");
    let guard = client.lock("inside").ttl(LONG).acquire().expect("free");
    let busy = client.lock("inside").wait(Duration::from_millis(20)).acquire().expect_err("held");
    assert_eq!(busy.kind(), ErrorKind::TimedOut);
    drop(guard);
    client.close().expect("released");
    assert!(client.inspect(&Filter::Name(name("inside"))).expect("answers").is_empty());
    let before = client.lock("inside").run(|held| Ok::<_, Error>(held.token().ok())).expect("free");
    let after = client.lock("inside").try_acquire().expect("answers").expect("free").token().ok();
    assert!(rose(fixture.has_tokens(), before, after));
}

pub(super) async fn a_thread_is_told_of_a_loss<F: Fixture>(fixture: Arc<F>) {
    let client = client(&*fixture).await;
    outside(move || {
        let guard = client.lock("told").ttl(F::STEADY).acquire().expect("free");
        assert_eq!(guard.lost(F::STEADY * 3 / 2), None, "renewed without a runtime");
        let state = client.inspect(&Filter::Name(name("told"))).expect("answers").remove(0);
        let (how, loss) = revocation::<F>();
        client.revoke(&state, how).expect("answers");
        assert_eq!(guard.lost(LONG), Some(loss));
        assert!(!guard.is_certain());
        assert_eq!(guard.release().expect_err("lost").kind(), ErrorKind::Lost);
    })
    .await;
}

pub(super) async fn recipes_work_without_a_runtime<F: Fixture>(fixture: Arc<F>) {
    let client = client(&*fixture).await;
    let promised = F::guarantees();
    outside(move || {
        let both = client.multi_lock(["thread 2", "thread 1"]).ttl(LONG).acquire().expect("free");
        assert!(client.multi_lock(["thread 2", "thread 3"]).try_acquire().expect("answers").is_none());
        assert_eq!(both.lost(Duration::from_millis(1)), None);
        both.release().expect("held");
        let names = client.multi_lock(["thread 1"]).run(|held| Ok::<_, latchwork::Error>(held.each().len()));
        assert_eq!(names.expect("free"), 1);
        let cut = client.striped_lock("thread", 2).ttl(LONG);
        let (number, guard) = cut.any().acquire().expect("free");
        let other = cut.any().run(|number, held| Ok::<_, latchwork::Error>((number, held.name().clone())));
        assert_eq!(other.expect("free"), (1 - number, name(&format!("thread/{}", 1 - number))));
        assert!(cut.segment(number).try_acquire().expect("answers").is_none());
        drop(guard);
        if promised.read_write {
            let rw = client.rw_lock("threads rw");
            let (one, other) = (rw.read().acquire().expect("free"), rw.read().acquire().expect("shared"));
            assert!(rw.write().try_acquire().expect("answers").is_none());
            drop((one, other));
            rw.write().run(|held| held.token()).expect("tokens");
        }
        if promised.permits {
            let permit = client.semaphore("thread permits", 2);
            let (_one, _two) = (permit.acquire().expect("free"), permit.acquire().expect("free"));
            assert!(permit.try_acquire().expect("answers").is_none());
        }
        client.close().expect("released");
        for lock in ["thread 1", "thread 2", "thread/0", "thread/1", "threads rw", "thread permits"] {
            assert!(client.inspect(&Filter::Name(name(lock))).expect("answers").is_empty(), "{lock}");
        }
    })
    .await;
}

pub(super) async fn cells_and_elections_work_without_a_runtime<F: Fixture>(fixture: Arc<F>) {
    let (client, other) = (client(&*fixture).await, client(&*fixture).await);
    outside(move || {
        let cell = client.cell("thread");
        let mut changes = other.cell("thread").watch();
        assert!(!changes.next(LONG).expect("told").expect("answers").is_set());
        assert!(changes.next(Duration::from_millis(20)).is_none(), "nothing was set");
        let Ok(Written::Done(first)) = cell.set_if(Version::ABSENT, "one") else { panic!("it was not set") };
        assert_eq!(changes.next(LONG).expect("told").expect("answers").version, first);
        let told = std::thread::spawn(move || changes.next(LONG).expect("told").expect("answers"));
        let second = cell.update(|old| [old.expect("set"), b"+two"].concat()).expect("answers");
        assert_eq!(told.join().expect("no panic"), second);
        assert_eq!(cell.set_if(first, "late").expect("answers"), Written::Changed);
        assert_eq!(cell.delete_if(second.version).expect("answers"), Written::Done(Version::ABSENT));
        assert!(!cell.get().expect("answers").is_set());
        assert!(cell.set("three").expect("answers") > second.version);
        assert_eq!(cell.get().expect("answers").text().expect("the bytes are text"), Some("three"));
        assert!(cell.delete().expect("answers") && !cell.delete().expect("answers"));

        let election = client.election("thread leads").ttl(LONG);
        let mut leaders = election.observe();
        let leading = election.campaign("one").expect("there is no leader");
        assert!(leading.is_certain() && leading.lost(Duration::from_millis(1)).is_none());
        assert_eq!(leaders.next(LONG).expect("told").expect("answers").term, leading.term());
        assert_eq!(election.leader().expect("answers").expect("there is a leader").value, b"one");
        let standby = other.election("thread leads").ttl(LONG);
        let standby = std::thread::spawn(move || standby.campaign("two").expect("its turn comes"));
        let term = leading.term();
        leading.resign().expect("the leader held until here");
        let next = standby.join().expect("no panic");
        assert!(next.term() > term);
        assert_eq!(leaders.next(LONG).expect("told").expect("answers").value, b"two");
        let term = next.term();
        assert_eq!(next.run(|held| held.token()).expect("the candidate leads").get(), term);
        assert_eq!(election.leader().expect("answers"), None, "it has resigned");
        client.close().expect("released");
        other.close().expect("released");
        assert!(client.inspect(&Filter::Name(name("thread leads"))).expect("answers").is_empty());
    })
    .await;
}
