//! Unused names are forgotten.

use latchwork::Lock;
use latchwork::engine::Filter;

use super::SqlHarness;
use crate::harness::{LOCK, LONG, SOON, connect, now, pause};
use crate::shim::Clocks;

const HOUR: i64 = 3_600_000;
const DAY: i64 = 24 * HOUR;
/// More names than one transaction of a sweep checks.
const NAMES: usize = 1_201;

/// The number of names in the table, without the row of the floor.
fn names(harness: &impl SqlHarness) -> usize {
    harness.sql("SELECT count(*) FROM latchwork_lock WHERE name <> ''").parse().expect("a number")
}

async fn until_names(harness: &impl SqlHarness, count: usize) {
    let end = now().after(SOON);
    while names(harness) != count {
        assert!(now() < end, "{} names are kept instead of {count}", names(harness));
        pause(10).await;
    }
}

/// Adds names that are used once and never again.
fn use_many(harness: &impl SqlHarness) {
    let token = harness.sql("SELECT max(token) FROM latchwork_lock");
    let rows: Vec<_> = (0..NAMES).map(|number| format!("('many/{number}', {token}, 1)")).collect();
    harness.sql(&format!("INSERT INTO latchwork_lock (name, token, expires) VALUES {}", rows.join(", ")));
}

/// Simulates the passing of time: makes every row older by `millis`.
fn age(harness: &impl SqlHarness, millis: i64) {
    let older = millis * 1_000;
    harness.sql(&format!(
        "UPDATE latchwork_lock SET token = token - {older}, expires = expires - {older}, since = since - {older}"
    ));
}

fn token(harness: &impl SqlHarness, name: &str) -> i64 {
    let token = harness.sql(&format!("SELECT token FROM latchwork_lock WHERE name = '{name}'"));
    token.parse().expect("a number")
}

async fn use_once(lock: Lock) {
    lock.ttl(LONG).acquire().await.expect("free").release().await.expect("held");
}

/// Also checks that tokens rise when a forgotten name is used again, even after the server's clock was set
/// back by more than a day. `clocks` are the server's.
pub async fn a_name_that_was_not_used_for_a_day_is_forgotten_and_its_tokens_rise(
    harness: &impl SqlHarness,
    clocks: &Clocks,
) {
    let client = connect(&harness.direct_url()).await;
    for name in [LOCK, "shared", "kept"] {
        use_once(client.lock(name)).await;
    }
    use_many(harness);
    // A queue whose clients have all died.
    harness.sql("INSERT INTO latchwork_lock (name, token, contended, ticket) VALUES ('dead', 1, 1, 1)");
    harness.sql(
        "INSERT INTO latchwork_claim (name, ticket, id, channel, mode, permits, token, hand_over, expires, since, revoked, note) \
         VALUES ('dead', 1, '0123456789abcdef', '', 0, 0, 1, 1, 1, 1, 0, '')",
    );
    age(harness, 2 * DAY);
    let before = [LOCK, "shared"].map(|name| token(harness, name));
    use_once(client.lock("kept")).await;
    // The first client that finds old names only writes the floor: a claim that did not see the floor may be
    // in flight.
    let first = connect(&harness.direct_url()).await;
    let end = now().after(SOON);
    while harness.sql("SELECT count(*) FROM latchwork_lock WHERE name = ''") == "0" {
        assert!(now() < end, "no client sweeps old names");
        pause(10).await;
    }
    assert_eq!(names(harness), NAMES + 4);
    harness.sql(&format!("UPDATE latchwork_lock SET token = token - {} WHERE name = ''", 2 * HOUR * 1_000));
    let second = connect(&harness.direct_url()).await;
    until_names(harness, 2).await;
    let end = now().after(SOON);
    while harness.sql("SELECT count(*) FROM latchwork_claim") != "0" {
        assert!(now() < end, "the dead queue is kept");
        pause(10).await;
    }
    // Two hours later the name of that queue is forgotten, too. Names used less than a day ago stay.
    age(harness, 2 * HOUR);
    let third = connect(&harness.direct_url()).await;
    until_names(harness, 1).await;
    for client in [&client, &first, &second, &third] {
        let listed = client.inspect(&Filter::Prefix(String::new())).await.expect("an answer");
        assert!(listed.is_empty(), "{listed:?}");
    }
    clocks.move_wall(-3 * DAY);
    use_once(client.lock(LOCK)).await;
    use_once(client.rw_lock("shared").read()).await;
    let after = [LOCK, "shared"].map(|name| token(harness, name));
    assert!(after[0] > before[0] && after[1] > before[1], "tokens went back: {before:?}, {after:?}");
}

/// The claim keeps its grant, and its tokens rise.
pub async fn a_name_that_is_claimed_while_it_is_forgotten_is_held(harness: &impl SqlHarness) {
    const CLAIMED: usize = 40;
    let client = connect(&harness.direct_url()).await;
    let lock = |number: usize| client.lock(format!("claimed/{number}")).ttl(LONG);
    let mut tokens = vec![0; CLAIMED];
    for round in 0..8 {
        let (mut guards, mut sweepers) = (Vec::new(), Vec::new());
        if round > 0 {
            // All names are old, and so is the floor that was written after them.
            age(harness, 2 * DAY);
            let floor = harness.sql("SELECT max(token) FROM latchwork_lock");
            harness.sql("DELETE FROM latchwork_lock WHERE name = ''");
            harness.sql(&format!("INSERT INTO latchwork_lock (name, token) VALUES ('', {floor})"));
            sweepers.push(connect(&harness.direct_url()).await);
        }
        // In reverse order, because the sweep comes from the other end.
        for number in (0..CLAIMED).rev() {
            guards.push((number, lock(number).acquire().await.expect("no client holds the lock")));
        }
        let held = "SELECT count(*) FROM latchwork_lock WHERE id IS NOT NULL";
        assert_eq!(harness.sql(held), CLAIMED.to_string(), "the row of a held lock was deleted");
        for (number, guard) in guards {
            let token = guard.token().expect("tokens").get();
            assert!(token > tokens[number], "{number} had {} before, and now {token}", tokens[number]);
            tokens[number] = token;
            guard.release().await.expect("held");
        }
    }
}

/// `url` belongs to a user with every right except deleting locks.
pub async fn a_user_who_may_not_delete_locks_can_still_lock(harness: &impl SqlHarness, url: &str) {
    let client = connect(url).await;
    client.lock(LOCK).acquire().await.expect("free").release().await.expect("held");
    use_many(harness);
    harness.sql("UPDATE latchwork_lock SET token = 1, expires = 1");
    harness.sql("INSERT INTO latchwork_lock (name, token) VALUES ('', 2)");
    let client = connect(url).await;
    let end = now().after(SOON);
    while harness.sql("SELECT token FROM latchwork_lock WHERE name = ''") == "2" {
        assert!(now() < end, "the next sweep must be an hour away");
        pause(10).await;
    }
    assert_eq!(names(harness), NAMES + 1);
    client.lock(LOCK).acquire().await.expect("free").release().await.expect("held");
    client.lock("another").acquire().await.expect("free").release().await.expect("held");
}
