//! A process that tests start and kill.
//!
//! - `worker_process hold URL NAME MILLIS` acquires the lock with that ttl, prints `held TOKEN`, and holds
//!   the lock until it is killed.
//! - `worker_process share MODE URL NAME MILLIS` does so with a shared lock: `read`, `write`, or a number of
//!   permits.
//! - `worker_process lead VALUE URL NAME MILLIS` does so as the leader of an election, and publishes VALUE.
//! - `worker_process once URL NAME MILLIS` acquires the lock with that ttl for at least that long, releases
//!   it at once and stays alive.
//! - `worker_process pass URL NAME MILLIS` acquires the lock with that ttl, prints `held TOKEN`, releases the
//!   lock and ends.
//! - `worker_process count URL NAME FILE HISTORY TASKS TIMES` lets TASKS tasks add 1 to the number in FILE,
//!   TIMES each, protected by nothing but the lock.
//! - `worker_process contenders URL NAME FILE HISTORY CLIENTS TIMES` does so with clients that never hand the
//!   lock over locally.
//! - `worker_process flock FILE` holds a plain `flock` until it is killed, for comparison.
//! - `worker_process turns ...` is one process of a load whose requests are counted.
//! - `worker_process churn URL NAME HISTORY` acquires and releases locks until it is killed.
//! - `worker_process storm URL NAME HISTORY FOLDER MILLIS` does so with that ttl, writes to stores in FOLDER
//!   that check its tokens, and may be stopped for longer than its leases. It panics if a guarantee is
//!   broken.
//! - `worker_process mixed URL FOLDER MILLIS` uses every recipe that is built on locks, with that ttl, until
//!   it is told to stop.
//! - `worker_process stoppable URL NAME HISTORY MILLIS` acquires and releases one lock with that ttl until it
//!   is killed. It may be stopped in between: a turn whose lock was lost simply ends.

use std::path::Path;
use std::time::Duration;

use latchwork::{Client, Election, ErrorKind, Guard, Lock};
use testkit::history::{RecordedLock, Recorder};
use testkit::store::{Store, Written};
use tokio::task::JoinSet;

#[tokio::main]
async fn main() {
    let args: Vec<String> = std::env::args().collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[1..] {
        ["hold", url, name, millis] => hold(&connect(url).await.lock(name), number(millis)).await,
        ["share", mode, url, name, millis] => hold(&shared(url, name, mode).await, number(millis)).await,
        ["lead", value, url, name, millis] => {
            lead(&connect(url).await.election(name), value, number(millis)).await
        }
        ["once", url, name, millis] => once(url, name, number(millis)).await,
        ["pass", url, name, millis] => pass(url, name, number(millis)).await,
        ["count", url, name, file, history, tasks, times] => {
            let client = Recorder::shared(Path::new(history)).client(connect(url).await);
            let locks = (0..number(tasks)).map(|_| client.lock(name)).collect();
            count(locks, file, number(times)).await
        }
        ["contenders", url, name, file, history, clients, times] => {
            let (recorder, mut locks) = (Recorder::shared(Path::new(history)), Vec::new());
            for _ in 0..number(clients) {
                let client = recorder.client(connect(url).await);
                locks.push(client.lock(name).with(|lock| lock.local_handoff(false)));
            }
            count(locks, file, number(times)).await
        }
        ["turns", ref contenders @ ..] => testkit::requests::work(contenders).await,
        ["flock", file] => flock(file),
        ["churn", url, name, history] => churn(url, name, history).await,
        ["storm", url, name, history, folder, millis] => {
            storm(url, name, [history, folder].map(Path::new), number(millis)).await
        }
        ["mixed", url, folder, millis] => {
            testkit::workload::mixed::run_worker(
                url,
                Path::new(folder),
                Duration::from_millis(number(millis)),
            )
            .await
        }
        ["stoppable", url, name, history, millis] => stoppable(url, name, history, number(millis)).await,
        _ => panic!("see the top of worker_process.rs"),
    }
}

fn number(text: &str) -> u64 {
    text.parse().expect("a number")
}

async fn connect(url: &str) -> Client {
    latchwork::connect(url).await.expect("the engine accepts the connection")
}

async fn shared(url: &str, name: &str, mode: &str) -> Lock {
    let client = connect(url).await;
    match mode {
        "read" => client.rw_lock(name).read(),
        "write" => client.rw_lock(name).write(),
        permits => client.semaphore(name, number(permits) as u32),
    }
}

async fn take(lock: &Lock, millis: u64) -> Guard {
    println!("started");
    let lock = lock.clone().ttl(Duration::from_millis(millis));
    let guard = lock.acquire().await.expect("the lock becomes free");
    match guard.token() {
        Ok(token) => println!("held {token}"),
        Err(_) => println!("held without a token"),
    }
    guard
}

async fn hold(lock: &Lock, millis: u64) {
    let _guard = take(lock, millis).await;
    std::future::pending::<()>().await;
}

async fn lead(election: &Election, value: &str, millis: u64) {
    println!("started");
    let election = election.clone().ttl(Duration::from_millis(millis));
    let leading = election.campaign(value).await.expect("its turn comes");
    println!("held {}", leading.term());
    std::future::pending::<()>().await;
}

async fn once(url: &str, name: &str, millis: u64) {
    let client = connect(url).await;
    let lock = client.lock(name).hold_at_least(Duration::from_millis(millis));
    take(&lock, millis).await.release().await.expect("held until here");
    println!("released");
    std::future::pending::<()>().await;
}

async fn pass(url: &str, name: &str, millis: u64) {
    take(&connect(url).await.lock(name), millis).await.release().await.expect("held until here");
}

fn flock(file: &str) {
    let file = std::fs::File::open(file).expect("the file is there");
    file.lock().expect("the lock becomes free");
    println!("held");
    loop {
        std::thread::park();
    }
}

async fn count(locks: Vec<RecordedLock>, file: &str, times: u64) {
    let add = |lock: RecordedLock| {
        let file = file.to_owned();
        tokio::spawn(async move {
            for _ in 0..times {
                let guard = lock.acquire().await.expect("the lock becomes free");
                let now = std::fs::read_to_string(&file).map_or(0, |text| number(&text));
                tokio::task::yield_now().await;
                std::fs::write(&file, (now + 1).to_string()).expect("the counter can be written");
                guard.release().await.expect("held until here");
            }
        })
    };
    for task in locks.into_iter().map(add).collect::<Vec<_>>() {
        task.await.expect("no panic");
    }
}

/// Two tasks contend for one name and hand it over to each other. One task uses a name that is never handed
/// over locally, so that it goes from process to process each time. One uses a name that hardly any other
/// process wants, so that the uncontended path is killed too.
async fn churn(url: &str, name: &str, history: &str) {
    let client = Recorder::shared(Path::new(history)).client(connect(url).await);
    println!("started");
    let (wire, own) = (format!("{name}-wire"), format!("{name}-{}", std::process::id() % 4));
    for name in [name, name, wire.as_str(), own.as_str()] {
        let lock = client.lock(name).with(|lock| lock.local_handoff(name != wire));
        tokio::spawn(async move {
            loop {
                let guard = lock.acquire().await.expect("the lock becomes free");
                tokio::task::yield_now().await;
                guard.release().await.expect("held until here");
            }
        });
    }
    std::future::pending::<()>().await;
}

/// Uses the same locks as `churn`.
async fn storm(url: &str, name: &str, [history, folder]: [&Path; 2], millis: u64) {
    let client = Recorder::shared(history).client(connect(url).await);
    println!("started");
    let (wire, own) = (format!("{name}-wire"), format!("{name}-{}", std::process::id() % 4));
    let mut tasks = JoinSet::new();
    for name in [name, name, wire.as_str(), own.as_str()] {
        let lock = client.lock(name).ttl(Duration::from_millis(millis));
        let lock = lock.with(|lock| lock.local_handoff(name != wire));
        tasks.spawn(weather(lock, Store::open(&folder.join(name))));
    }
    while let Some(ended) = tasks.join_next().await {
        ended.expect("no guarantee was broken");
    }
}

async fn weather(lock: RecordedLock, mut store: Store) {
    loop {
        let guard = lock.acquire().await.expect("the lock becomes free");
        let token = guard.token().expect("the engine has tokens");
        let written = store.write(token, "storm");
        assert!(written == Written::Accepted || !guard.is_certain(), "a certain holder was refused");
        // Some turns are long enough to be stopped in the middle, others are as short as possible.
        tokio::time::sleep(Duration::from_millis(token.engine_token() % 4)).await;
        if let Err(error) = guard.release().await {
            assert_eq!(error.kind(), ErrorKind::Lost, "{error}");
        }
    }
}

async fn stoppable(url: &str, name: &str, history: &str, millis: u64) {
    let client = Recorder::shared(Path::new(history)).client(connect(url).await);
    println!("started");
    let lock = client.lock(name).ttl(Duration::from_millis(millis));
    loop {
        let guard = lock.acquire().await.expect("the lock becomes free");
        tokio::time::sleep(Duration::from_millis(1)).await;
        match guard.release().await {
            Err(error) if error.kind() != ErrorKind::Lost => panic!("{error}"),
            _ => {}
        }
    }
}
