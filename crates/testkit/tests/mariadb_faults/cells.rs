//! Cells on a server that pushes nothing, and that limits the size of packets.

use latchwork::{Cell, Effect, ErrorKind, Version, Written, connect};
use testkit::harness::{LOCK, LONG, now, pause};
use testkit::scenarios::sql::SqlHarness as _;

use super::harness::MariadbHarness;

const WATCHERS: usize = 20;

/// A status variable of the server.
fn figure(harness: &MariadbHarness, name: &str) -> u64 {
    let row = harness.sql(&format!("SHOW GLOBAL STATUS LIKE '{name}'"));
    row.split('\t').nth(1).expect("a figure").parse().expect("a number")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_and_a_write_of_a_cell_are_one_statement_each() {
    let harness = MariadbHarness::new();
    let client = connect(&harness.direct_url()).await.expect("the process runs");
    assert!(!client.cell("first").get().await.expect("answers").is_set(), "the first use creates the table");
    let before = harness.server.statements();
    let cell = client.cell("x");
    let Written::Done(first) = cell.set_if(Version::ABSENT, "one").await.expect("answers") else {
        panic!("it was not set")
    };
    let Written::Done(second) = cell.set_if(first, "two").await.expect("answers") else {
        panic!("the same lease")
    };
    assert_eq!(cell.set_if(first, "late").await.expect("answers"), Written::Changed);
    assert_eq!(cell.set_if(Version::ABSENT, "first").await.expect("answers"), Written::Changed);
    assert_eq!(cell.get().await.expect("answers").version, second);
    cell.delete_if(second).await.expect("answers");
    assert!(matches!(cell.set_if(Version::ABSENT, "anew").await, Ok(Written::Done(third)) if third > second));
    assert_eq!(harness.server.statements() - before, 7);
}

/// The packets of such a value would end the connection, on which other tasks wait.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_value_above_the_servers_limit_is_refused_with_the_limit_and_without_harm() {
    let harness = MariadbHarness::new();
    harness.sql("SET GLOBAL max_allowed_packet = 65536");
    let client = connect(&harness.direct_url()).await.expect("the process runs");
    let guard = client.lock(LOCK).ttl(LONG).acquire().await.expect("free");
    let cell = client.cell("x".repeat(512));
    let connections = harness.server.most_connections();
    for (length, seen) in [(65_536 - 1024 + 1, Version::ABSENT), (Cell::MAX_BYTES, Version::new(7))] {
        let error = cell.set_if(seen, vec![b'x'; length]).await.expect_err("too long");
        assert_eq!((error.kind(), error.effect()), (ErrorKind::Invalid, Effect::None), "{error}");
        let (text, length) = (error.to_string(), length.to_string());
        let words = [length.as_str(), "64512", "max_allowed_packet", "65536"];
        assert!(words.iter().all(|word| text.contains(word)), "{error}");
    }
    // The longest value that the client accepts is one that the server accepts.
    let longest = vec![b'x'; 65_536 - 1024];
    let set = cell.update(|_| longest.clone()).await.expect("the value fits");
    let set = cell.update(|_| longest.clone()).await.map(|again| (set, again)).expect("the value fits again");
    assert!(set.1.version > set.0.version);
    assert_eq!(cell.get().await.expect("answers").value, Some(longest));
    guard.release().await.expect("held");
    assert_eq!(harness.server.most_connections(), connections, "no client had to reconnect");
}

/// Polled every few milliseconds right after a change, and then less and less often.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watchers_of_an_unchanged_cell_poll_rarely_and_fetch_nothing() {
    let harness = MariadbHarness::new();
    let client = connect(&harness.direct_url()).await.expect("the process runs");
    client.cell("config").update(|_| vec![b'x'; Cell::MAX_BYTES]).await.expect("answers");
    let mut watching = Vec::new();
    for _ in 0..WATCHERS {
        let mut changes = client.cell("config").watch();
        changes.next().await.expect("answers");
        watching.push(tokio::spawn(async move { changes.next().await }));
    }
    pause(1_500).await;
    let (begun, asked, sent) = (now(), harness.server.statements(), figure(&harness, "Bytes_sent"));
    pause(1_500).await;
    let took = now().since(begun).as_secs_f64();
    let each = (harness.server.statements() - asked) as f64 / took / WATCHERS as f64;
    let sent = figure(&harness, "Bytes_sent") - sent;
    println!("{each:.1} looks a second each, {sent} bytes in {took:.1} s");
    assert!(each < 5.0, "{each} polls a second");
    assert!(sent < Cell::MAX_BYTES as u64, "{sent} bytes for nothing new");
    client.cell("config").update(|_| b"new".to_vec()).await.expect("answers");
    for watcher in watching {
        let told = tokio::time::timeout(LONG, watcher).await.expect("told").expect("no panic");
        assert_eq!(told.expect("answers").bytes(), Some(&b"new"[..]));
    }
}
