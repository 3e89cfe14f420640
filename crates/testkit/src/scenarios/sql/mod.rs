//! Faults that locks in database rows must survive, run on PostgreSQL and on MariaDB.

pub mod blocked;
pub mod clocks;
pub mod forgotten;
pub mod forgotten_tokens;
pub mod killed;
pub mod lost_replies;
pub mod names;
pub mod shared;
pub mod tls;

use std::ops::Deref;

use crate::harness::FaultHarness;
use crate::history::RecordedClient;
use crate::network::proxy::Proxy;
use crate::servers::SqlSession;

/// A database with a fault harness around it.
#[allow(async_fn_in_trait, reason = "its futures are awaited by the test itself, and need not be Send")]
pub trait SqlHarness: Deref<Target = FaultHarness> {
    /// The proxy between the server and its clients.
    fn proxy(&self) -> &Proxy;

    /// The URL through the proxy.
    fn url(&self) -> String;

    /// The URL that bypasses the proxy.
    fn direct_url(&self) -> String;

    /// Kills the server, and restarts it with its data on disk.
    fn restart(&self);

    /// Ends the connections of all clients, as an operator would.
    fn end_connections(&self);

    /// Executes SQL as the database owner and returns the output.
    fn sql(&self, text: &str) -> String;

    /// A session of a user with all rights.
    fn session(&self) -> SqlSession;

    /// The database's expression for the time in microseconds.
    fn time(&self) -> &'static str;

    /// For how many milliseconds each statement of our clients has waited for another transaction's lock.
    fn waiting(&self) -> Vec<u64>;

    /// Clients behind the proxy.
    async fn recorded_clients(&self, count: usize) -> Vec<RecordedClient> {
        let mut clients = Vec::new();
        for _ in 0..count {
            clients.push(self.connect(&self.url()).await);
        }
        clients
    }

    /// A client that the proxy cannot harm.
    async fn observer(&self) -> RecordedClient {
        self.connect(&self.direct_url()).await
    }
}
