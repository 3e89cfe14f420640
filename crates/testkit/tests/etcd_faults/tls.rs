//! TLS, and servers that present a false identity.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use latchwork::{Effect, ErrorKind};
use testkit::servers::{Certificates, EtcdOptions, EtcdServer, EtcdTls, Identity};

use super::harness::{LOCK, LONG, connect, now};

const SECRET: &str = "canary-secret";

fn server(certificates: &Arc<Certificates>, identity: Identity, clients_need_one: bool) -> EtcdServer {
    let tls = Some(EtcdTls { certificates: certificates.clone(), identity, clients_need_one });
    EtcdServer::start(EtcdOptions { tls, ..EtcdOptions::default() })
}

fn url(server: &EtcdServer, ca: &Path) -> String {
    format!("etcd+tls://{}/?ca={}", server.address(), ca.display())
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
async fn a_lock_is_held_and_handed_over_through_tls_with_certificates_on_both_sides() {
    let certificates = Arc::new(Certificates::make());
    let server = server(&certificates, certificates.server(), true);
    let url = url(&server, &certificates.ca());
    let good = with(&url, &certificates.client());
    let (one, other) = (connect(&good).await, connect(&good).await);
    let guard = one.lock(LOCK).ttl(Duration::from_secs(2)).acquire().await.expect("free");
    let first = guard.lease_end();
    let lock = other.lock(LOCK).ttl(LONG);
    let waiting = tokio::spawn(async move { lock.acquire().await });
    let end = now().after(LONG);
    while guard.lease_end() == first {
        assert!(now() < end, "not renewed");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    guard.release().await.expect("held");
    waiting.await.expect("no panic").expect("handed over").release().await.expect("held");
    // No client without a certificate, or with one of another authority, is accepted.
    refused(&url, &["etcd at", "cert= and key="]).await;
    refused(&with(&url, &certificates.stranger()), &["etcd at"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_of_an_unknown_authority_is_refused() {
    let certificates = Arc::new(Certificates::make());
    let server = server(&certificates, certificates.server(), false);
    refused(&url(&server, &certificates.other_ca()), &["UnknownIssuer", "ca="]).await;
    refused(&format!("etcd+tls://{}", server.address()), &["UnknownIssuer", "ca="]).await;
    connect(&url(&server, &certificates.ca())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_with_another_name_or_an_expired_certificate_is_refused() {
    let certificates = Arc::new(Certificates::make());
    let elsewhere = server(&certificates, certificates.other_host(), false);
    refused(&url(&elsewhere, &certificates.ca()), &["not valid for name", "elsewhere.example"]).await;
    let expired = server(&certificates, certificates.expired(), false);
    refused(&url(&expired, &certificates.ca()), &["expired"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tls_is_never_dropped_and_never_enabled_implicitly() {
    let certificates = Arc::new(Certificates::make());
    let (encrypted, plain) =
        (server(&certificates, certificates.server(), false), EtcdServer::start(EtcdOptions::default()));
    refused(&url(&plain, &certificates.ca()), &["speak TLS"]).await;
    refused(&format!("etcd://user:{SECRET}@{}", encrypted.address()), &["etcd at"]).await;
    assert_eq!(plain.calls(&["Status", "Authenticate"]), 0, "no request was sent");
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
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").expect("the peer accepts the bytes");
        stream.read_to_end(&mut heard).expect("the stream ends");
        heard
    });
    let certificates = Certificates::make();
    let url = format!("etcd+tls://canary-user:{SECRET}@{address}/?ca={}", certificates.ca().display());
    refused(&url, &["does not speak TLS on this port"]).await;
    let heard = ear.join().expect("no panic");
    assert_eq!(heard.first(), Some(&0x16), "a TLS handshake");
    let text = String::from_utf8_lossy(&heard);
    assert!(!text.contains("canary") && !text.contains("PRI * HTTP"), "{text}");
}
