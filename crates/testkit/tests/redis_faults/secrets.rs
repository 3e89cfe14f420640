//! A password is sent to the server and appears nowhere else.

use std::fmt::Write as _;
use std::time::Duration;

use latchwork::engine::{EngineUrl, Filter, Revoke};
use latchwork::{Client, ErrorKind, Result};
use testkit::log_capture::LogCapture;
use testkit::servers::{Certificates, RedisOptions, RedisServer, RedisTls};

use super::harness::{ANSWERED, LOCK, SOON, pause};

const USER: &str = "canary-user";
const PASSWORD: &str = "canary-password-7f3a";

/// A server that accepts only this user, with this password.
fn guarded(password: &str) -> RedisServer {
    let acl = vec!["default off".to_owned(), format!("{USER} on >{password} ~* &* +@all")];
    RedisServer::start(RedisOptions { acl, ..Default::default() })
}

fn url(server: &RedisServer) -> String {
    format!("redis://{USER}:{PASSWORD}@{}/?max-ttl=2s", server.address())
}

/// All texts about a client and its locks in the course of an eventful life.
async fn life_of(client: &Client, server: &RedisServer) -> Result<String> {
    let mut said = format!("{client:?} {:?}\n", client.guarantees());
    let lock = client.lock(LOCK).ttl(Duration::from_secs(2)).wait(ANSWERED);
    let guard = lock.acquire().await?;
    let _ = writeln!(said, "{lock:?} {guard:?} {:?}", lock.try_acquire().await?);
    // Until the lock was renewed.
    pause(900).await;
    let held = client.inspect(&Filter::Prefix(String::new())).await?;
    let _ = writeln!(said, "{held:?} {:?}", client.revoke(&held[0], Revoke::Now).await?);
    let loss = tokio::time::timeout(SOON, guard.lost()).await.expect("it is told");
    let _ = writeln!(said, "{loss} {:?}", guard.release().await);
    server.command(&["ACL", "SETUSER", USER, "-@all"]);
    let _ = writeln!(said, "{:?}", lock.try_acquire().await);
    server.restart_empty();
    let _ =
        writeln!(said, "{:?} {:?}", lock.acquire().await, lock.acquire().await.map_err(|e| e.to_string()));
    server.kill();
    // The tries report the quarantine of the restarted server until the client notices that it is down.
    let error = loop {
        match lock.try_acquire().await {
            Ok(None) => pause(5).await,
            Ok(Some(guard)) => panic!("granted without a server: {guard:?}"),
            Err(error) => break error,
        }
    };
    let _ = writeln!(said, "{error} {error:?} {:?}", std::error::Error::source(&error));
    let _ = writeln!(said, "{:?}", client.close().await);
    Ok(said)
}

/// Errors while connecting to a server.
async fn failures() -> String {
    let certificates = Certificates::make();
    let tls = RedisTls { ca: certificates.ca(), identity: certificates.stranger(), clients_need_one: false };
    let encrypted = RedisServer::start(RedisOptions { tls: Some(tls), ..Default::default() });
    let (wrong, plain) = (guarded("another"), RedisServer::start(RedisOptions::default()));
    let place = |scheme: &str, address: String| format!("{scheme}://{USER}:{PASSWORD}@{address}");
    let urls = [
        place("redis", wrong.address().to_string()),
        place("redis", plain.address().to_string()),
        place("redis", "127.0.0.1:1".to_owned()),
        place("redis", "127.0.0.1:nonsense".to_owned()),
        place("redis", encrypted.address().to_string()),
        place("rediss", encrypted.address().to_string()),
        place("redis", format!("{}/?quarantine={PASSWORD}", wrong.address())),
        place("redis", format!("{}/?{PASSWORD}", wrong.address())),
        place("rediss", format!("{}/?key={PASSWORD}", wrong.address())),
        format!("redis://{PASSWORD}@{}", wrong.address()),
        format!("redis://:pass/{PASSWORD}@{}", wrong.address()),
        format!("red is://:{PASSWORD}@{}", wrong.address()),
        format!("reddis://:{PASSWORD}@{}", wrong.address()),
    ];
    let mut said = String::new();
    for url in urls {
        let error = latchwork::connect(&url).await.expect_err("the server cannot be used");
        let _ = writeln!(said, "{error} {error:?} {:?}", std::error::Error::source(&error));
        // A user is shown, whatever it was meant for.
        if url.contains(&format!(":{PASSWORD}")) {
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
    let (capture, server) = (LogCapture::of_this_process(), guarded(PASSWORD));
    let url = url(&server);
    let parsed: EngineUrl = url.parse().expect("a valid URL");
    keeps_the_secret(&format!("{parsed:?} {parsed}"));
    let client = latchwork::connect(&url).await.expect("the right password");
    let life = life_of(&client, &server).await.expect("an eventful life");
    assert!(life.contains("an operator took it away") && life.contains("refuses user"), "{life}");
    keeps_the_secret(&life);
    let failures = failures().await;
    assert!(failures.contains("WRONGPASS") || failures.contains("AuthenticationFailed"), "{failures}");
    keeps_the_secret(&failures);
    let log = capture.read();
    assert!(log.contains("lost: ") && log.contains(LOCK), "the log is empty:\n{log}");
    keeps_the_secret(&log);
}

/// The user is not secret: a refused client must know its user.
#[tokio::test]
async fn a_wrong_password_is_denied_with_the_user_and_the_endpoint_in_the_error() {
    let server = guarded("another");
    let error = latchwork::connect(&url(&server)).await.expect_err("the wrong password");
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    for part in [USER, "user and password", &server.address().to_string()] {
        assert!(error.to_string().contains(part), "{part:?} in {error}");
    }
}

/// The server's error for an unknown command contains the command, including the password.
#[tokio::test]
async fn a_server_without_hello_is_recognized_and_its_error_text_is_not_shown() {
    let config = vec![("rename-command".to_owned(), "HELLO \"\"".to_owned())];
    let password = Some(PASSWORD.to_owned());
    let server = RedisServer::start(RedisOptions { config, password, ..Default::default() });
    let url = format!("redis://:{PASSWORD}@{}", server.address());
    let error = latchwork::connect(&url).await.expect_err("the server cannot be used");
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(error.to_string().contains("6.2 or newer"), "{error}");
    keeps_the_secret(&format!("{error} {error:?} {:?}", std::error::Error::source(&error)));
}
