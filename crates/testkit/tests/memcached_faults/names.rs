//! Names are data: every name is a lock of its own, at the documented key.

use latchwork::ErrorKind;
use latchwork::engine::{Filter, Revoke, Revoked};
use testkit::harness::connect;

use super::harness::{LOCK, LONG, MemcachedHarness};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_names_are_ordinary_locks_at_the_documented_keys() {
    let harness = MemcachedHarness::new();
    let (client, rival) = (connect(&harness.direct_url("")).await, connect(&harness.direct_url("")).await);
    let (long, spaces) = ("n".repeat(512), " ".repeat(200));
    let names = [
        ("a", "a"),
        ("a 30 ME T0 c", "a%2030%20ME%20T0%20c"),
        ("a%20b", "a%2520b"),
        ("a b", "a%20b"),
        ("flush_all", "flush_all"),
        ("%latchwork:life", "%25latchwork:life"),
        ("%sha256:", "%25sha256:"),
        ("naïve\u{3000}🔒", "naïve\u{3000}🔒"),
        ("nb\u{a0}sp", "nb\u{a0}sp"),
        (&long, "%sha256:a9064c9afb8d95369ec9e7e44b29d3b2b84a3a1857f6cbc6fe8bc9d22aeba769"),
        (&spaces, "%sha256:2b4115a029ab615990dbb0f27184074bc3e46a08e7e65fe4098f3faba6f56187"),
    ];
    let mut guards = Vec::new();
    for (name, _) in names {
        guards.push(client.lock(name).ttl(LONG).try_acquire().await.expect("an answer").expect(name));
    }
    for (name, key) in names {
        assert!(rival.lock(name).try_acquire().await.expect("an answer").is_none(), "{name}");
        assert!(harness.server.item(key).is_some(), "{name} is not at {key}");
    }
    for guard in guards {
        guard.release().await.expect("held");
    }
}

/// A program that uses `add` on the same key excludes our clients, and they exclude it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plain_name_is_a_key_that_is_shared_with_other_programs() {
    let harness = MemcachedHarness::new();
    let client = connect(&harness.direct_url("")).await;
    assert_eq!(harness.server.command(&format!("add {LOCK} 0 30 6\r\nsecret")), "STORED\r\n");
    assert!(client.lock(LOCK).try_acquire().await.expect("an answer").is_none());
    let filter = Filter::Name(latchwork::LockName::new(LOCK).expect("a good name"));
    let state = client.inspect(&filter).await.expect("an answer").remove(0);
    assert_eq!(state.holders[0].note.as_str(), "a client that is not latchwork");
    assert!(!format!("{state:?}").contains("secret") && state.holders[0].expires_in.is_some());
    assert_eq!(client.revoke(&state, Revoke::NowAlsoForeign).await.expect("an answer"), Revoked::Done);
    let guard = client.lock(LOCK).ttl(LONG).try_acquire().await.expect("an answer").expect("free");
    assert_eq!(harness.server.command(&format!("add {LOCK} 0 30 1\r\nx")), "NOT_STORED\r\n");
    guard.release().await.expect("held");
    // A key without an expiry can be deleted, but not left to expire.
    harness.server.command(&format!("set {LOCK} 0 0 1\r\nx"));
    let state = client.inspect(&filter).await.expect("an answer").remove(0);
    let error = client.revoke(&state, Revoke::AtLeaseEnd).await.expect_err("the lease never ends");
    assert!(error.kind() == ErrorKind::Foreign && error.to_string().contains("no lease"), "{error}");
    // Larger than any value the engine reads; it must not panic.
    harness.server.command(&format!("set {LOCK} 0 0 200000\r\n{}", "x".repeat(200_000)));
    assert!(client.lock(LOCK).try_acquire().await.expect("an answer").is_none());
}
