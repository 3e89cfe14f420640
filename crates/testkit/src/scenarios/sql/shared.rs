//! `scheme=insert` beside services that use the same table by plain SQL.

use std::path::Path;
use std::time::Duration;

use latchwork::ErrorKind;

use super::SqlHarness;
use crate::harness::{ANSWERED, LOCK, LONG, SOON, now, pause, take};
use crate::plain_sql_client::{PlainSqlClient, SqlServer};

/// The shared table.
pub const TABLE: &str = "distributed_lock";
/// The maximum age that all agree on, in milliseconds.
pub const AGE: u64 = 3_000;
/// The number of turns of each participant.
const TURNS: u64 = 8;

/// The options of our URL.
pub fn options() -> String {
    format!("scheme=insert&table={TABLE}&max-age={AGE}ms")
}

/// A service with this holder name.
pub fn service<'a, S>(server: &'a S, holder: &'a str) -> PlainSqlClient<'a, S> {
    PlainSqlClient { server, table: TABLE, mutex: LOCK, holder, age: AGE }
}

/// The row is renewed, so its age does not matter.
pub async fn a_service_is_excluded_for_as_long_as_our_client_holds(
    harness: &impl SqlHarness,
    server: &impl SqlServer,
    url: &str,
) {
    let client = harness.connect(url).await;
    let guard = take(&client.lock(LOCK).ttl(Duration::from_millis(AGE))).await;
    let service = service(server, "host-7");
    let end = now().after(Duration::from_millis(AGE * 3 / 2));
    while now() < end {
        assert!(!service.take(), "renewed at any age");
        pause(100).await;
    }
    assert!(guard.is_certain());
    guard.release().await.expect("held");
    assert!(service.take(), "the lock became free");
    assert_eq!(service.holder(), "host-7");
    assert!(client.lock(LOCK).try_acquire().await.expect("an answer").is_none());
    service.release();
    harness.judge(&[client], SOON).await;
}

/// A late delete by the service does not remove our row.
pub async fn our_client_is_excluded_until_the_service_releases_or_its_row_is_too_old(
    harness: &impl SqlHarness,
    server: &impl SqlServer,
    url: &str,
) {
    let client = harness.connect(url).await;
    let service = service(server, "host-7");
    let lock = client.lock(LOCK).ttl(LONG);
    assert!(service.take());
    let error = lock.clone().wait(ANSWERED).acquire().await.expect_err("held");
    assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
    assert!(error.to_string().contains("host-7"), "{error} names the holder");
    let waiting = tokio::spawn({
        let lock = lock.clone();
        async move { take(&lock).await }
    });
    pause(100).await;
    assert!(!waiting.is_finished());
    service.release();
    waiting.await.expect("no panic").release().await.expect("held");
    // The service dies with the lock.
    let taken = now();
    assert!(service.take());
    let guard = take(&lock).await;
    assert!(now().since(taken) >= Duration::from_millis(AGE), "not before it is old enough");
    service.release();
    assert!(guard.is_certain() && client.lock(LOCK).try_acquire().await.expect("an answer").is_none());
    guard.release().await.expect("a late delete of the service had no effect");
    harness.judge(&[client], SOON).await;
}

/// Two services and two of our clients, and a counter that each of them reads and writes.
pub async fn services_and_clients_take_turns_one_at_a_time(server: &(impl SqlServer + Sync), url: &str) {
    let counter = tempfile::NamedTempFile::new().expect("a temporary file");
    std::fs::write(counter.path(), "0").expect("the file is ours");
    let mut clients = Vec::new();
    for _ in 0..2 {
        let (path, client) =
            (counter.path().to_owned(), latchwork::connect(url).await.expect("the server runs"));
        clients.push(tokio::spawn(async move {
            for _ in 0..TURNS {
                let guard = client.lock(LOCK).ttl(LONG).wait(LONG).acquire().await.expect("its turn comes");
                add(&path);
                guard.release().await.expect("held");
                pause(5).await;
            }
        }));
    }
    // The clients continue meanwhile, on their own worker threads.
    tokio::task::block_in_place(|| {
        std::thread::scope(|scope| {
            for holder in ["host-0", "host-1"] {
                scope.spawn(|| turns_of(&service(server, holder), counter.path()));
            }
        });
    });
    for client in clients {
        client.await.expect("every participant has all turns");
    }
    let count = std::fs::read_to_string(counter.path()).expect("readable");
    assert_eq!(count, (4 * TURNS).to_string());
}

fn turns_of(service: &PlainSqlClient<'_, impl SqlServer>, counter: &Path) {
    for _ in 0..TURNS {
        while !service.take() {
            std::thread::sleep(Duration::from_millis(10));
        }
        add(counter);
        service.release();
    }
}

/// Two concurrent holders would lose a count.
fn add(path: &Path) {
    let count: u64 = std::fs::read_to_string(path).expect("readable").parse().expect("a number");
    std::fs::write(path, (count + 1).to_string()).expect("the file is ours");
}
