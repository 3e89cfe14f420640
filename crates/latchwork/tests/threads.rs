//! A system that can start no threads. The test has a process of its own, because the limit applies to the
//! user.
#![cfg(feature = "sqlite")]

use std::fs;
use std::os::unix::fs::PermissionsExt;

use latchwork::Client;
use latchwork::engines::Sqlite;
use nix::sys::resource::{Resource, setrlimit};
use nix::unistd::{Uid, setuid};

#[tokio::test]
async fn a_lock_can_be_had_without_a_thread_for_its_keeper() {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
    if Uid::effective().is_root() {
        setuid(Uid::from_raw(54_321)).unwrap(); // Root has no such limit.
    }
    setrlimit(Resource::RLIMIT_NPROC, 1, 1).unwrap();
    let client = Client::new(Sqlite::open(folder.path().join("locks.db")).unwrap());
    let guard = client.lock("alone").acquire().await.unwrap();
    assert!(guard.is_certain());
    guard.release().await.unwrap();
    drop(client.lock("alone").acquire().await.unwrap());
}
