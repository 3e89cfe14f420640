//! Tokens of unused names are forgotten, in the two tables that contain only tokens.

use latchwork::engine::Filter;
use latchwork::{Client, Guard, LockName};

use super::SqlHarness;
use crate::harness::{LOCK, LONG, SOON, connect, now, pause};
use crate::shim::Clocks;

const HOUR: i64 = 3_600_000;
const DAY: i64 = 24 * HOUR;
/// More names than a sweep deletes in four transactions.
const NAMES: usize = 2_001;

/// A table of tokens.
#[derive(Clone, Copy)]
pub struct Tokens {
    table: &'static str,
    /// The column of names.
    name: &'static str,
    /// The other columns that must have a value, with their values.
    others: [&'static str; 2],
    /// A name in use is in this table, too.
    in_use: Option<&'static str>,
    /// The options of a URL.
    pub options: &'static str,
}

/// Of `scheme=insert`.
pub const OF_INSERT: Tokens = Tokens {
    table: "latchwork_mutex_token",
    name: "unique_mutex",
    others: [", holder_id, since, note", ", 'gone', 1, ''"],
    in_use: Some("latchwork_mutex"),
    options: "scheme=insert",
};

/// Of `scheme=session`.
pub const OF_SESSION: Tokens = Tokens {
    table: "latchwork_fence",
    name: "name",
    others: ["", ""],
    in_use: None,
    options: "scheme=session&fenced=always",
};

impl Tokens {
    /// The number of names in the table, without the row of the floor.
    fn names(&self, harness: &impl SqlHarness) -> usize {
        let Self { table, name, .. } = self;
        harness.sql(&format!("SELECT count(*) FROM {table} WHERE {name} <> ''")).parse().expect("a number")
    }

    async fn until_names(&self, harness: &impl SqlHarness, count: usize) {
        let end = now().after(SOON);
        while self.names(harness) != count {
            assert!(now() < end, "{} names are kept instead of {count}", self.names(harness));
            pause(10).await;
        }
    }

    fn floor(&self, harness: &impl SqlHarness) -> Option<i64> {
        let Self { table, name, .. } = self;
        harness.sql(&format!("SELECT token FROM {table} WHERE {name} = ''")).parse().ok()
    }

    async fn until_floor(&self, harness: &impl SqlHarness, is_so: impl Fn(i64) -> bool) {
        let end = now().after(SOON);
        while !self.floor(harness).is_some_and(&is_so) {
            assert!(now() < end, "no client sweeps old names: {:?}", self.floor(harness));
            pause(10).await;
        }
    }

    fn set_floor(&self, harness: &impl SqlHarness, floor: &str) {
        let Self { table, name, others, .. } = self;
        harness.sql(&format!("DELETE FROM {table} WHERE {name} = ''"));
        harness.sql(&format!(
            "INSERT INTO {table} ({name}, token{}) SELECT '', {floor}{} FROM {table}",
            others[0], others[1]
        ));
    }

    /// Adds names whose tokens were drawn once and never again.
    fn use_many(&self, harness: &impl SqlHarness) {
        let Self { table, name, others, .. } = self;
        let token = harness.sql(&format!("SELECT max(token) FROM {table}"));
        let row = |number| format!("('many/{number}', {token}{})", others[1]);
        let rows: Vec<_> = (0..NAMES).map(row).collect();
        harness.sql(&format!("INSERT INTO {table} ({name}, token{}) VALUES {}", others[0], rows.join(", ")));
    }

    /// Simulates the passing of time: makes every token older by `millis`.
    fn age(&self, harness: &impl SqlHarness, millis: i64) {
        harness.sql(&format!("UPDATE {} SET token = token - {}", self.table, millis * 1_000));
    }
}

/// A guard's token, as the database stores it: without the part that counts the holders in one client.
fn stored(guard: &Guard) -> i64 {
    (guard.token().expect("a token").get() >> 8) as i64
}

/// Acquires and releases the lock, and returns its token.
async fn token_of(client: &Client, name: &str) -> i64 {
    let guard = client.lock(name).ttl(LONG).acquire().await.expect("free");
    let token = stored(&guard);
    guard.release().await.expect("held");
    token
}

/// A new client, which sweeps old names.
async fn sweeper(url: &str) -> Client {
    let client = connect(url).await;
    token_of(&client, "kept").await;
    client
}

/// Also checks that a name in use is kept where its row is needed, and that tokens rise when a forgotten name
/// is used again, even after the server's clock was set back by more than a day. `clocks` are the server's.
pub async fn a_name_whose_token_is_a_day_old_is_forgotten_and_its_tokens_rise(
    harness: &impl SqlHarness,
    tokens: Tokens,
    url: &str,
    clocks: &Clocks,
) {
    let client = connect(url).await;
    let before = token_of(&client, LOCK).await - 2 * DAY * 1_000;
    let held = client.lock("held").ttl(LONG).acquire().await.expect("free");
    let held_before = stored(&held) - 2 * DAY * 1_000;
    tokens.use_many(harness);
    let mut kept = 1;
    if let Some(table) = tokens.in_use {
        // A service that does not use this library, and a holder that died.
        harness.sql(&format!(
            "INSERT INTO {table} (unique_mutex, holder_id, create_time) \
             VALUES ('many/7', 'gone', '2020-01-01'), ('service', 'host-7', '2020-01-01')"
        ));
        // `held` and `many/7`.
        kept += 2;
    }
    let rows = |table: &str| harness.sql(&format!("SELECT unique_mutex, holder_id FROM {table} ORDER BY 1"));
    let rows_before = tokens.in_use.map(rows);
    tokens.age(harness, 2 * DAY);
    // The first client that finds old names only writes the floor: a claim that did not see the floor may be
    // in flight.
    let _first = sweeper(url).await;
    tokens.until_floor(harness, |_| true).await;
    assert_eq!(tokens.names(harness), NAMES + 3);
    let Tokens { table, name, .. } = tokens;
    harness.sql(&format!("UPDATE {table} SET token = token - {} WHERE {name} = ''", 2 * HOUR * 1_000));
    let due = tokens.floor(harness).expect("the value was present");
    let _second = sweeper(url).await;
    tokens.until_names(harness, kept).await;
    assert_eq!(tokens.in_use.map(rows), rows_before, "a sweep only deletes tokens");
    // The holder still has its lock, and every client can see its token.
    assert!(held.is_certain());
    assert!(client.lock("held").try_acquire().await.expect("an answer").is_none());
    let filter = Filter::Name(LockName::new("held").expect("a good name"));
    let state = client.inspect(&filter).await.expect("an answer").pop().expect("it is held");
    if tokens.in_use.is_some() {
        assert_eq!(state.holders[0].token, Some(held_before as u64));
    }
    // The sweep has ended, and has raised the floor above all that it deleted.
    tokens.until_floor(harness, |floor| floor > due).await;
    clocks.move_wall(-3 * DAY);
    let after = token_of(&client, LOCK).await;
    assert!(after > before, "the token of {LOCK} went back from {before} to {after}");
    held.release().await.expect("still held");
    let after = token_of(&client, "held").await;
    assert!(after > held_before, "the token of a held lock went back from {held_before} to {after}");
}

/// The claim keeps its grant and its token, and tokens rise.
pub async fn a_name_that_is_claimed_while_its_token_is_forgotten_is_held(
    harness: &impl SqlHarness,
    tokens: Tokens,
    url: &str,
) {
    const CLAIMED: usize = 40;
    let client = connect(url).await;
    let mut newest = vec![0; CLAIMED];
    for round in 0..8 {
        let (mut guards, mut sweeping) = (Vec::new(), None);
        if round > 0 {
            // All tokens are old, and so is the floor that was written after them.
            tokens.age(harness, 2 * DAY);
            tokens.set_floor(harness, "max(token)");
            let (floor, url) = (tokens.floor(harness).expect("the floor was just written"), url.to_owned());
            sweeping = Some((floor, tokio::spawn(async move { sweeper(&url).await })));
        }
        // In reverse order, because the sweep comes from the other end.
        for number in (0..CLAIMED).rev() {
            let lock = client.lock(format!("claimed/{number:02}")).ttl(LONG);
            guards.push((number, lock.acquire().await.expect("no client holds the lock")));
        }
        if let Some((floor, sweeper)) = sweeping {
            let _sweeper = sweeper.await.expect("no panic");
            tokens.until_floor(harness, |raised| raised > floor).await;
        }
        for (number, guard) in guards {
            let token = stored(&guard);
            assert!(token > newest[number], "{number} had {} before, and now {token}", newest[number]);
            newest[number] = token;
            if tokens.in_use.is_some() {
                let filter = Filter::Name(guard.name().clone());
                let state = client.inspect(&filter).await.expect("an answer").pop().expect("it is held");
                assert_eq!(
                    state.holders[0].token,
                    Some(token as u64),
                    "the token of a held lock was deleted"
                );
            }
            guard.release().await.expect("held");
        }
    }
}

/// `url` belongs to a user with every right except deleting tokens.
pub async fn a_user_who_may_not_delete_tokens_can_still_lock(
    harness: &impl SqlHarness,
    tokens: Tokens,
    url: &str,
) {
    let client = connect(url).await;
    token_of(&client, LOCK).await;
    tokens.use_many(harness);
    harness.sql(&format!("UPDATE {} SET token = 1", tokens.table));
    tokens.set_floor(harness, "max(token) + 1");
    let sweeper = sweeper(url).await;
    // The next sweep is an hour away: the floor looks as if a sweep had just ended.
    tokens.until_floor(harness, |floor| floor > 2).await;
    assert_eq!(tokens.names(harness), NAMES + 2);
    for (client, name) in [(&client, LOCK), (&sweeper, "another")] {
        token_of(client, name).await;
    }
}
