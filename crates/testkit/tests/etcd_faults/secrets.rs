//! A password is sent to the server and appears nowhere else.

use std::fmt::Write as _;
use std::time::Duration;

use latchwork::engine::{EngineUrl, Filter, Revoke};
use latchwork::{Client, ErrorKind, Result};
use testkit::log_capture::LogCapture;
use testkit::servers::{EtcdOptions, EtcdServer, EtcdTls};

use super::harness::{LOCK, SOON};

const USER: &str = "canary-user";
const PASSWORD: &str = "canary-password-7f3a";

/// A server that requires a user and a password, and knows this user.
fn guarded() -> EtcdServer {
    let server = EtcdServer::start(EtcdOptions { grant: Some("app/".to_owned()), ..EtcdOptions::default() });
    for words in [
        &["user", "add", &format!("{USER}:{PASSWORD}")][..],
        &["user", "grant-role", USER, EtcdOptions::USER[0]],
    ] {
        server.etcdctl(words);
    }
    server
}

fn url(server: &EtcdServer, password: &str) -> String {
    format!("etcd://{USER}:{password}@{}/?namespace=app/", server.address())
}

/// All texts about a client and its locks in the course of an eventful life.
async fn life_of(client: &Client, server: &EtcdServer) -> Result<String> {
    let mut said = format!("{client:?} {:?}\n", client.guarantees());
    let lock = client.lock(LOCK).ttl(Duration::from_secs(2)).wait(Duration::from_millis(300));
    let guard = lock.acquire().await?;
    let _ = writeln!(said, "{lock:?} {guard:?} {:?}", lock.try_acquire().await?);
    let first = guard.lease_end();
    while guard.lease_end() == first {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let held = client.inspect(&Filter::Prefix(String::new())).await?;
    let _ = writeln!(said, "{held:?} {:?}", client.revoke(&held[0], Revoke::Now).await?);
    let loss = tokio::time::timeout(SOON, guard.lost()).await.expect("it is told");
    let _ = writeln!(said, "{loss} {:?}", guard.release().await);
    server.etcdctl(&["user", "revoke-role", USER, EtcdOptions::USER[0]]);
    let _ = writeln!(said, "{:?}", lock.try_acquire().await);
    server.etcdctl(&["user", "delete", USER]);
    let _ = writeln!(said, "{:?}", lock.try_acquire().await);
    server.kill();
    let error = lock.try_acquire().await.expect_err("no server listens");
    let _ = writeln!(said, "{error} {error:?} {:?}", std::error::Error::source(&error));
    let _ = writeln!(said, "{:?}", client.close().await);
    Ok(said)
}

/// Errors while connecting to a server.
async fn failures() -> String {
    let tls = EtcdTls::mutual();
    let encrypted = EtcdServer::start(EtcdOptions { tls: Some(tls), ..EtcdOptions::default() });
    let (closed, open) = (guarded(), EtcdServer::start(EtcdOptions::default()));
    closed.etcdctl(&["user", "delete", USER]);
    let place = |scheme: &str, address: String| format!("{scheme}://{USER}:{PASSWORD}@{address}");
    let urls = [
        place("etcd", closed.address().to_string()),
        place("etcd", open.address().to_string()),
        place("etcd", "127.0.0.1:1".to_owned()),
        place("etcd", "127.0.0.1:nonsense".to_owned()),
        place("etcd", encrypted.address().to_string()),
        place("etcd+tls", encrypted.address().to_string()),
        place("etcd", format!("{}/?{PASSWORD}", closed.address())),
        place("etcd", format!("{}/?ca={PASSWORD}", closed.address())),
        place("etcd+tls", format!("{}/?key={PASSWORD}", closed.address())),
        place("etcd", format!("{}/{PASSWORD}", closed.address())),
        format!("etcd://{PASSWORD}@{}", closed.address()),
        format!("etcd://:{PASSWORD}@{}", closed.address()),
    ];
    let mut said = String::new();
    for url in urls {
        let error = latchwork::connect(&url).await.expect_err("the server cannot be used");
        let _ = writeln!(said, "{error} {error:?} {:?}", std::error::Error::source(&error));
        // A user or a path is shown, whatever it was meant for.
        if url.contains(&format!(":{PASSWORD}")) && !url.contains(&format!("/{PASSWORD}")) {
            let _ = writeln!(said, "{:?}", url.parse::<EngineUrl>());
        }
    }
    said
}

fn keeps_the_secret(said: &str) {
    let told = said.lines().find(|line| line.contains("7f3a"));
    assert_eq!(told, None, "the password was shown");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_error_no_debug_text_and_no_event_contains_a_password() {
    let (capture, server) = (LogCapture::of_this_process(), guarded());
    let url = url(&server, PASSWORD);
    let parsed: EngineUrl = url.parse().expect("a valid URL");
    keeps_the_secret(&format!("{parsed:?} {parsed}"));
    let client = latchwork::connect(&url).await.expect("the right password");
    let life = life_of(&client, &server).await.expect("an eventful life");
    println!("{life}");
    assert!(life.contains("permission denied"), "{life}");
    keeps_the_secret(&life);
    let failures = failures().await;
    println!("{failures}");
    assert!(failures.contains("authentication"), "{failures}");
    keeps_the_secret(&failures);
    let log = capture.read();
    assert!(log.contains("lost: ") && log.contains(LOCK), "the log is empty:\n{log}");
    keeps_the_secret(&log);
}

#[tokio::test]
async fn a_wrong_password_is_denied_with_the_endpoint_in_the_error() {
    let server = guarded();
    let error = latchwork::connect(&url(&server, "another")).await.expect_err("the wrong password");
    println!("{error}");
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    assert!(error.to_string().contains(&server.address().to_string()), "{error}");
    let nobody = format!("etcd://{}/?namespace=app/", server.address());
    // Newer versions refuse every request; others only refuse the lock.
    let error = match latchwork::connect(&nobody).await {
        Ok(nobody) => nobody.lock(LOCK).try_acquire().await.expect_err("a client without a user is refused"),
        Err(error) => error,
    };
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    assert!(error.to_string().contains("user:password@"), "{error}");
}
