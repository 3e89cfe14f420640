//! The protected resource refuses a former holder: in a Redis script, and in the user's own transaction.

use std::time::Duration;

use latchwork::{Client, FENCED_SET, Token};
use rusqlite::Connection;
use testkit::Fixture;
use testkit::fixtures::{PostgresFixture, RedisFixture, SqliteFixture};
use testkit::servers::Reply;
use testkit::servers::pool::EndsAll;

/// The statement from docs/recipes.md.
const FENCED_WRITE: &str = "UPDATE report SET body = ?2, fence = ?1 WHERE id = 1 AND fence <= ?1";

/// The tokens of a holder that lost its lock, and of the next holder.
async fn two_tokens(client: &Client) -> (Token, Token) {
    let lock = client.lock("fenced").ttl(Duration::from_secs(20));
    let mut tokens = Vec::new();
    for _ in 0..2 {
        let guard = lock.acquire().await.expect("free");
        tokens.push(guard.token().expect("the guard has a token"));
        guard.release().await.expect("held");
    }
    assert!(tokens[1] > tokens[0]);
    (tokens[0], tokens[1])
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime")
}

#[test]
fn a_redis_script_refuses_a_former_holder() {
    runtime().block_on(async {
        let _pooled = EndsAll;
        let fixture = RedisFixture::begin().await;
        let (former, newest) = two_tokens(&fixture.client().await).await;
        let set = |token: &str, value: &str| {
            let words = ["EVAL", FENCED_SET, "2", "{report}", "{report}:fence", token, value];
            fixture.server().command(&words)
        };
        assert_eq!(set(&former.fixed_width(), "by the holder").integer(), 1);
        assert_eq!(set(&newest.fixed_width(), "by the next").integer(), 1);
        assert_eq!(set(&former.fixed_width(), "by a client that was paused").integer(), 0);
        assert_eq!(set(&newest.fixed_width(), "again").integer(), 1);
        assert_eq!(fixture.server().command(&["GET", "{report}"]).text(), "again");
        // Adjacent integers that a double cannot distinguish.
        let near = |number: u64| format!("{number:020}");
        assert_eq!(set(&near((1 << 60) + 1), "greater").integer(), 1);
        assert_eq!(set(&near(1 << 60), "less by one").integer(), 0);
        // A value that cannot be compared as text is refused.
        assert!(matches!(set("7", "short"), Reply::Error(why) if why.contains("20 digits")));
    });
}

#[test]
fn an_sqlite_transaction_refuses_a_former_holder() {
    runtime().block_on(async {
        let fixture = SqliteFixture::begin().await;
        let (former, newest) = two_tokens(&fixture.client().await).await;
        let store = Connection::open_in_memory().expect("a store");
        store
            .execute_batch(
                "CREATE TABLE report (id INTEGER PRIMARY KEY, body TEXT, fence INTEGER NOT NULL);
                 INSERT INTO report VALUES (1, '', 0)",
            )
            .expect("made");
        let write = |token: Token, body: &str| {
            store.execute(FENCED_WRITE, (token.get() as i64, body)).expect("answers")
        };
        assert_eq!(write(former, "by the holder"), 1);
        assert_eq!(write(newest, "by the next"), 1);
        assert_eq!(write(former, "by a client that was paused"), 0);
        assert_eq!(write(newest, "again"), 1);
    });
}

#[test]
fn a_postgres_transaction_refuses_a_former_holder() {
    runtime().block_on(async {
        let _pooled = EndsAll;
        let fixture = PostgresFixture::begin().await;
        let (former, newest) = two_tokens(&fixture.client().await).await;
        let server = fixture.server();
        server.psql(
            "DROP TABLE IF EXISTS report; CREATE TABLE report (id int PRIMARY KEY, body text, fence bigint NOT NULL); \
             INSERT INTO report VALUES (1, '', 0)",
        );
        let write = |token: Token| {
            let update = FENCED_WRITE.replace("?1", &token.to_string()).replace("?2", "'x'");
            server.psql(&format!("WITH done AS ({update} RETURNING 1) SELECT count(*) FROM done")).trim().to_owned()
        };
        let answers = [former, newest, former, newest].map(write);
        assert_eq!(answers, ["1", "1", "0", "1"]);
    });
}
