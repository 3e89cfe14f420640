//! Cells that other programs read, set, delete and create again; and what watchers leave on the servers.

use std::time::Duration;

use latchwork::{Cell, Version, Written};
use testkit::Fixture;
use testkit::fixtures::{EtcdFixture, PostgresFixture, RedisFixture, ZooKeeperFixture};
use testkit::servers::Reply;
use testkit::servers::pool::EndsAll;
use tokio::time::timeout;

const PATIENCE: Duration = Duration::from_secs(20);

async fn value(cell: &Cell) -> Option<String> {
    cell.get().await.expect("answers").text().expect("text").map(str::to_owned)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn etcdctl_reads_and_sets_the_value_of_a_cell() {
    let _pooled = EndsAll;
    let fixture = EtcdFixture::begin().await;
    let cell = fixture.client().await.cell("shared/config");
    let key = format!("{}shared/config.cell", fixture.namespace());
    let etcdctl = |words: &[&str]| fixture.members()[0].owner().run(words).expect("etcdctl works");
    let ours = cell.update(|_| b"ours".to_vec()).await.expect("answers");
    assert_eq!(etcdctl(&["get", "--print-value-only", &key]).trim_end(), "ours");
    let mut changes = cell.watch();
    changes.next().await.expect("answers");
    etcdctl(&["put", &key, "theirs"]);
    let told = timeout(PATIENCE, changes.next()).await.expect("told").expect("answers");
    assert_eq!(told.text().expect("text"), Some("theirs"));
    assert_eq!(cell.set_if(ours.version, "stale").await.expect("answers"), Written::Changed);
    // After a deletion and a new creation, etcd's own version is 1 for the second time.
    etcdctl(&["del", &key]);
    etcdctl(&["put", &key, "anew"]);
    for old in [ours.version, told.version, Version::ABSENT] {
        assert_eq!(cell.set_if(old, "stale").await.expect("answers"), Written::Changed);
    }
    assert_eq!(value(&cell).await.as_deref(), Some("anew"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_was_deleted_and_created_again_is_another_version() {
    let _pooled = EndsAll;
    let fixture = ZooKeeperFixture::begin().await;
    let cell = fixture.client().await.cell("shared/config");
    let (admin, path) = (fixture.admin().await, format!("{}/%cells/shared/config", fixture.chroot()));
    let old = cell.update(|_| b"old".to_vec()).await.expect("answers");
    let mut changes = cell.watch();
    changes.next().await.expect("answers");
    admin.delete(&path).await;
    assert!(!timeout(PATIENCE, changes.next()).await.expect("told").expect("answers").is_set());
    assert_eq!(cell.set_if(old.version, "stale").await.expect("answers"), Written::Changed);
    // The number of writes is the same as before, which is all that the server would compare.
    let new = cell.update(|_| b"new".to_vec()).await.expect("answers");
    assert!(new.version > old.version && new.version.get() as u32 == old.version.get() as u32);
    assert_eq!(cell.set_if(old.version, "stale").await.expect("answers"), Written::Changed);
    assert_eq!(value(&cell).await.as_deref(), Some("new"));
    // Cells are not locks: they do not appear in a list of locks.
    let client = fixture.client().await;
    let locks = client.inspect(&latchwork::engine::Filter::Prefix(String::new())).await.expect("answers");
    assert!(locks.is_empty(), "{locks:?}");
}

/// Polls the server until a condition holds.
async fn until(is_so: impl Fn() -> bool, what: &str) {
    let waiting = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("{what}"));
}

/// Two tasks that watch one cell while nothing changes.
async fn two_watchers(cell: &Cell) -> [tokio::task::JoinHandle<()>; 2] {
    let mut tasks = Vec::new();
    for _ in 0..2 {
        let mut changes = cell.watch();
        changes.next().await.expect("answers");
        tasks.push(tokio::spawn(async move {
            changes.next().await.expect("answers");
        }));
    }
    tasks.try_into().expect("two")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cell_without_watchers_is_unsubscribed_on_redis() {
    // As a user with no more rights than the documentation lists.
    let _pooled = EndsAll;
    let acl = RedisFixture::KINDS.iter().find(|kind| kind.name == "redis-acl").expect("a kind");
    let fixture = RedisFixture::begin_as(acl).await;
    let cell = fixture.client().await.cell("watched");
    let listeners = || match fixture.server().command(&["PUBSUB", "CHANNELS", "*cell*watched*"]) {
        Reply::Array(channels) => channels.len(),
        other => panic!("{other:?}"),
    };
    let [first, second] = two_watchers(&cell).await;
    until(|| listeners() == 1, "nobody listens").await;
    first.abort();
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(listeners(), 1, "one still watches");
    cell.update(|_| b"new".to_vec()).await.expect("answers");
    timeout(PATIENCE, second).await.expect("told").expect("no panic");
    until(|| listeners() == 0, "the server was left with a listener").await;
    let [first, second] = two_watchers(&cell).await;
    until(|| listeners() == 1, "nobody listens").await;
    first.abort();
    second.abort();
    until(|| listeners() == 0, "the server was left with a listener").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cell_without_watchers_is_unsubscribed_on_postgres() {
    let _pooled = EndsAll;
    let fixture = PostgresFixture::begin().await;
    let cell = fixture.client().await.cell("watched");
    // Only a session itself knows its LISTEN channels, but its last statement is public.
    let said_last = |what: &str| {
        let like =
            format!("SELECT count(*) FROM pg_stat_activity WHERE query LIKE '{what} latchwork\\_cell%'");
        fixture.server().psql(&like).trim() != "0"
    };
    let watchers = two_watchers(&cell).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(!said_last("UNLISTEN"), "two watch");
    watchers.iter().for_each(|watcher| watcher.abort());
    until(|| said_last("UNLISTEN"), "the server was left with a listener").await;
}
