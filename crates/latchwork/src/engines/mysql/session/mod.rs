//! `mysql:`, `mariadb:` with `scheme=session`: locks by `GET_LOCK`, which the server keeps for a connection.
//!
//! The algorithm is that of `engines/sql/session`. A free lock is one `GET_LOCK` with a timeout of zero, and
//! a second statement draws the token if the claim is fenced; a wait is `GET_LOCK` with the slice as its
//! timeout. `wait_timeout` makes a lease of the connection, and `KILL CONNECTION` ends another one.

mod connection;

use std::sync::Arc;

use self::connection::MysqlAdvisoryConnection;
pub(super) use self::connection::create_table;
use super::options::{Options, Scheme};
use super::rows::MysqlRows;
use crate::engine::EngineUrl;
use crate::engines::sql::delegate_engine;
use crate::engines::sql::session::{self, Key, Moving, SessionEngine, SessionStore, SessionTerms};
use crate::{Guarantees, LockName, Result};

/// The named locks of MySQL and MariaDB: one client's connections to one server.
#[derive(Clone)]
pub struct MysqlSession(SessionEngine<MysqlAdvisory>);

/// A server whose `GET_LOCK` locks are used.
struct MysqlAdvisory {
    options: Arc<Options>,
    terms: SessionTerms,
}

impl MysqlSession {
    /// Connects to the server that `url` names, with `scheme=session`. See `docs/engines/mysql.md` for the
    /// options.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for an unknown option,
    /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) behind a proxy that shares connections, on a
    /// replica and on a member of a cluster, [`ErrorKind::Unreachable`](crate::ErrorKind::Unreachable) if the
    /// server does not answer.
    pub async fn connect(url: &EngineUrl) -> Result<Self> {
        let (options, terms) = (Options::of(url, Scheme::Session)?, SessionTerms::of(url)?);
        let advisory = MysqlAdvisory { options: Arc::new(options), terms: terms.in_whole_seconds() };
        Ok(Self(SessionEngine::connect(advisory).await?))
    }

    pub(crate) fn promises() -> Guarantees {
        session::promises("mariadb-session", SessionTerms::default().ttl)
    }
}

delegate_engine!(MysqlSession);

impl SessionStore for MysqlAdvisory {
    type Connection = MysqlAdvisoryConnection;
    type Tokens = MysqlRows;

    fn engine(&self) -> &'static str {
        "mariadb-session"
    }

    fn shown_as(&self) -> &str {
        &self.options.shown_as
    }

    fn terms(&self) -> &SessionTerms {
        &self.terms
    }

    /// The server has one set of lock names for all its databases.
    fn key(&self, name: &LockName) -> Key {
        let Options { login, table, .. } = &*self.options;
        Key::of(&format!("{}.{table}", login.database), name)
    }

    async fn refuse_unfit(&self) -> Result<()> {
        connection::refuse_proxy(&self.options).await
    }

    fn tokens(&self) -> MysqlRows {
        MysqlRows::new(self.options.clone())
    }

    async fn open(&self, moving: &Arc<Moving>) -> Result<MysqlAdvisoryConnection> {
        MysqlAdvisoryConnection::open(self.options.clone(), &self.terms, moving).await
    }
}
