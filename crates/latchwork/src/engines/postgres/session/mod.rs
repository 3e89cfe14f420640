//! `postgres:` with `scheme=session`: advisory locks, kept by the server for as long as a connection lives.

mod connection;

use std::sync::Arc;
use std::time::Duration;

use self::connection::Advisory;
use super::options::Options;
use crate::engine::EngineUrl;
use crate::engines::settings::{SESSION_TTL, choice, session_ttl};
use crate::engines::sql::engine_on_rows;
use crate::engines::sql::session::{self, Ended, Key, Server, Sessions, in_time};
use crate::{Guarantees, LockName, Result};

/// PostgreSQL's advisory locks: one client's connections to one database.
#[derive(Clone)]
pub struct PostgresSession(Sessions<Database>);

/// A database, and how long it keeps a silent connection.
struct Database {
    options: Arc<Options>,
    ttl: Duration,
    fences_all: bool,
}

impl PostgresSession {
    /// Connects to the database that `url` names, with `scheme=session`. See `docs/engines/postgres.md` for the options.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for an option it does not know,
    /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) behind a pooler that shares connections, on a standby, and on a server
    /// older than 14, [`ErrorKind::Unreachable`](crate::ErrorKind::Unreachable) if nobody answers.
    pub async fn connect(url: &EngineUrl) -> Result<Self> {
        let (options, ttl) = (Arc::new(Options::of(url)?), session_ttl(url)?);
        let fences_all = choice(url, "fenced", &[("asked", false), ("always", true)])?;
        let database = Database { options, ttl, fences_all };
        Ok(Self(Sessions::connect(database).await?))
    }

    pub(crate) fn promises() -> Guarantees {
        session::promises("postgres-session", SESSION_TTL)
    }
}

engine_on_rows!(PostgresSession);

impl Server for Database {
    type Connection = Advisory;

    fn engine(&self) -> &'static str {
        "postgres-session"
    }

    fn place(&self) -> &str {
        &self.options.place
    }

    fn ttl(&self) -> Duration {
        self.ttl
    }

    fn fences_all(&self) -> bool {
        self.fences_all
    }

    /// The server itself keeps the locks of its databases apart.
    fn key(&self, name: &LockName) -> Key {
        Key::of(&self.options.table, name).short()
    }

    async fn refuse_unfit(&self) -> Result<()> {
        in_time(self, connection::refuse_pooler(&self.options)).await
    }

    async fn open(&self, ended: Ended) -> Result<Advisory> {
        in_time(self, Advisory::open(self.options.clone(), self.ttl, self.slice(), ended)).await
    }
}
