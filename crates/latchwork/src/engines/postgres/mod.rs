//! `postgres:` locks as rows of two tables in a PostgreSQL database (14 or newer).
//!
//! The algorithm is that of every database with rows (`engines/sql`). Here the next holder is told by `NOTIFY`, on the one
//! connection that a client's own statements go through anyway, pipelined (unless a pooler stands between).

mod bounded;
mod cells;
mod connection;
mod failure;
mod grants;
mod inserts;
mod options;
mod pool;
mod pooler;
mod session;
mod statements;
mod wire;

use std::sync::Arc;

use tokio::sync::OnceCell;

use self::cells::PostgresCells;
use self::options::{Options, Scheme};
use self::pool::{OpenTransaction, RuntimePool};
pub use self::session::PostgresSession;
use crate::clock;
use crate::engine::{ClaimId, EngineUrl, SharedCells};
use crate::engines::sql::{self, Database, Inserts, Query, QueryResult, Rows};
use crate::engines::waiter_table::{Notification, WaiterTable};
use crate::net::per_runtime::PerRuntime;
use crate::{Client, Error, Guarantees};

type Result<T, E = Error> = std::result::Result<T, E>;

/// The PostgreSQL engine: one client's connections to one database.
pub struct Postgres(Rows<Server>);

/// A database, and this client's connections to it.
struct Server {
    shared: Arc<Shared>,
    pools: PerRuntime<RuntimePool>,
}

/// What all connections need to know.
struct Shared {
    options: Arc<Options>,
    waiters: Arc<WaiterTable>,
    /// Where this client listens.
    channel: String,
    /// Whether a pooler stands between, once that is known.
    pooled: OnceCell<bool>,
}

impl Shared {
    async fn is_pooled(&self, client: &tokio_postgres::Client) -> Result<bool, tokio_postgres::Error> {
        let pooled = self.pooled.get_or_try_init(|| async {
            match self.options.pooler {
                Some(pooler) => Ok(pooler),
                None => pooler::is_between(client).await,
            }
        });
        pooled.await.copied()
    }

    /// The same since the first connection, without which there is no client.
    fn is_known_pooled(&self) -> bool {
        self.pooled.get().is_some_and(|pooled| *pooled)
    }
}

impl Postgres {
    /// Connects to the database that `url` names, and makes its tables if they are not there. See
    /// `docs/engines/postgres.md` for the options.
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
        sql::promises("postgres", true)
    }
}

sql::engine_on_rows!(Postgres);

/// `scheme=insert`: whoever inserts the row holds the lock, in a table that other services use by plain SQL.
pub struct PostgresInsert(Inserts<Server>);

impl PostgresInsert {
    /// Connects to the database that `url` names, with `scheme=insert`.
    ///
    /// # Errors
    /// As [`Postgres::connect`].
    pub async fn connect(url: &EngineUrl) -> Result<Self> {
        let options = Options::of(url, Scheme::Insert)?;
        let age = options.age.unwrap_or(sql::USUAL_AGE);
        Ok(Self(Inserts::open(Server::connect(options).await?, age).await))
    }

    /// Waiters look, and watchers of cells are told.
    pub(crate) fn promises() -> Guarantees {
        Guarantees { watchers_told: "at once", ..sql::promises_of_insert("postgres-insert") }
    }
}

sql::engine_on_rows!(PostgresInsert);

/// A client of whichever scheme `url` names.
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

impl Server {
    /// Connects with the first statement.
    fn new(options: Arc<Options>, pooled: OnceCell<bool>) -> Self {
        let number = u64::from_be_bytes(clock::random_bytes());
        let channel = format!("latchwork_{number:016x}");
        let shared = Shared { options, waiters: Arc::default(), channel, pooled };
        Self { shared: Arc::new(shared), pools: PerRuntime::default() }
    }

    async fn connect(options: Options) -> Result<Self> {
        let server = Self::new(Arc::new(options), OnceCell::new());
        server.pool().await?;
        Ok(server)
    }

    async fn pool(&self) -> Result<Arc<RuntimePool>> {
        self.pools.get(|| RuntimePool::open(self.shared.clone())).await
    }
}

impl Database for Server {
    type Transaction = OpenTransaction;
    const PUTS_AT_ONCE: bool = true;

    fn promises(&self) -> Guarantees {
        match self.shared.options.scheme {
            Scheme::Row => sql::promises("postgres", !self.shared.is_known_pooled()),
            Scheme::Insert if self.shared.is_known_pooled() => sql::promises_of_insert("postgres-insert"),
            Scheme::Insert => PostgresInsert::promises(),
            Scheme::Session => PostgresSession::promises(),
        }
    }

    async fn channel(&self) -> Result<Option<Vec<u8>>> {
        if self.shared.is_known_pooled() {
            return Ok(None);
        }
        self.pool().await?.listen().await?;
        Ok(Some(self.shared.channel.clone().into_bytes()))
    }

    async fn heard(&self, id: ClaimId) -> Notification {
        self.shared.waiters.next(id).await
    }

    fn expect(&self, id: ClaimId) -> bool {
        self.shared.waiters.expect(id)
    }

    fn forget(&self, id: ClaimId) {
        self.shared.waiters.forget(id);
    }

    async fn run(&self, queries: Vec<Query>) -> Result<Vec<QueryResult>> {
        self.pool().await?.run(&queries).await
    }

    async fn begin(&self, queries: Vec<Query>) -> Result<(OpenTransaction, Vec<QueryResult>)> {
        self.pool().await?.begin(&queries).await
    }

    fn fork(&self) -> Self {
        Self { shared: self.shared.clone(), pools: PerRuntime::default() }
    }

    fn cells(self: Arc<Self>) -> SharedCells {
        SharedCells::new(PostgresCells(self))
    }
}
