//! A server that is not memcached, or is hostile: clear errors of a bounded size, and no panic.

use std::time::Duration;

use latchwork::ErrorKind;
use latchwork::engine::Engine;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::harness::{SOON, claim, engine};

const GREETING: &str = "STAT uptime 99\r\nSTAT version 1.6.18\r\nEND\r\nSTAT cas_enabled yes\r\nEND\r\nNS\r\n\
                        VA 32\r\n000102030405060708090a0b0c0d0e0f\r\n";

/// Sends fixed replies: one to the handshake, then another to everything.
async fn impostor(greeting: &'static [u8], answer: Vec<u8>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let answer = answer.clone();
            tokio::spawn(async move {
                let mut request = [0; 4096];
                for answer in std::iter::once(greeting.to_vec()).chain(std::iter::repeat(answer)) {
                    let is_asked = stream.read(&mut request).await.is_ok_and(|length| length > 0);
                    if !is_asked || answer.is_empty() || stream.write_all(&answer).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    format!("memcached://{address}")
}

fn is_clear(error: &latchwork::Error) {
    let text = error.to_string();
    assert_eq!(error.kind(), ErrorKind::Unreachable, "{text}");
    assert!(text.contains("memcached at 127.0.0.1"), "{text}");
    assert!(text.len() < 700 && !text.chars().any(char::is_control), "{text:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_answer_of_an_impostor_to_a_claim_is_an_error_and_no_panic() {
    let endless = "x".repeat(100_000);
    for answer in [
        "",
        "\r\n",
        "HTTP/1.1 400 Bad Request\r\n",
        "ERROR\r\n",
        "CLIENT_ERROR bad command line format\r\n",
        "SERVER_ERROR out of memory storing object\r\n",
        "VA 18446744073709551615 c1 t1\r\n",
        "VA 99999999999999999999999999 c1 t1\r\n",
        "VA 1048577 c1 t1\r\n",
        "VA 3 c1 t1\r\nabcdef\r\n",
        "EX c0\r\n",
        "EN\r\n",
        "MN\r\n",
        "HD c1\r\nHD c2\r\nHD c3\r\nERROR\r\n\u{1b}[2J",
        "\u{1b}[2J\u{7}\r\n",
        &endless,
    ] {
        let engine = engine(&impostor(GREETING.as_bytes(), answer.as_bytes().to_vec()).await).await;
        let lock = claim("a", Duration::from_secs(9));
        let asked = tokio::time::timeout(SOON, engine.claim(&lock)).await.expect("the request does not hang");
        match asked {
            Err(error) => is_clear(&error),
            Ok(verdict) => assert!(answer.starts_with("HD c1"), "{answer:.40}: {verdict:?}"),
        }
        // On another connection, and with the same reply.
        match tokio::time::timeout(SOON, engine.release(&lock)).await.expect("the request does not hang") {
            Err(error) => is_clear(&error),
            Ok(released) => {
                assert!(answer.starts_with("HD c1") || answer == "EN\r\n", "{answer:.40}: {released:?}")
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_handshake_of_an_impostor_is_an_error_that_names_the_endpoint() {
    static ENDLESS: [u8; 100_000] = [b'S'; 100_000];
    for greeting in [
        &b"\r\n"[..],
        b"HTTP/1.1 400 Bad Request\r\n",
        b"-ERR unknown command 'stats'\r\n",
        b"ERROR\r\n",
        b"\xff\xfe\xfd\r\n",
        b"STAT \r\nEND\r\n\x1b[2J\r\n",
        &ENDLESS,
    ] {
        let url = impostor(greeting, b"x".to_vec()).await;
        let connecting = tokio::time::timeout(2 * SOON, latchwork::connect(&url))
            .await
            .expect("the request does not hang");
        is_clear(&connecting.expect_err("the server is not memcached"));
    }
    let silent = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("memcached://{}", silent.local_addr().expect("an address"));
    let connecting =
        tokio::time::timeout(2 * SOON, latchwork::connect(&url)).await.expect("the request does not hang");
    is_clear(&connecting.expect_err("an impostor is refused"));
    let unauthenticated = impostor(b"CLIENT_ERROR unauthenticated\r\n", b"x".to_vec()).await;
    let error = latchwork::connect(&unauthenticated).await.expect_err("the server requires a password");
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
}
