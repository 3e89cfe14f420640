//! `mysql:`, `mariadb:` locks as rows of two tables in a MySQL (8 or newer) or MariaDB (10.6 or newer) database.
//!
//! The algorithm is that of every database with rows (`engines/sql`). Neither server can tell a client anything that it did not
//! ask for, so waiters look: the next in line often, those behind it more rarely the further back they stand.

mod cells;
mod connection;
mod failure;
mod grants;
mod inserts;
mod options;
mod pool;
mod prepared;
mod session;
mod statements;
mod wire;

use std::sync::Arc;

use self::cells::MysqlCells;
use self::options::{Options, Scheme};
use self::pool::{MysqlTransaction, RuntimePool};
pub use self::session::MysqlSession;
use crate::engine::url_options::{choice, span};
use crate::engine::{ClaimId, EngineUrl, SharedCells};
use crate::engines::sql::{self, Database, Inserts, Query, QueryResult, Rows};
use crate::engines::waiter_table::{Notification, WaiterTable};
use crate::net::per_runtime::PerRuntime;
use crate::{Client, Guarantees, Result};

/// The MySQL and MariaDB engine: one client's connections to one database.
pub struct Mysql(Rows<Server>);

/// A database, and this client's connections to it.
struct Server {
    options: Arc<Options>,
    pools: PerRuntime<RuntimePool>,
    /// The claims that wait. Nobody tells them anything.
    waiting: WaiterTable,
}

/// A client with the scheme that `url` asks for.
pub(crate) async fn client(url: &EngineUrl) -> Result<Client> {
    let known = [("row", Scheme::Row), ("insert", Scheme::Insert), ("session", Scheme::Session)];
    match choice(url, "scheme", &known)? {
        Scheme::Row => Ok(Client::new(Mysql::connect(url).await?)),
        Scheme::Insert => Ok(Client::new(MysqlInsert::connect(url).await?)),
        Scheme::Session => Ok(Client::new(MysqlSession::connect(url).await?)),
    }
}

impl Mysql {
    /// Connects to the database that `url` names, and makes its tables if they are not there. See
    /// `docs/engines/mysql.md` for the options.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for an option it does not know,
    /// [`ErrorKind::Denied`](crate::ErrorKind::Denied) if the tables are not there and may not be made, with what would make
    /// them, [`ErrorKind::Unreachable`](crate::ErrorKind::Unreachable) if nobody answers.
    pub async fn connect(url: &EngineUrl) -> Result<Self> {
        let options = Options::of(url, Scheme::Row)?;
        Ok(Self(Rows::open(Server::connect(options).await?, Vec::new()).await))
    }

    pub(crate) fn promises() -> Guarantees {
        sql::promises("mariadb", false)
    }
}

sql::engine_on_rows!(Mysql);

/// `scheme=insert`: whoever inserts the row holds the lock, in a table that other services use by plain SQL.
pub struct MysqlInsert(Inserts<Server>);

impl MysqlInsert {
    /// Connects to the database that `url` names, with `scheme=insert`.
    ///
    /// # Errors
    /// As [`Mysql::connect`].
    pub async fn connect(url: &EngineUrl) -> Result<Self> {
        let options = Options::of(url, Scheme::Insert)?;
        let age = span(url, "max-age")?.unwrap_or(sql::USUAL_AGE);
        let server = Server::connect(options).await?;
        server.pool().await?.check_table().await?;
        Ok(Self(Inserts::open(server, age).await))
    }

    pub(crate) fn promises() -> Guarantees {
        sql::promises_of_insert("mariadb-insert")
    }
}

sql::engine_on_rows!(MysqlInsert);

impl Server {
    /// Connects with the first statement.
    fn new(options: Arc<Options>) -> Self {
        Self { options, pools: PerRuntime::default(), waiting: WaiterTable::default() }
    }

    async fn connect(options: Options) -> Result<Self> {
        let server = Self::new(Arc::new(options));
        server.pool().await?.check_clock().await?;
        Ok(server)
    }

    async fn pool(&self) -> Result<Arc<RuntimePool>> {
        self.pools.get(|| RuntimePool::open(self.options.clone())).await
    }
}

impl Database for Server {
    type Transaction = MysqlTransaction;
    const PUTS_AT_ONCE: bool = false;

    fn promises(&self) -> Guarantees {
        match self.options.scheme {
            Scheme::Row => Mysql::promises(),
            Scheme::Insert => MysqlInsert::promises(),
            Scheme::Session => MysqlSession::promises(),
        }
    }

    async fn channel(&self) -> Result<Option<Vec<u8>>> {
        Ok(None)
    }

    async fn heard(&self, id: ClaimId) -> Notification {
        self.waiting.next(id).await
    }

    fn expect(&self, id: ClaimId) -> bool {
        self.waiting.expect(id)
    }

    fn forget(&self, id: ClaimId) {
        self.waiting.forget(id);
    }

    async fn run(&self, queries: Vec<Query>) -> Result<Vec<QueryResult>> {
        self.pool().await?.run(&queries).await
    }

    async fn begin(&self, queries: Vec<Query>) -> Result<(MysqlTransaction, Vec<QueryResult>)> {
        self.pool().await?.begin(&queries).await
    }

    fn fork(&self) -> Self {
        Self::new(self.options.clone())
    }

    fn cells(self: Arc<Self>) -> SharedCells {
        SharedCells::new(MysqlCells(self))
    }
}
