//! `mysql:`, `mariadb:` with `scheme=session`: `GET_LOCK`, kept by the server for as long as a connection lives.

mod connection;

use std::sync::Arc;

use self::connection::Named;
pub(super) use self::connection::table;
use super::Server as Tokens;
use super::options::{Options, Scheme};
use crate::engine::EngineUrl;
use crate::engines::sql::engine_on_rows;
use crate::engines::sql::session::{self, Key, Moving, Server, Sessions, Terms};
use crate::{Guarantees, LockName, Result};

/// The named locks of MySQL and MariaDB: one client's connections to one server.
#[derive(Clone)]
pub struct MysqlSession(Sessions<Database>);

struct Database {
    options: Arc<Options>,
    terms: Terms,
}

impl MysqlSession {
    /// Connects to the server that `url` names, with `scheme=session`. See `docs/engines/mysql.md` for the options.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for an option it does not know,
    /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) behind a proxy that shares connections, on a replica and on a member
    /// of a cluster, [`ErrorKind::Unreachable`](crate::ErrorKind::Unreachable) if nobody answers.
    pub async fn connect(url: &EngineUrl) -> Result<Self> {
        let (options, terms) = (Options::of(url, Scheme::Session)?, Terms::of(url)?);
        let database = Database { options: Arc::new(options), terms: terms.in_whole_seconds() };
        Ok(Self(Sessions::connect(database).await?))
    }

    pub(crate) fn promises() -> Guarantees {
        session::promises("mariadb-session", Terms::default().ttl)
    }
}

engine_on_rows!(MysqlSession);

impl Server for Database {
    type Connection = Named;
    type Tokens = Tokens;

    fn engine(&self) -> &'static str {
        "mariadb-session"
    }

    fn place(&self) -> &str {
        &self.options.place
    }

    fn terms(&self) -> &Terms {
        &self.terms
    }

    /// The server has one set of names for all its databases.
    fn key(&self, name: &LockName) -> Key {
        let Options { login, table, .. } = &*self.options;
        Key::of(&format!("{}.{table}", login.database), name)
    }

    async fn refuse_unfit(&self) -> Result<()> {
        connection::refuse_proxy(&self.options).await
    }

    fn tokens(&self) -> Tokens {
        Tokens::new(self.options.clone())
    }

    async fn open(&self, moving: &Arc<Moving>) -> Result<Named> {
        Named::open(self.options.clone(), &self.terms, moving).await
    }
}
