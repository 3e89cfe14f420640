//! Invalid URLs: each error names the option and its valid values.

use latchwork::ErrorKind;
use testkit::servers::{Certificates, RedisOptions, RedisServer};

/// No server listens there, so a client that connected before reading the options would get another error.
const NOBODY: &str = "redis://127.0.0.1:1/?";

async fn invalid(url: &str, parts: &[&str]) {
    let error = latchwork::connect(url).await.expect_err("the server cannot be used");
    println!("{error}");
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    assert!(parts.iter().all(|part| error.to_string().contains(part)), "{parts:?} in {error}");
}

#[tokio::test]
async fn every_option_with_an_invalid_value_is_named_with_its_valid_values() {
    let words = [
        ("scheme=redlock", "scheme=", "set, setnx, getset"),
        ("scheme=", "scheme=", "set, setnx, getset"),
        ("quarantine=yes", "quarantine=", "auto, strict, off"),
        ("handover=Wake", "handover=", "direct, wake"),
        ("max-ttl=soon", "max-ttl=", "500ms, 60s"),
        ("max-ttl=0s", "max-ttl=", "1ms to 24h"),
        ("max-ttl=25h", "max-ttl=", "1ms to 24h"),
        ("max-ttl=-1s", "max-ttl=", "1ms to 24h"),
        ("max-ttl=60", "max-ttl=", "1ms to 24h"),
        ("max-ttl=99999999999999999999h", "max-ttl=", "1ms to 24h"),
        ("handover=wake&gap=long", "gap=", "1ms to 24h"),
        ("gap=long", "gap=", ""),
        ("gap=100ms", "gap=", "handover=wake"),
        ("max-waiters=0", "max-waiters=", "a number from 1 on"),
        ("max-waiters=many", "max-waiters=", "a number from 1 on"),
        ("max-waiters=4294967296", "max-waiters=", "a number from 1 on"),
        ("db=first", "db=", "database"),
        ("db=-1", "db=", "database"),
        ("ca=/tmp/ca.pem", "ca", "rediss://"),
        ("cert=/tmp/cert.pem", "cert", "rediss://"),
        ("quarantin=off", "quarantin", "quarantine"),
        ("speed=high", "speed", "max-waiters"),
    ];
    for (option, name, takes) in words {
        invalid(&format!("{NOBODY}{option}"), &[name, takes]).await;
    }
}

#[tokio::test]
async fn an_invalid_address_is_refused_before_anything_is_sent() {
    for (url, part) in [
        ("redis://127.0.0.1:0", "1 to 65535"),
        ("redis://127.0.0.1:99999", "1 to 65535"),
        ("redis://127.0.0.1:port", "1 to 65535"),
        ("redis://one,two", "redlock://"),
        ("redis://127.0.0.1/first", "database"),
        ("redis+unix:redis.sock", "redis+unix:/run/redis.sock"),
        ("redis+unix://host/redis.sock", "redis+unix:/run/redis.sock"),
    ] {
        invalid(url, &[part]).await;
    }
}

#[tokio::test]
async fn unusable_tls_files_are_named() {
    let certificates = Certificates::make();
    let (ca, client, folder) = (certificates.ca(), certificates.client(), tempfile::tempdir().unwrap());
    let (ca, cert, key) = (ca.display(), client.certificate.display(), client.key.display());
    let broken = folder.path().join("broken.pem");
    let broken = broken.display();
    std::fs::write(broken.to_string(), "-----BEGIN CERTIFICATE-----\nno base64 !\n").unwrap();
    for (options, part) in [
        (format!("ca={ca}.missing"), "ca="),
        (format!("ca={key}"), "ca="),
        (format!("ca={broken}"), "ca"),
        (format!("ca={ca}&cert={cert}"), "cert and key go together"),
        (format!("ca={ca}&key={key}"), "cert and key go together"),
        (format!("ca={ca}&cert={cert}&key={cert}"), "key="),
        (format!("ca={ca}&cert={key}&key={key}"), "cert="),
    ] {
        invalid(&format!("rediss://127.0.0.1:1/?{options}"), &[part]).await;
    }
}

/// Redis itself would treat it as the default user, with that user's rights.
#[tokio::test]
async fn a_user_without_a_password_is_refused_and_not_ignored() {
    invalid("redis://canary@127.0.0.1:1", &["user", "password"]).await;
    let error = latchwork::connect("redis://canary@127.0.0.1:1").await.expect_err("no password");
    assert!(!format!("{error} {error:?}").contains("canary"), "it may be the password: {error}");
}

#[tokio::test]
async fn a_database_that_the_server_does_not_have_is_the_callers_mistake() {
    let server = RedisServer::start(RedisOptions::default());
    let url = |database| format!("redis://{}/{database}", server.address());
    invalid(&url(99), &["database"]).await;
    latchwork::connect(&url(15)).await.expect("the server has that database");
    let config = vec![("cluster-enabled".to_owned(), "yes".to_owned())];
    let node = RedisServer::start(RedisOptions { config, ..Default::default() });
    // A cluster of Valkey 9 can have databases, and has another error for a database that does not exist.
    let info = node.command(&["INFO", "server"]).text();
    let of_cluster = if info.contains("valkey_version:9") { "out of range" } else { "cluster" };
    invalid(&format!("redis://{}/1", node.address()), &[of_cluster, "database"]).await;
}

#[tokio::test]
async fn a_server_with_no_room_for_another_connection_is_unreachable_for_now() {
    let config = vec![("maxclients".to_owned(), "2".to_owned())];
    let server = RedisServer::start(RedisOptions { config, ..Default::default() });
    let url = format!("redis://{}", server.address());
    server.command(&["PING"]);
    let _client = latchwork::connect(&url).await.expect("the last place");
    let error = latchwork::connect(&url).await.expect_err("full");
    assert_eq!(error.kind(), ErrorKind::Unreachable, "{error}");
}
