//! A process that runs out of descriptors. The test has a process of its own, because the limit applies to
//! the process.
#![allow(clippy::disallowed_methods, reason = "tests count their own time")]
#![cfg(feature = "sqlite")]

use std::fs;
use std::path::Path;
use std::time::Duration;

use latchwork::Client;
use latchwork::engines::Sqlite;
use nix::sys::resource::{Resource, getrlimit, setrlimit};

fn limit_descriptors(to: u64) {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, to.min(hard), hard).unwrap();
}

fn open_descriptors() -> Vec<String> {
    let links =
        fs::read_dir("/proc/self/fd").unwrap().filter_map(|entry| fs::read_link(entry.unwrap().path()).ok());
    links.map(|path| path.display().to_string()).collect()
}

fn open(path: &Path) -> Client {
    Client::new(Sqlite::open(path).unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_process_without_descriptors_takes_nobodys_lock_and_recovers_and_leaks_none() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("locks.db");
    let (holder, other) = (open(&path), open(&path));
    let guard = holder.lock("held").acquire().await.unwrap();
    let _ = other.lock("warm").acquire().await.unwrap().release().await;
    let sessions = folder.path().join("locks.db-sessions");
    let own: Vec<_> = fs::read_dir(&sessions).unwrap().map(|entry| entry.unwrap().path()).collect();

    // No call that fails without a descriptor treats a session as dead or a claim as void.
    for limit in 3..open_descriptors().len() as u64 + 20 {
        limit_descriptors(limit);
        let _ = Sqlite::open(&path);
        let _ = other.lock("held").try_acquire().await.map(|got| assert!(got.is_none(), "held twice"));
        limit_descriptors(1024);
        assert!(
            other.lock("held").try_acquire().await.unwrap().is_none(),
            "held twice, at a limit of {limit}"
        );
    }
    assert!(guard.is_certain());

    // A session whose FIFO was removed in this state creates it again as soon as it can.
    own.iter().for_each(|fifo| fs::remove_file(fifo).unwrap());
    for limit in 3..open_descriptors().len() as u64 + 6 {
        limit_descriptors(limit);
        tokio::time::sleep(Duration::from_millis(2)).await;
        let _ = holder.lock("another").try_acquire().await;
        limit_descriptors(1024);
    }
    holder.lock("another").wait(Duration::from_secs(5)).acquire().await.unwrap().release().await.unwrap();

    // A client whose FIFO is removed while many tasks wait leaves no reader behind.
    let before = open_descriptors().iter().filter(|name| name.contains("fifo")).count();
    let own: Vec<_> = fs::read_dir(&sessions).unwrap().map(|entry| entry.unwrap().path()).collect();
    let mut held = Vec::new();
    for number in 0..8 {
        held.push(holder.lock(format!("many {number}")).acquire().await.unwrap());
    }
    for _ in 0..20 {
        let client = open(&path);
        let wait = |number: usize| {
            let lock = client.lock(format!("many {number}")).wait(Duration::from_millis(60));
            tokio::spawn(async move { drop(lock.acquire().await) })
        };
        let waiting: Vec<_> = (0..8).map(wait).collect();
        tokio::time::sleep(Duration::from_millis(20)).await;
        for fifo in fs::read_dir(&sessions).unwrap().map(|entry| entry.unwrap().path()) {
            let _ = (!own.contains(&fifo)).then(|| fs::remove_file(&fifo));
        }
        drop(client.lock("yet another").try_acquire().await);
        for waiting in waiting {
            waiting.await.unwrap();
        }
    }
    tokio::time::sleep(Duration::from_millis(1_000)).await;
    let after = open_descriptors().iter().filter(|name| name.contains("fifo")).count();
    assert!(after <= before, "{before} FIFO descriptors before, {after} after");
}
