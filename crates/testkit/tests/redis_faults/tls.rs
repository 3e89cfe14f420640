//! TLS, and servers and clients that present a false identity.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::time::Duration;

use latchwork::{Effect, ErrorKind};
use testkit::servers::{Certificates, Identity, RedisOptions, RedisServer, RedisTls};

use super::harness::{LOCK, LONG, connect, now};

const SECRET: &str = "canary-secret";

fn server(certificates: &Certificates, identity: Identity, clients_need_one: bool) -> RedisServer {
    let tls = Some(RedisTls { ca: certificates.ca(), identity, clients_need_one });
    RedisServer::start(RedisOptions { tls, ..Default::default() })
}

fn url(server: &RedisServer, ca: &Path) -> String {
    format!("rediss://{}/?ca={}", server.address(), ca.display())
}

fn with(url: &str, identity: &Identity) -> String {
    format!("{url}&cert={}&key={}", identity.certificate.display(), identity.key.display())
}

/// The connection is refused for a stated reason.
async fn refused(url: &str, reasons: &[&str]) {
    let begun = now();
    let error = latchwork::connect(url).await.expect_err("the server must not be trusted");
    let took = now().since(begun);
    println!("{error}, after {took:?}");
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Unreachable, Effect::None), "{error}");
    assert!(reasons.iter().all(|reason| error.to_string().contains(reason)), "{reasons:?} in {error}");
    assert!(took < Duration::from_secs(8), "it took {took:?} to fail with {error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_is_held_renewed_and_handed_over_through_tls_with_certificates_on_both_sides() {
    let certificates = Certificates::make();
    let server = server(&certificates, certificates.server(), true);
    let url = with(&url(&server, &certificates.ca()), &certificates.client());
    let (one, other) = (connect(&url).await, connect(&url).await);
    let guard = one.lock(LOCK).ttl(Duration::from_secs(3)).acquire().await.expect("free");
    let first = guard.lease_end();
    let lock = other.lock(LOCK).ttl(LONG);
    let waiting = tokio::spawn(async move { lock.acquire().await });
    let renewed = async {
        while guard.lease_end() == first {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(3), renewed).await.expect("renewed before it ends");
    assert!(guard.is_certain());
    guard.release().await.expect("held");
    waiting.await.expect("no panic").expect("handed over").release().await.expect("held");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_of_an_unknown_authority_is_refused() {
    let certificates = Certificates::make();
    let server = server(&certificates, certificates.server(), false);
    refused(&url(&server, &certificates.other_ca()), &["UnknownIssuer", "ca="]).await;
    refused(&format!("rediss://{}", server.address()), &["UnknownIssuer", "ca="]).await;
    connect(&url(&server, &certificates.ca())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_with_another_name_is_refused() {
    let certificates = Certificates::make();
    let server = server(&certificates, certificates.other_host(), false);
    refused(&url(&server, &certificates.ca()), &["not valid for name", "elsewhere.example"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_whose_certificate_expired_is_refused() {
    let certificates = Certificates::make();
    let server = server(&certificates, certificates.expired(), false);
    refused(&url(&server, &certificates.ca()), &["expired"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_without_the_required_certificate_is_told_what_is_missing() {
    let certificates = Certificates::make();
    let server = server(&certificates, certificates.server(), true);
    let url = url(&server, &certificates.ca());
    refused(&url, &["CertificateRequired", "cert= and key="]).await;
    for identity in [certificates.stranger(), certificates.expired()] {
        refused(&with(&url, &identity), &["alert"]).await;
    }
    connect(&with(&url, &certificates.client())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tls_is_never_dropped_and_never_enabled_implicitly() {
    let certificates = Certificates::make();
    let encrypted = server(&certificates, certificates.server(), false);
    let plain = RedisServer::start(RedisOptions { password: Some(SECRET.into()), ..Default::default() });
    let ca = certificates.ca();
    let url = format!("rediss://:{SECRET}@{}/?ca={}", plain.address(), ca.display());
    refused(&url, &["speak TLS"]).await;
    refused(&format!("redis://{}", encrypted.address()), &["redis at"]).await;
}

/// A listener without TLS that records everything it receives.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_secret_is_sent_before_the_server_is_authenticated() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound");
    let ear = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a client connects");
        let mut heard = vec![0; 4096];
        let length = stream.read(&mut heard).expect("the client sends first");
        heard.truncate(length);
        // The answer of a plain server to bytes that it does not understand.
        stream.write_all(b"-ERR unknown command\r\n").expect("the peer accepts the bytes");
        stream.read_to_end(&mut heard).expect("the stream ends");
        heard
    });
    let certificates = Certificates::make();
    let ca = certificates.ca();
    let url = format!("rediss://canary-user:{SECRET}@{address}/?ca={}", ca.display());
    refused(&url, &["does not speak TLS on this port"]).await;
    let heard = ear.join().expect("no panic");
    assert_eq!(heard.first(), Some(&0x16), "a TLS handshake");
    let text = String::from_utf8_lossy(&heard);
    assert!(!text.contains("canary") && !text.contains("HELLO") && !text.contains("AUTH"), "{text}");
}
