//! `mysql:`, `mariadb:` locks as rows of two tables in a MySQL (8 or newer) or MariaDB (10.6 or newer) database.
//!
//! The algorithm is that of every database with rows (`engines/sql`). Neither server can tell a client anything that it did not
//! ask for, so waiters look: the next in line often, those behind it more rarely the further back they stand.

mod connection;
mod failure;
mod lane;
mod link;
mod options;
mod texts;
mod wire;

use std::sync::Arc;

use self::link::{Link, OpenTransaction};
use self::options::Options;
use crate::engine::{ClaimId, EngineUrl};
use crate::engines::links::Links;
use crate::engines::mailbox::{Mailbox, News};
use crate::engines::settings::choice;
use crate::engines::sql::{self, Answer, Ask, Database, Rows};
use crate::{Client, Guarantees, Result};

/// The MySQL and MariaDB engine: one client's connections to one database.
pub struct Mysql(Rows<Server>);

/// A database, and this client's connections to it.
struct Server {
    options: Arc<Options>,
    links: Links<Link>,
    /// The claims that wait. Nobody tells them anything.
    waiting: Mailbox,
}

/// The ways to lock.
#[derive(Clone, Copy, Debug)]
enum Scheme {
    Row,
}

/// A client with the scheme that `url` asks for.
pub(crate) async fn client(url: &EngineUrl) -> Result<Client> {
    match choice(url, "scheme", &[("row", Scheme::Row)])? {
        Scheme::Row => Ok(Client::new(Mysql::connect(url).await?)),
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
        let options = Arc::new(Options::of(url, &[])?);
        let server = Server { options, links: Links::default(), waiting: Mailbox::default() };
        server.link().await?.check_clock().await?;
        Ok(Self(Rows::new(server, Vec::new())))
    }

    pub(crate) fn promises() -> Guarantees {
        sql::promises("mariadb", false)
    }
}

sql::engine_on_rows!(Mysql);

impl Server {
    async fn link(&self) -> Result<Arc<Link>> {
        self.links.get(|| Link::open(self.options.clone())).await
    }
}

impl Database for Server {
    type Transaction = OpenTransaction;

    fn promises(&self) -> Guarantees {
        Mysql::promises()
    }

    async fn channel(&self) -> Result<Option<Vec<u8>>> {
        Ok(None)
    }

    async fn heard(&self, id: ClaimId) -> News {
        self.waiting.next(id).await
    }

    fn expect(&self, id: ClaimId) -> bool {
        self.waiting.expect(id)
    }

    fn forget(&self, id: ClaimId) {
        self.waiting.forget(id);
    }

    async fn run(&self, asks: Vec<Ask>) -> Result<Vec<Answer>> {
        self.link().await?.run(&asks).await
    }

    async fn begin(&self, asks: Vec<Ask>) -> Result<(OpenTransaction, Vec<Answer>)> {
        self.link().await?.begin(&asks).await
    }
}
