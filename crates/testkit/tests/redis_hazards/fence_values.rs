//! Values in the key of the newest token that no grant of ours wrote: an operator's, another program's, or a
//! number from which the scripts cannot count on.

use latchwork::{Client, Error, ErrorKind, Result};
use testkit::servers::{RedisOptions, RedisServer};

use super::harness::{HazardHarness, LOCK, LONG, SOON, soon, take, take_in_background, until, with_both};

/// The key of the newest token of [`LOCK`].
const FENCE: &str = "{orders/42}:latchwork1:f";
/// The limit for the answer to a claim, even on a machine that stalls for half a second.
const ANSWERED: std::time::Duration = std::time::Duration::from_secs(2);
/// The text after the token of a grant.
const MEMBER: &str = "0123456789abcdef0123456789abcdef0123456789abcdefx\nnote";

/// Numbers that leave no room for greater tokens: Lua counts to 2^53, and the key has room for 16 digits.
fn too_great() -> Vec<String> {
    let numbers = [
        "9007199254740993",
        "9999999999999999",
        "10000000000000000",
        "10000000000000000000000000000000000000000",
        "0010000000000000000",
        "17948003867131160",
        "99999999999999999",
        "10000000000000000 and more",
    ];
    let with_member = ["9999999999999999", "10000000000000000", "17948003867131160"];
    let with_member = with_member.iter().map(|number| format!("{number}{MEMBER}"));
    numbers.iter().map(|number| (*number).to_owned()).chain(with_member).collect()
}

/// All other values, each with its number: a token must be above it.
const FIT: [(&str, u64); 13] = [
    ("8000000000000000", 8_000_000_000_000_000),
    ("0008000000000000000", 8_000_000_000_000_000),
    ("00000000000000000000000000000000005", 5),
    ("5", 5),
    ("3000000000000000abc", 3_000_000_000_000_000),
    ("", 0),
    ("hello", 0),
    ("zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz", 0),
    ("+9999999999999999", 0),
    ("-1", 0),
    ("0x7fffffffffffffff", 0),
    ("1e300", 1),
    ("nan", 0),
];

/// Acquires [`LOCK`] in the given way, and releases it.
async fn token(client: &Client, way: &str) -> Result<u64> {
    let guard = match way {
        "alone" => client.lock(LOCK).ttl(LONG).wait(SOON).acquire().await?,
        _ => client.rw_lock(LOCK).read().ttl(LONG).wait(SOON).acquire().await?,
    };
    // The low bits count the tasks of one client.
    let token = guard.token().expect("every grant has one").get() >> 8;
    guard.release().await?;
    Ok(token)
}

fn is_clear(error: &Error, value: &str) {
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{value:?}: {error}");
    assert!(error.to_string().contains(FENCE), "{value:?}: {error}");
}

#[tokio::test]
async fn tokens_rise_above_every_number_in_the_fence_or_are_refused() {
    with_both(async |options| {
        let harness = HazardHarness::new();
        let client = harness.client(options).await;
        // Only one of the schemes has readers.
        let ways = if options == "scheme=set" { &["alone", "together"][..] } else { &["alone"] };
        for way in ways {
            for (value, number) in FIT {
                harness.server.command(&["SET", FENCE, value]);
                let first = token(&client, way).await.unwrap_or_else(|error| panic!("{value:?}: {error}"));
                let second = token(&client, way).await.expect("the fence is usable by now");
                assert!(first > number && second > first, "{value:?}, {way}: {first}, then {second}");
            }
            for value in too_great() {
                harness.server.command(&["SET", FENCE, &value]);
                let refused = token(&client, way).await;
                let error = refused.map(|token| panic!("{value:?}, {way}: {token}")).expect_err("panicked");
                is_clear(&error, &value);
                assert_eq!(harness.value(FENCE).as_deref(), Some(&value[..]), "the value is unchanged");
                assert_eq!(harness.value(LOCK), None, "{value:?}, {way}: the lock is left free");
                assert_eq!(harness.queued(), 0, "{value:?}, {way}");
            }
            harness.server.command(&["DEL", FENCE]);
            token(&client, way).await.expect("tokens work as before");
        }
    })
    .await;
}

/// The value is written while the lock is held. The held lock is released, and its waiters get an error
/// instead of waiting on.
#[tokio::test]
async fn waiters_behind_a_too_great_fence_get_an_error() {
    with_both(async |options| {
        let harness = HazardHarness::new();
        for value in too_great() {
            let (holder, other) = (harness.client(options).await, harness.client(options).await);
            let guard = take(&holder, LONG).await;
            let lock = other.lock(LOCK).ttl(LONG).wait(SOON);
            let waiter = tokio::spawn(async move { lock.acquire().await.map(|guard| guard.token()) });
            harness.until_queued(1).await;
            harness.server.command(&["SET", FENCE, &value]);
            guard.release().await.expect("the claim is released");
            is_clear(&soon(waiter).await.expect_err("no token is above it"), &value);
            until("the lock is free", || harness.value(LOCK).is_none()).await;
            assert_eq!(harness.value(FENCE).as_deref(), Some(&value[..]), "the value is unchanged");
            harness.server.command(&["DEL", FENCE]);
        }
    })
    .await;
}

/// Readers that share the lock keep it.
#[tokio::test]
async fn readers_keep_their_lock_behind_a_too_great_fence() {
    let harness = HazardHarness::new();
    let (holder, other) = (harness.client("").await, harness.client("").await);
    let first = holder.rw_lock(LOCK).read().ttl(LONG).acquire().await.expect("it is free");
    harness.server.command(&["SET", FENCE, "10000000000000000"]);
    let error =
        other.rw_lock(LOCK).read().ttl(LONG).wait(SOON).acquire().await.expect_err("no token is above it");
    is_clear(&error, "while others read");
    assert!(harness.value(LOCK).is_some(), "the reader still has the lock");
    harness.server.command(&["DEL", FENCE]);
    let second = other.rw_lock(LOCK).read().ttl(LONG).wait(SOON).acquire().await.expect("they share it");
    let writer = take_in_background(&harness.client("").await, LONG);
    harness.until_queued(1).await;
    assert!(second.token().expect("granted") > first.token().expect("granted"));
    first.release().await.expect("held");
    assert!(!writer.is_finished());
    second.release().await.expect("held");
    drop(soon(writer).await);
}

/// A master with this value counts as down.
#[tokio::test]
async fn one_master_with_a_too_great_fence_delays_no_client_and_a_majority_refuses() {
    let servers: Vec<_> = (0..3).map(|_| RedisServer::start(RedisOptions::default())).collect();
    let places: Vec<_> = servers.iter().map(|server| format!("127.0.0.1:{}", server.port())).collect();
    let url = format!("redlock://{}?quarantine=off", places.join(","));
    let client = latchwork::connect(&url).await.expect("all are there");
    for value in too_great() {
        servers.iter().for_each(|server| drop(server.command(&["DEL", FENCE])));
        let before = token(&client, "alone").await.expect("all are fine");
        servers[0].command(&["SET", FENCE, &value]);
        let after = token(&client, "alone").await.expect("two of three are fine");
        assert!(after > before, "{value:?}: {before}, then {after}");
        servers[1].command(&["SET", FENCE, &value]);
        let lock = client.lock(LOCK).ttl(LONG).wait(ANSWERED);
        let error = lock.acquire().await.expect_err("one of three is fine");
        assert!(error.to_string().contains(FENCE), "{value:?}: {error}");
        for server in &servers[..2] {
            assert_eq!(server.command(&["GET", FENCE]).text(), value, "the value is unchanged");
        }
    }
}

/// Versions of cells are counted in the same way.
#[tokio::test]
async fn versions_of_cells_rise_or_are_refused() {
    let harness = HazardHarness::new();
    let (cell, key) = (harness.client("").await.cell("config"), "{config}:latchwork1:c");
    harness.server.command(&["SET", key, "8000000099999999=old"]);
    let next = cell.update(|_| b"new".to_vec()).await.expect("there is room above it");
    assert_eq!(next.version.get(), 8_000_000_100_000_000);
    for value in ["9999999999999999=old", "9007199254740993=old", "10000000000000000=old", "hello", ""] {
        harness.server.command(&["SET", key, value]);
        let refused = cell.update(|_| b"new".to_vec()).await;
        let error = refused.map(|state| panic!("{value:?}: {:?}", state.version)).expect_err("panicked");
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{value:?}: {error}");
        assert_eq!(harness.value(key).as_deref(), Some(value), "the value is unchanged");
    }
}

/// A time that no clock can reach keeps other clients out. It must not be read as a time that is over.
#[tokio::test]
async fn a_getset_value_with_too_many_digits_is_a_held_lock() {
    let harness = HazardHarness::new();
    let client = harness.client("scheme=getset").await;
    for digits in [17, 19, 20, 25, 40, 310] {
        let value = "9".repeat(digits);
        harness.server.command(&["SET", LOCK, &value]);
        let tried = client.lock(LOCK).try_acquire().await.unwrap_or_else(|error| panic!("{digits}: {error}"));
        assert!(tried.is_none(), "{digits} digits");
        assert_eq!(harness.value(LOCK).as_deref(), Some(&value[..]));
    }
}
