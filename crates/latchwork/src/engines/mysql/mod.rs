//! `mysql:`, `mariadb:` locks in a MySQL (8 or newer) or MariaDB (10.6 or newer) database.
//!
//! With `scheme=row`, the default, locks are rows of two tables, by the algorithm of `engines/sql`: an
//! uncontended claim is one `UPDATE` of the row of the lock, which returns the token by `LAST_INSERT_ID`, and
//! any other claim is a transaction that locks this row. Neither server can push notifications, so waiters
//! poll: the first waiter often, and those behind it less often the further back they are. `scheme=insert`
//! and `scheme=session` are those of `engines/sql/insert` and `engines/sql/session`.

mod cells;
mod connection;
mod errors;
mod grants;
mod inserts;
mod options;
mod pool;
mod prepared;
mod rows;
mod session;
mod statements;
mod wire;

use self::options::{Options, Scheme};
use self::rows::MysqlRows;
pub use self::session::MysqlSession;
use crate::engine::EngineUrl;
use crate::engine::url_options::{choice, span};
use crate::engines::sql::{self, InsertEngine, RowEngine};
use crate::{Client, Guarantees, Result};

/// The MySQL and MariaDB engine: one client's connections to one database.
pub struct Mysql(RowEngine<MysqlRows>);

/// A client with the scheme that `url` names.
pub(crate) async fn client(url: &EngineUrl) -> Result<Client> {
    let known = [("row", Scheme::Row), ("insert", Scheme::Insert), ("session", Scheme::Session)];
    match choice(url, "scheme", &known)? {
        Scheme::Row => Ok(Client::new(Mysql::connect(url).await?)),
        Scheme::Insert => Ok(Client::new(MysqlInsert::connect(url).await?)),
        Scheme::Session => Ok(Client::new(MysqlSession::connect(url).await?)),
    }
}

impl Mysql {
    /// Connects to the database that `url` names, and creates its tables if they do not exist. See
    /// `docs/engines/mysql.md` for the options.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for an unknown option,
    /// [`ErrorKind::Denied`](crate::ErrorKind::Denied) if the tables do not exist and the user may not create
    /// them, with the SQL that does, [`ErrorKind::Unreachable`](crate::ErrorKind::Unreachable) if the server
    /// does not answer.
    pub async fn connect(url: &EngineUrl) -> Result<Self> {
        let options = Options::of(url, Scheme::Row)?;
        Ok(Self(RowEngine::open(MysqlRows::connect(options).await?, Vec::new()).await))
    }

    pub(crate) fn promises() -> Guarantees {
        sql::promises("mariadb", false)
    }
}

sql::delegate_engine!(Mysql);

/// `scheme=insert`: the client that inserts the row of a lock holds it, in a table that other services use by
/// plain SQL.
pub struct MysqlInsert(InsertEngine<MysqlRows>);

impl MysqlInsert {
    /// Connects to the database that `url` names, with `scheme=insert`.
    ///
    /// # Errors
    /// As [`Mysql::connect`].
    pub async fn connect(url: &EngineUrl) -> Result<Self> {
        let options = Options::of(url, Scheme::Insert)?;
        let max_age = span(url, "max-age")?.unwrap_or(sql::DEFAULT_MAX_AGE);
        let rows = MysqlRows::connect(options).await?;
        rows.pool().await?.check_table().await?;
        Ok(Self(InsertEngine::open(rows, max_age).await))
    }

    pub(crate) fn promises() -> Guarantees {
        sql::promises_of_insert("mariadb-insert")
    }
}

sql::delegate_engine!(MysqlInsert);
