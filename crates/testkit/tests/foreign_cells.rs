//! Cells that other programs read, set, delete and make again.

use std::time::Duration;

use latchwork::{Cell, Version, Written};
use testkit::Fixture;
use testkit::fixtures::{EtcdFixture, ZooKeeperFixture};
use tokio::time::timeout;

const PATIENCE: Duration = Duration::from_secs(20);

async fn value(cell: &Cell) -> Option<String> {
    let state = cell.get().await.expect("answers")?;
    Some(String::from_utf8(state.value).expect("text"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn etcdctl_reads_and_sets_what_is_in_a_cell() {
    let fixture = EtcdFixture::begin().await;
    let cell = fixture.client().await.cell("shared/config");
    let key = format!("{}shared/config.cell", fixture.namespace());
    let etcdctl = |words: &[&str]| fixture.members()[0].owner().run(words).expect("etcdctl works");
    let ours = cell.update(|_| b"ours".to_vec()).await.expect("answers");
    assert_eq!(etcdctl(&["get", "--print-value-only", &key]).trim_end(), "ours");
    let mut changes = cell.watch();
    changes.next().await.expect("answers");
    etcdctl(&["put", &key, "theirs"]);
    let told = timeout(PATIENCE, changes.next()).await.expect("told").expect("answers").expect("set");
    assert_eq!(told.value, b"theirs");
    assert_eq!(cell.set_if(ours.version, "stale").await.expect("answers"), Written::Changed);
    // Deleted and made again, it is etcd's own version 1 for the second time.
    etcdctl(&["del", &key]);
    etcdctl(&["put", &key, "anew"]);
    for old in [ours.version, told.version, Version::ABSENT] {
        assert_eq!(cell.set_if(old, "stale").await.expect("answers"), Written::Changed);
    }
    assert_eq!(value(&cell).await.as_deref(), Some("anew"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_was_deleted_and_made_again_is_not_the_one_that_was_seen() {
    let fixture = ZooKeeperFixture::begin().await;
    let cell = fixture.client().await.cell("shared/config");
    let (admin, path) = (fixture.admin().await, format!("{}/%cells/shared/config", fixture.chroot()));
    let old = cell.update(|_| b"old".to_vec()).await.expect("answers");
    let mut changes = cell.watch();
    changes.next().await.expect("answers");
    admin.delete(&path).await;
    assert_eq!(timeout(PATIENCE, changes.next()).await.expect("told").expect("answers"), None);
    assert_eq!(cell.set_if(old.version, "stale").await.expect("answers"), Written::Changed);
    // Written as often as before, which is all that the server would compare.
    let new = cell.update(|_| b"new".to_vec()).await.expect("answers");
    assert!(new.version > old.version && new.version.get() as u32 == old.version.get() as u32);
    assert_eq!(cell.set_if(old.version, "stale").await.expect("answers"), Written::Changed);
    assert_eq!(value(&cell).await.as_deref(), Some("new"));
    // Cells are no locks: nobody who lists these sees them.
    let client = fixture.client().await;
    let locks = client.inspect(&latchwork::engine::Filter::Prefix(String::new())).await.expect("answers");
    assert!(locks.is_empty(), "{locks:?}");
}
