//! The harness: a lock database and helpers.

use std::fs::File;
use std::path::PathBuf;
use std::time::Duration;

use latchwork::engine::Filter;
use latchwork::{Client, Guard, LockName};
use testkit::Fixture;
use testkit::fixtures::SqliteFixture;
use testkit::scripted_process::{Api, ScriptedProcess};

/// The lock that most tests use.
pub(crate) const LOCK: &str = "subject-lock";
/// Long enough for anything that is to happen at once, much shorter than [`LONG`].
const AT_ONCE: Duration = Duration::from_secs(15);
/// A lease that does not expire during a test, in milliseconds as the process's commands take it.
pub(crate) const LONG: &str = "600000";

/// One lock database, with a client of the test's own.
pub(crate) struct MachineHarness {
    pub(crate) fixture: SqliteFixture,
    pub(crate) client: Client,
}

impl MachineHarness {
    pub(crate) async fn new() -> Self {
        let fixture = SqliteFixture::begin().await;
        let client = fixture.client().await;
        Self { fixture, client }
    }

    pub(crate) fn url(&self) -> String {
        self.fixture.url().expect("the database is shared between processes")
    }

    pub(crate) fn subject(&self, api: Api) -> ScriptedProcess {
        ScriptedProcess::start(&self.url(), api)
    }

    fn beside(&self, name: &str) -> PathBuf {
        self.fixture.database().with_file_name(name)
    }

    /// A store that checks tokens.
    pub(crate) fn store(&self) -> PathBuf {
        self.beside("store")
    }

    /// The number of sessions.
    pub(crate) fn sessions(&self) -> usize {
        std::fs::read_dir(self.beside("locks.db-sessions")).expect("the engine was opened").count()
    }

    /// Blocks every request for as long as the returned file lives.
    pub(crate) fn halt(&self) -> File {
        let turn = File::open(self.beside("locks.db-sessions")).expect("the engine was opened");
        turn.lock().expect("the test gets its turn");
        turn
    }

    /// Whether another client holds the lock.
    pub(crate) async fn is_held(&self, lock: &str) -> bool {
        self.client.lock(lock).try_acquire().await.expect("the engine answers").is_none()
    }

    /// Acquires the lock, but not by waiting for a long lease to end.
    pub(crate) async fn take_at_once(&self, lock: &str) -> Guard {
        self.client.lock(lock).wait(AT_ONCE).acquire().await.expect("the lock is free at once")
    }

    /// The tokens of the lock's holders.
    pub(crate) async fn holders(&self, lock: &str) -> Vec<u64> {
        let name = LockName::new(lock).expect("a good name");
        let found = self.client.inspect(&Filter::Name(name)).await.expect("the engine answers");
        found.iter().flat_map(|lock| &lock.holders).filter_map(|holder| holder.token).collect()
    }
}

/// Makes the process acquire the lock, and returns its token.
pub(crate) async fn hold(subject: &mut ScriptedProcess, lock: &str, ttl: &str) -> u64 {
    let answer = subject.ask(&format!("hold {lock} {ttl}")).await;
    token(&answer)
}

/// The token in a process's answer, as a number.
pub(crate) fn token(answer: &str) -> u64 {
    let token = answer.strip_prefix("held ").unwrap_or_else(|| panic!("not held but {answer:?}"));
    token.parse().expect("a token is a number")
}

pub(crate) async fn pause(millis: u64) {
    tokio::time::sleep(Duration::from_millis(millis)).await;
}
