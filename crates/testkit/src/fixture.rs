//! An engine under test.

use std::future::Future;
use std::time::Duration;

use latchwork::engine::Engine;
use latchwork::{Client, Guarantees};

use crate::proxy::Proxy;

/// One way to reach and use an engine. A value and not a type: every case is compiled once per engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// What tests call it.
    pub name: &'static str,
    /// The URL scheme that leads to it.
    pub scheme: &'static str,
    /// Whether every case runs on it. If not, those do that may depend on how it is reached.
    pub is_thorough: bool,
}

/// A running engine: its server or file, and the faults that can be done to it.
pub trait Fixture: Send + Sync + Sized + 'static {
    /// The engine.
    type Engine: Engine;

    /// The ways to reach and use it.
    const KINDS: &'static [Kind];

    /// A short lease, for cases that let it run out. What a case does under it is done before, also on a machine that stands
    /// still for half a second.
    const SHORT: Duration = Duration::from_secs(1);

    /// A lease for cases that renew it: on a machine that stands still for half a second it is not lost.
    const STEADY: Duration = Duration::from_secs(3);

    /// Whether the server keeps no time of day, and so does not know since when a lock is held.
    const HAS_NO_WALL_CLOCK: bool = false;

    /// How much longer than promised the server may keep a lease that nobody renews, if it counts coarsely.
    const ENDS_LATE: Duration = Duration::ZERO;

    /// Whether those who ask at the same instant can get a part of the votes each, and none of them the lock.
    const SPLITS_VOTES: bool = false;

    /// Whether locks must be named to be looked at.
    const CANNOT_LIST: bool = false;

    /// Whether a claim is nothing but a connection: it ends with it, at once, and the server knows nothing more of it.
    const IS_A_CONNECTION: bool = false;

    /// Whether the server cannot tell who holds, only on which connection.
    const KNOWS_NO_NOTES: bool = false;

    /// Whether what a leader tells is kept with its claim, and not in a cell.
    const HAS_LEADERS: bool = false;

    /// Whether other programs can hold its locks, as [`Fixture::plant`] does.
    const HAS_FOREIGN_HOLDERS: bool = false;

    /// Whether those look different from the ones in every other fixture of the same engine, so that the
    /// cases about them run in each way to reach it.
    const HAS_FOREIGN_HOLDERS_OF_ITS_OWN: bool = false;

    /// The ttl of waiters that are killed. Shorter where a dead waiter blocks others for as long as a dead holder would.
    const WAITERS_TTL: Duration = Duration::from_secs(30);

    /// Starts one of [`Fixture::KINDS`], with no locks held.
    fn begin_as(kind: &'static Kind) -> impl Future<Output = Self> + Send;

    /// Starts the first of them.
    fn begin() -> impl Future<Output = Self> + Send {
        Self::begin_as(&Self::KINDS[0])
    }

    /// Which of them this is.
    fn kind(&self) -> &'static Kind;

    /// What it promises.
    fn guarantees() -> Guarantees;

    /// A new session.
    fn engine(&self) -> impl Future<Output = Self::Engine> + Send;

    /// The URL for other processes; `None` if it cannot be shared between processes.
    fn url(&self) -> Option<String>;

    /// Makes every request wait for about this long, from now on; zero ends it.
    fn hinder(&self, delay: Duration);

    /// Makes requests fail until [`Fixture::mend`].
    fn breaks(&self) -> impl Future<Output = ()> + Send;

    /// Ends [`Fixture::breaks`].
    fn mend(&self) -> impl Future<Output = ()> + Send;

    /// Makes writes of cells fail until [`Fixture::mend_cells`], also while somebody looks at them all the time.
    fn breaks_cells(&self) -> impl Future<Output = ()> + Send {
        self.breaks()
    }

    /// Ends [`Fixture::breaks_cells`].
    fn mend_cells(&self) -> impl Future<Output = ()> + Send {
        self.mend()
    }

    /// What stands between the server and the clients of the test, where requests can be read on the way.
    fn proxies(&self) -> &[Proxy] {
        &[]
    }

    /// Lets another program hold this lock, which a client has used before: for a minute, or until what is returned
    /// is dropped.
    fn plant(&self, _lock: &str) -> impl Future<Output = Box<dyn Send>> + Send {
        async { panic!("no other program can hold a lock here") }
    }

    /// The planted holder as the server has it, to the last byte; empty if it is gone.
    fn planted(&self, _lock: &str) -> impl Future<Output = String> + Send {
        async { panic!("no other program can hold a lock here") }
    }

    /// Destroys everything it has stored.
    fn destroy(&self) -> impl Future<Output = ()> + Send;

    /// Whether its clients get tokens that they do not ask for.
    fn has_tokens(&self) -> bool {
        Self::guarantees().tokens.is_some()
    }

    /// Whether a token is another request.
    fn draws_tokens_apart(&self) -> bool {
        false
    }

    /// How many round trips (or commits) were made so far; `None` if there is no wire to count on.
    fn round_trips(&self) -> Option<u64>;

    /// A client with a session of its own.
    fn client(&self) -> impl Future<Output = Client> + Send {
        async { Client::new(self.engine().await) }
    }
}
