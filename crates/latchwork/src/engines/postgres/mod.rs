//! `postgres:` locks in a PostgreSQL database (14 or newer).
//!
//! With `scheme=row`, the default, locks are rows of two tables, by the algorithm of `engines/sql`: an
//! uncontended claim is one `INSERT ... ON CONFLICT DO UPDATE ... RETURNING token`, and any other claim is a
//! transaction that locks the row of the lock. A client listens on a channel of its own, on the connection
//! that its statements share and on which they are pipelined. The transaction that hands a lock over sends
//! `NOTIFY` to the channel of the next holder. Behind a pooler neither prepared statements nor `LISTEN` work:
//! every statement is sent as text, and waiters poll. `scheme=insert` and `scheme=session` are those of
//! `engines/sql/insert` and `engines/sql/session`.

mod bounded;
mod cells;
mod connection;
mod errors;
mod grants;
mod inserts;
mod options;
mod pool;
mod pooler;
mod rows;
mod session;
mod statements;
mod wire;

use self::options::{Options, Scheme};
use self::rows::PostgresRows;
pub use self::session::PostgresSession;
use crate::engine::EngineUrl;
use crate::engines::sql::{self, InsertEngine, RowEngine};
use crate::{Client, Guarantees, Result};

/// The PostgreSQL engine: one client's connections to one database.
pub struct Postgres(RowEngine<PostgresRows>);

impl Postgres {
    /// Connects to the database that `url` names, and creates its tables if they do not exist. See
    /// `docs/engines/postgres.md` for the options.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for an unknown option,
    /// [`ErrorKind::Denied`](crate::ErrorKind::Denied) if the tables do not exist and the user may not create
    /// them, with the SQL that does, [`ErrorKind::Unreachable`](crate::ErrorKind::Unreachable) if the server
    /// does not answer.
    pub async fn connect(url: &EngineUrl) -> Result<Self> {
        let options = Options::of(url, Scheme::Row)?;
        Ok(Self(RowEngine::open(PostgresRows::connect(options).await?, Vec::new()).await))
    }

    pub(crate) fn promises() -> Guarantees {
        sql::promises("postgres", true)
    }
}

sql::delegate_engine!(Postgres);

/// `scheme=insert`: the client that inserts the row of a lock holds it, in a table that other services use by
/// plain SQL.
pub struct PostgresInsert(InsertEngine<PostgresRows>);

impl PostgresInsert {
    /// Connects to the database that `url` names, with `scheme=insert`.
    ///
    /// # Errors
    /// As [`Postgres::connect`].
    pub async fn connect(url: &EngineUrl) -> Result<Self> {
        let options = Options::of(url, Scheme::Insert)?;
        let max_age = options.max_age.unwrap_or(sql::DEFAULT_MAX_AGE);
        Ok(Self(InsertEngine::open(PostgresRows::connect(options).await?, max_age).await))
    }

    /// Waiters poll, but watchers of cells receive notifications.
    pub(crate) fn promises() -> Guarantees {
        Guarantees { watchers_told: "at once", ..sql::promises_of_insert("postgres-insert") }
    }
}

sql::delegate_engine!(PostgresInsert);

/// A client with the scheme that `url` names.
///
/// # Errors
/// As [`Postgres::connect`].
pub(crate) async fn client(url: &EngineUrl) -> Result<Client> {
    match Scheme::of(url)? {
        Scheme::Row => Ok(Client::new(Postgres::connect(url).await?)),
        Scheme::Insert => Ok(Client::new(PostgresInsert::connect(url).await?)),
        Scheme::Session => Ok(Client::new(PostgresSession::connect(url).await?)),
    }
}
