//! The keeper sleeps while nothing has to be renewed.
#![allow(clippy::disallowed_methods, reason = "tests count their own time")]
#![cfg(feature = "sqlite")]

use std::fs;
use std::time::Duration;

use latchwork::Client;
use latchwork::engines::Sqlite;

/// The number of times that the keeper's thread went to sleep, which is the number of times that it was
/// woken.
fn naps() -> u64 {
    let threads =
        fs::read_dir("/proc/self/task").expect("Linux").map(|thread| thread.expect("a thread").path());
    let keeper = threads
        .filter(|path| fs::read_to_string(path.join("comm")).is_ok_and(|name| name.trim() == "latch-keeper"));
    let status = keeper.map(|path| fs::read_to_string(path.join("status")).expect("it lives"));
    let naps = status.map(|status| {
        let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        line.and_then(|count| count.trim().parse::<u64>().ok()).expect("the kernel counts")
    });
    naps.sum()
}

#[tokio::test]
async fn a_lock_released_before_its_first_renewal_never_wakes_the_keeper() {
    let folder = tempfile::tempdir().expect("a folder");
    let client = Client::new(Sqlite::open(folder.path().join("locks.db")).expect("it opens"));
    let turn = async || {
        let lock = client.lock("short").ttl(Duration::from_secs(60));
        lock.acquire().await.expect("free").release().await.expect("held");
    };
    turn().await;
    until("the first lock starts it", || naps() > 0).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    let before = naps();
    for _ in 0..500 {
        turn().await;
    }
    let woken = naps() - before;
    assert!(woken <= 3, "woken {woken} times by 500 short locks");
    // It does wake up for a renewal. The lease does not end on a machine that is suspended for half a second.
    let _guard = client.lock("long").ttl(Duration::from_secs(2)).acquire().await.expect("free");
    until("it renews", || naps() - before > woken + 3).await;
}

/// Waits until `so` is true, which takes a few renewals at most.
async fn until(what: &str, so: impl Fn() -> bool) {
    let waiting = async {
        while !so() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), waiting).await.expect(what);
}
