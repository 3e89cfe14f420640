//! `postgres:` with `scheme=session`: advisory locks, which the server keeps for a connection.
//!
//! The algorithm is that of `engines/sql/session`. A free lock is one `pg_try_advisory_lock`, with a token in
//! the same statement if the claim is fenced; a wait is `pg_advisory_lock` with `lock_timeout`.
//! `idle_session_timeout` makes a lease of the connection, and `pg_terminate_backend` ends another one.

mod connection;

use std::sync::Arc;

use tokio::sync::OnceCell;

use self::connection::PostgresAdvisoryConnection;
pub(super) use self::connection::create_table;
use super::options::{Options, Scheme};
use super::rows::PostgresRows;
use crate::engine::EngineUrl;
use crate::engines::sql::delegate_engine;
use crate::engines::sql::session::{self, Key, Moving, SessionEngine, SessionStore, SessionTerms};
use crate::{Guarantees, LockName, Result};

/// PostgreSQL's advisory locks: one client's connections to one database.
#[derive(Clone)]
pub struct PostgresSession(SessionEngine<PostgresAdvisory>);

/// A database whose advisory locks are used.
struct PostgresAdvisory {
    options: Arc<Options>,
    terms: SessionTerms,
}

impl PostgresSession {
    /// Connects to the database that `url` names, with `scheme=session`. See `docs/engines/postgres.md` for
    /// the options.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for an unknown option,
    /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) behind a pooler that shares connections, on
    /// a standby, and on a server older than 14, [`ErrorKind::Unreachable`](crate::ErrorKind::Unreachable) if
    /// the server does not answer.
    pub async fn connect(url: &EngineUrl) -> Result<Self> {
        let (options, terms) = (Arc::new(Options::of(url, Scheme::Session)?), SessionTerms::of(url)?);
        Ok(Self(SessionEngine::connect(PostgresAdvisory { options, terms }).await?))
    }

    pub(crate) fn promises() -> Guarantees {
        session::promises("postgres-session", SessionTerms::default().ttl)
    }
}

delegate_engine!(PostgresSession);

impl SessionStore for PostgresAdvisory {
    type Connection = PostgresAdvisoryConnection;
    type Tokens = PostgresRows;

    fn engine(&self) -> &'static str {
        "postgres-session"
    }

    fn shown_as(&self) -> &str {
        &self.options.shown_as
    }

    fn terms(&self) -> &SessionTerms {
        &self.terms
    }

    /// The server itself separates the locks of its databases.
    fn key(&self, name: &LockName) -> Key {
        Key::of(&self.options.table, name).short()
    }

    async fn refuse_unfit(&self) -> Result<()> {
        connection::refuse_pooler(&self.options).await
    }

    /// Without the check for a pooler: poolers are refused with `scheme=session`.
    fn tokens(&self) -> PostgresRows {
        PostgresRows::new(self.options.clone(), OnceCell::new_with(Some(false)))
    }

    async fn open(&self, moving: &Arc<Moving>) -> Result<PostgresAdvisoryConnection> {
        PostgresAdvisoryConnection::open(self.options.clone(), &self.terms, moving).await
    }
}
