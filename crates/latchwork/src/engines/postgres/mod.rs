//! `postgres:` locks as rows of two tables in a PostgreSQL database (14 or newer).
//!
//! The algorithm is that of every database with rows (`engines/sql`). Here the next holder is told by `NOTIFY`, on the one
//! connection that a client's own statements go through anyway, pipelined.

mod cells;
mod connection;
mod failure;
mod link;
mod options;
mod texts;
mod tls;

use std::sync::Arc;

use self::cells::PostgresCells;
use self::link::{Link, OpenTransaction};
use self::options::Options;
use crate::clock;
use crate::engine::{ClaimId, EngineUrl, SharedCells};
use crate::engines::links::Links;
use crate::engines::mailbox::{Mailbox, News};
use crate::engines::sql::{self, Answer, Ask, Database, Rows};
use crate::{Error, Guarantees, Result};

/// The PostgreSQL engine: one client's connections to one database.
pub struct Postgres(Rows<Server>);

/// A database, and this client's connections to it.
struct Server {
    shared: Arc<Shared>,
    links: Links<Link>,
}

/// What all connections need to know.
struct Shared {
    options: Options,
    mailbox: Arc<Mailbox>,
    /// Where this client listens.
    channel: String,
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
        let options = Options::of(url)?;
        let number = u64::from_be_bytes(clock::random_bytes());
        let channel = format!("latchwork_{number:016x}");
        let shared = Arc::new(Shared { options, mailbox: Arc::default(), channel });
        let server = Server { shared, links: Links::default() };
        server.link().await?;
        Ok(Self(Rows::new(server, Vec::new())))
    }

    pub(crate) fn promises() -> Guarantees {
        Guarantees { cells: true, ..sql::promises("postgres", true) }
    }
}

sql::engine_on_rows!(Postgres);

impl Server {
    async fn link(&self) -> Result<Arc<Link>> {
        self.links.get(|| Link::open(self.shared.clone())).await
    }
}

impl Database for Server {
    type Transaction = OpenTransaction;

    fn engine(&self) -> &'static str {
        "postgres"
    }

    async fn channel(&self) -> Result<Option<Vec<u8>>> {
        self.link().await?.listen().await?;
        Ok(Some(self.shared.channel.clone().into_bytes()))
    }

    async fn heard(&self, id: ClaimId) -> News {
        self.shared.mailbox.next(id).await
    }

    fn expect(&self, id: ClaimId) -> bool {
        self.shared.mailbox.expect(id)
    }

    fn forget(&self, id: ClaimId) {
        self.shared.mailbox.forget(id);
    }

    async fn run(&self, asks: Vec<Ask>) -> Result<Vec<Answer>> {
        self.link().await?.run(&asks).await
    }

    async fn begin(&self, asks: Vec<Ask>) -> Result<(OpenTransaction, Vec<Answer>)> {
        self.link().await?.begin(&asks).await
    }

    fn cells(self: Arc<Self>) -> Option<SharedCells> {
        Some(SharedCells::new(PostgresCells(self)))
    }

    fn is_worth_repeating(&self, error: &Error) -> bool {
        failure::is_in_the_way(error)
    }
}
