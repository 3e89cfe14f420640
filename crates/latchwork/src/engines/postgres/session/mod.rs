//! `postgres:` with `scheme=session`: advisory locks, kept by the server for as long as a connection lives.

mod connection;

use std::sync::Arc;

use tokio::sync::OnceCell;

use self::connection::Advisory;
pub(super) use self::connection::table;
use super::Server as Tokens;
use super::options::{Options, Scheme};
use crate::engine::EngineUrl;
use crate::engines::sql::engine_on_rows;
use crate::engines::sql::session::{self, Key, Moving, Server, Sessions, Terms};
use crate::{Guarantees, LockName, Result};

/// PostgreSQL's advisory locks: one client's connections to one database.
#[derive(Clone)]
pub struct PostgresSession(Sessions<Database>);

struct Database {
    options: Arc<Options>,
    terms: Terms,
}

impl PostgresSession {
    /// Connects to the database that `url` names, with `scheme=session`. See `docs/engines/postgres.md` for the options.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for an option it does not know,
    /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) behind a pooler that shares connections, on a standby, and on a server
    /// older than 14, [`ErrorKind::Unreachable`](crate::ErrorKind::Unreachable) if nobody answers.
    pub async fn connect(url: &EngineUrl) -> Result<Self> {
        let (options, terms) = (Arc::new(Options::of(url, Scheme::Session)?), Terms::of(url)?);
        Ok(Self(Sessions::connect(Database { options, terms }).await?))
    }

    pub(crate) fn promises() -> Guarantees {
        session::promises("postgres-session", Terms::default().ttl)
    }
}

engine_on_rows!(PostgresSession);

impl Server for Database {
    type Connection = Advisory;
    type Tokens = Tokens;

    fn engine(&self) -> &'static str {
        "postgres-session"
    }

    fn place(&self) -> &str {
        &self.options.place
    }

    fn terms(&self) -> &Terms {
        &self.terms
    }

    /// The server itself keeps the locks of its databases apart.
    fn key(&self, name: &LockName) -> Key {
        Key::of(&self.options.table, name).short()
    }

    async fn refuse_unfit(&self) -> Result<()> {
        connection::refuse_pooler(&self.options).await
    }

    /// Poolers are refused.
    fn tokens(&self) -> Tokens {
        Tokens::new(self.options.clone(), OnceCell::new_with(Some(false)))
    }

    async fn open(&self, moving: &Arc<Moving>) -> Result<Advisory> {
        Advisory::open(self.options.clone(), &self.terms, moving).await
    }
}
