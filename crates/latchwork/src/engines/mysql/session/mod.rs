//! `mysql:`, `mariadb:` with `scheme=session`: `GET_LOCK`, kept by the server for as long as a connection lives.

mod connection;

use std::sync::Arc;
use std::time::Duration;

use self::connection::Named;
use super::options::Options;
use crate::engine::EngineUrl;
use crate::engines::settings::{SESSION_TTL, choice, session_ttl};
use crate::engines::sql::engine_on_rows;
use crate::engines::sql::session::{self, Ended, Key, Server, Sessions, in_time};
use crate::{Guarantees, LockName, Result};

/// The named locks of MySQL and MariaDB: one client's connections to one server.
#[derive(Clone)]
pub struct MysqlSession(Sessions<Database>);

/// A server, and how long it keeps a silent connection.
struct Database {
    options: Arc<Options>,
    ttl: Duration,
    fences_all: bool,
}

impl MysqlSession {
    /// Connects to the server that `url` names, with `scheme=session`. See `docs/engines/mysql.md` for the options.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for an option it does not know,
    /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) behind a proxy that shares connections, on a replica and on a member
    /// of a cluster, [`ErrorKind::Unreachable`](crate::ErrorKind::Unreachable) if nobody answers.
    pub async fn connect(url: &EngineUrl) -> Result<Self> {
        let options = Arc::new(Options::of(url, &["fenced", "session-ttl"])?);
        // The server counts in whole seconds.
        let ttl = Duration::from_secs(session_ttl(url)?.as_millis().div_ceil(1_000) as u64);
        let fences_all = choice(url, "fenced", &[("asked", false), ("always", true)])?;
        Ok(Self(Sessions::connect(Database { options, ttl, fences_all }).await?))
    }

    pub(crate) fn promises() -> Guarantees {
        session::promises("mariadb-session", SESSION_TTL)
    }
}

engine_on_rows!(MysqlSession);

impl Server for Database {
    type Connection = Named;

    fn engine(&self) -> &'static str {
        "mariadb-session"
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

    /// The server has one set of names for all its databases.
    fn key(&self, name: &LockName) -> Key {
        let Options { login, table, .. } = &*self.options;
        Key::of(&format!("{}.{table}", login.database), name)
    }

    async fn refuse_unfit(&self) -> Result<()> {
        in_time(self, connection::refuse_unfit(&self.options)).await
    }

    async fn open(&self, ended: Ended) -> Result<Named> {
        in_time(self, Named::open(self.options.clone(), self.ttl, self.slice(), ended)).await
    }
}
