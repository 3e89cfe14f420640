//! The database file of the SQLite engine.
#![allow(clippy::disallowed_methods, reason = "tests count their own time")]
#![cfg(feature = "sqlite")]

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::time::Duration;

use latchwork::engine::{Claim, ClaimId, Engine, Filter, Mode, Revoke, Verdict, Wake};
use latchwork::engines::Sqlite;
use latchwork::{Client, Error, ErrorKind, LockName};

fn refused(path: &Path) -> Error {
    Sqlite::open(path).err().unwrap_or_else(|| panic!("{path:?} was opened"))
}

fn shows_the_path(error: &Error, path: &Path) {
    let file = path.file_name().unwrap().to_string_lossy().into_owned();
    assert!(error.to_string().contains(&file), "{error} does not name {file}");
}

#[tokio::test]
async fn what_is_no_lock_database_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let garbage = folder.path().join("garbage.db");
    fs::write(&garbage, "not a database, but somebody's letter. ".repeat(200)).unwrap();
    let error = refused(&garbage);
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    shows_the_path(&error, &garbage);
    assert!(fs::read_to_string(&garbage).unwrap().starts_with("not a database"));

    let foreign = folder.path().join("foreign.db");
    rusqlite::Connection::open(&foreign).unwrap().execute_batch("CREATE TABLE songs (title TEXT)").unwrap();
    let error = refused(&foreign);
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("another program"), "{error}");

    let newer = folder.path().join("newer.db");
    drop(Sqlite::open(&newer).unwrap());
    rusqlite::Connection::open(&newer).unwrap().execute_batch("PRAGMA user_version = 99").unwrap();
    let error = refused(&newer);
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("layout 99"), "{error}");
}

#[tokio::test]
async fn a_path_that_cannot_be_used_is_named_with_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing/locks.db");
    let error = refused(&missing);
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("make its folder first"), "{error}");
    assert!(
        refused(folder.path()).to_string().contains("cannot use")
            || refused(folder.path()).kind() == ErrorKind::Denied
    );

    let (real, link) = (folder.path().join("real.db"), folder.path().join("link.db"));
    drop(Sqlite::open(&real).unwrap());
    symlink(&real, &link).unwrap();
    shows_the_path(&refused(&link), &link);
}

#[tokio::test]
async fn files_are_for_the_owner_or_for_the_group_of_the_folder_and_never_for_everybody() {
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    for (folder_mode, file_mode, sessions_mode) in
        [(0o700, 0o600, 0o700), (0o770, 0o660, 0o770), (0o777, 0o600, 0o700)]
    {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(folder_mode)).unwrap();
        let engine = Sqlite::open(folder.path().join("locks.db")).unwrap();
        let client = Client::new(engine);
        let guard = client.lock("modes").acquire().await.unwrap();
        for file in ["locks.db", "locks.db-wal", "locks.db-shm"] {
            assert_eq!(
                mode(&folder.path().join(file)),
                file_mode,
                "{file} in a folder of mode {folder_mode:o}"
            );
        }
        let sessions = folder.path().join("locks.db-sessions");
        assert_eq!(mode(&sessions), sessions_mode);
        for fifo in fs::read_dir(&sessions).unwrap() {
            assert_eq!(mode(&fifo.unwrap().path()), file_mode);
        }
        guard.release().await.unwrap();
    }
}

#[tokio::test]
async fn claims_of_an_earlier_boot_are_void_and_tokens_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("locks.db");
    let before = Client::new(Sqlite::open(&path).unwrap());
    let (quiet, contended) =
        (before.lock("quiet").acquire().await.unwrap(), before.lock("contended").acquire().await.unwrap());
    let rival = Client::new(Sqlite::open(&path).unwrap());
    let _ = rival.lock("contended").wait(Duration::from_millis(20)).acquire().await;
    rusqlite::Connection::open(&path).unwrap().execute("UPDATE meta SET boot = 'another'", []).unwrap();
    let after = Client::new(Sqlite::open(&path).unwrap());
    for old in [&quiet, &contended] {
        let new =
            after.lock(old.name().as_str()).try_acquire().await.unwrap().expect("void since the reboot");
        assert!(new.token().unwrap() > old.token().unwrap());
    }
}

#[tokio::test]
async fn locks_that_nobody_uses_are_forgotten_and_their_tokens_are_not() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("locks.db");
    let client = Client::new(Sqlite::open(&path).unwrap());
    let held = client.lock("held").acquire().await.unwrap();
    client.lock("idle").acquire().await.unwrap().release().await.unwrap();
    let dead = Sqlite::open(&path).unwrap();
    for lock in ["died", "died contended"] {
        let mut claim = Claim::new(LockName::new(lock).unwrap(), Duration::from_millis(100));
        dead.claim(&claim).await.unwrap();
        if lock != "died" {
            (claim.id, claim.wait_lease) = (ClaimId::random(), Duration::from_secs(3));
            dead.claim(&claim).await.unwrap();
        }
    }
    drop((client, dead));
    tokio::time::sleep(Duration::from_millis(150)).await;
    let database = rusqlite::Connection::open(&path).unwrap();
    // As if they were last used two days ago, and swept at that time.
    database.execute("UPDATE lock SET token = token - 172800000000 WHERE name <> 'held'", []).unwrap();
    database.execute("UPDATE claim SET token = token - 172800000000 WHERE token > 0", []).unwrap();
    database.execute("UPDATE meta SET swept = 0", []).unwrap();
    let last: i64 =
        database.query_row("SELECT token FROM lock WHERE name = 'idle'", [], |row| row.get(0)).unwrap();
    let client = Client::new(Sqlite::open(&path).unwrap());
    let names: i64 = database.query_row("SELECT count(*) FROM lock", [], |row| row.get(0)).unwrap();
    assert_eq!(names, 1, "only the held lock is remembered");
    let floor: i64 = database.query_row("SELECT floor FROM meta", [], |row| row.get(0)).unwrap();
    assert!(floor >= last);
    assert!(client.lock("held").try_acquire().await.unwrap().is_none());
    held.release().await.unwrap();
}

#[tokio::test]
async fn dead_sessions_are_swept_and_live_ones_are_not() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("locks.db");
    let living = Client::new(Sqlite::open(&path).unwrap());
    let guard = living.lock("mine").acquire().await.unwrap();
    let sessions = folder.path().join("locks.db-sessions");
    nix::unistd::mkfifo(&sessions.join("0123456789abcdef.fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let other = Client::new(Sqlite::open(&path).unwrap());
    assert_eq!(fs::read_dir(&sessions).unwrap().count(), 2, "the dead one is gone, two live");
    assert!(other.lock("mine").try_acquire().await.unwrap().is_none());
    guard.release().await.unwrap();
    drop((living, other));
    assert_eq!(fs::read_dir(&sessions).unwrap().count(), 0, "nothing is left when all are closed");
}

#[tokio::test]
async fn a_foreign_program_that_keeps_the_database_locked_is_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("locks.db");
    let client = Client::new(Sqlite::open(&path).unwrap());
    let foreign = rusqlite::Connection::open(&path).unwrap();
    foreign.execute_batch("BEGIN IMMEDIATE").unwrap();
    let acquiring = tokio::spawn(async move { client.lock("patient").acquire().await });
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(!acquiring.is_finished());
    foreign.execute_batch("COMMIT").unwrap();
    acquiring.await.unwrap().unwrap().release().await.unwrap();
}

#[tokio::test]
async fn a_session_that_cannot_be_looked_at_is_not_taken_for_dead() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("locks.db");
    let holder = Client::new(Sqlite::open(&path).unwrap());
    let guard = holder.lock("mine").acquire().await.unwrap();
    let sessions = folder.path().join("locks.db-sessions");
    let fifo = fs::read_dir(&sessions).unwrap().next().unwrap().unwrap().path();
    // A folder in its place cannot be opened for writing. The error is neither ENXIO nor ENOENT.
    let away = folder.path().join("away");
    fs::rename(&fifo, &away).unwrap();
    fs::create_dir(&fifo).unwrap();
    let other = Client::new(Sqlite::open(&path).unwrap());
    let error = other.lock("mine").try_acquire().await.expect_err("it cannot know");
    assert_eq!(error.kind(), ErrorKind::Unreachable);
    fs::remove_dir(&fifo).unwrap();
    fs::rename(&away, &fifo).unwrap();
    assert!(other.lock("mine").try_acquire().await.unwrap().is_none());
    guard.release().await.unwrap();
}

#[tokio::test]
async fn a_session_whose_fifo_was_removed_makes_it_anew_before_it_claims_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("locks.db");
    let (one, two) = (Client::new(Sqlite::open(&path).unwrap()), Client::new(Sqlite::open(&path).unwrap()));
    let held = one.lock("held").acquire().await.unwrap();
    let waiting = tokio::spawn({
        let two = two.clone();
        async move { two.lock("held").acquire().await.unwrap() }
    });
    tokio::time::sleep(Duration::from_millis(50)).await;
    for fifo in fs::read_dir(folder.path().join("locks.db-sessions")).unwrap() {
        fs::remove_file(fifo.unwrap().path()).unwrap();
    }
    tokio::time::sleep(Duration::from_millis(3)).await; // The engine checks its files once a millisecond.
    let later = one.lock("later").acquire().await.unwrap();
    assert!(two.lock("later").try_acquire().await.unwrap().is_none(), "held by a session that lives");
    later.release().await.unwrap();
    held.release().await.unwrap();
    let served =
        tokio::time::timeout(Duration::from_secs(5), waiting).await.expect("rung at the new bell").unwrap();
    served.release().await.unwrap();
}

#[tokio::test]
async fn a_folder_of_sessions_that_was_removed_is_made_anew() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("locks.db");
    let (one, two) = (Client::new(Sqlite::open(&path).unwrap()), Client::new(Sqlite::open(&path).unwrap()));
    one.lock("before").acquire().await.unwrap().release().await.unwrap();
    fs::remove_dir_all(folder.path().join("locks.db-sessions")).unwrap();
    tokio::time::sleep(Duration::from_millis(3)).await; // The engine checks its files once a millisecond.
    let held = one.lock("after").acquire().await.unwrap();
    assert!(two.lock("after").try_acquire().await.unwrap().is_none());
    held.release().await.unwrap();
    two.lock("after").acquire().await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn a_waiter_behind_a_newly_granted_permit_watches_every_holder() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("locks.db");
    let open = || Sqlite::open(&path).unwrap();
    let permit = || {
        let mut claim = Claim::new(LockName::new("pool").unwrap(), Duration::from_secs(30));
        (claim.mode, claim.wait_lease) = (Mode::Permit { of: 2 }, Duration::from_secs(3));
        claim
    };
    let (first, second, third, fourth) = (open(), open(), open(), open());
    for holder in [&first, &second] {
        assert!(matches!(holder.claim(&permit()).await.unwrap(), Verdict::Granted(_)));
    }
    let (next, last) = (permit(), permit());
    let Verdict::Busy(busy) = third.claim(&next).await.unwrap() else { panic!("two hold") };
    let Verdict::Busy(mut behind) = fourth.claim(&last).await.unwrap() else { panic!("two hold") };
    drop(first);
    assert_eq!(third.wait(&next, &busy).await.unwrap(), Wake::Recheck);
    assert!(matches!(third.claim(&next).await.unwrap(), Verdict::Granted(_)));
    drop(second);
    let told = async {
        loop {
            fourth.wait(&last, &behind).await.unwrap();
            match fourth.claim(&last).await.unwrap() {
                Verdict::Granted(_) => return,
                Verdict::Busy(again) => behind = again,
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(2), told).await.expect("told that the second holder died");
}

#[tokio::test]
async fn a_lock_that_is_lost_while_it_is_passed_on_is_not_handed_out() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("locks.db");
    let client = Client::new(Sqlite::open(&path).unwrap());
    // The lease is longer than the test, also on a machine that is suspended for half a second.
    let lock = client.lock("passed").ttl(Duration::from_millis(1_500)).pass_for(Duration::from_secs(60));
    let first = lock.acquire().await.unwrap();
    let next = tokio::spawn({
        let lock = lock.clone();
        async move { lock.acquire().await }
    });
    tokio::task::yield_now().await;
    drop(first); // Passed, and not received yet: this runtime has one thread, which goes on with this task.
    let operator = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            let client = Client::new(Sqlite::open(&path).unwrap());
            let state = client.inspect(&Filter::Prefix("passed".into())).await.unwrap().remove(0);
            client.revoke(&state, Revoke::Now).await.unwrap();
            client.lock("passed").acquire().await.unwrap().release().await.unwrap();
        });
    };
    std::thread::spawn(operator).join().unwrap();
    // The next renewal of the keeper reports it, or the lease ends.
    std::thread::sleep(Duration::from_millis(1_600));
    let guard = next.await.unwrap().unwrap();
    assert!(guard.is_certain());
    guard.release().await.unwrap();
}
