//! An engine under test.

use std::future::Future;
use std::time::Duration;

use latchwork::engine::Engine;
use latchwork::{Client, Guarantees};

use crate::network::proxy::Proxy;

/// One way to reach and use an engine. A value rather than a type, because every case is compiled once per
/// engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// The name in test output.
    pub name: &'static str,
    /// The URL scheme that leads to it.
    pub scheme: &'static str,
    /// Whether every case runs on it. Otherwise only the cases run that may depend on how the engine is
    /// reached.
    pub is_thorough: bool,
}

/// A running engine: its server or file, and the faults that can be injected into it.
pub trait Fixture: Send + Sync + Sized + 'static {
    /// The engine.
    type Engine: Engine;

    /// The ways to reach and use the engine.
    const KINDS: &'static [Kind];

    /// A short lease, for cases that let it run out. The work of a case under such a lease finishes in time
    /// even on a machine that stalls for half a second.
    const SHORT: Duration = Duration::from_secs(1);

    /// A lease for cases that renew it. It survives a machine that stalls for half a second.
    const STEADY: Duration = Duration::from_secs(3);

    /// Whether the server keeps no wall-clock time, and so cannot tell since when a lock is held.
    const HAS_NO_WALL_CLOCK: bool = false;

    /// How much longer than promised the server may keep a lease that is not renewed, because its clock is
    /// coarse.
    const ENDS_LATE: Duration = Duration::ZERO;

    /// Whether simultaneous claims can split the votes, so that no client gets the lock.
    const SPLITS_VOTES: bool = false;

    /// Whether locks can only be inspected by name.
    const CANNOT_LIST: bool = false;

    /// Whether a claim is nothing but a connection: it ends at once when the connection ends, and the server
    /// keeps no trace of it.
    const IS_A_CONNECTION: bool = false;

    /// Whether the server knows only the holder's connection, not the note that describes the holder.
    const KNOWS_NO_NOTES: bool = false;

    /// Whether a leader's value is stored with its claim instead of in a cell.
    const HAS_LEADERS: bool = false;

    /// Whether other programs can hold the engine's locks, as [`Fixture::plant`] does.
    const HAS_FOREIGN_HOLDERS: bool = false;

    /// Whether foreign holders look different from those of every other fixture of this engine. Then the
    /// cases about foreign holders run on each way to reach it.
    const HAS_FOREIGN_HOLDERS_OF_ITS_OWN: bool = false;

    /// The ttl of waiters that are killed. It is shorter where a dead waiter blocks others for as long as a
    /// dead holder would.
    const WAITERS_TTL: Duration = Duration::from_secs(30);

    /// Starts the fixture as one of [`Fixture::KINDS`], with no locks held.
    fn begin_as(kind: &'static Kind) -> impl Future<Output = Self> + Send;

    /// Starts the fixture as the first of [`Fixture::KINDS`].
    fn begin() -> impl Future<Output = Self> + Send {
        Self::begin_as(&Self::KINDS[0])
    }

    /// The kind of this fixture.
    fn kind(&self) -> &'static Kind;

    /// The engine's guarantees.
    fn guarantees() -> Guarantees;

    /// A new session.
    fn engine(&self) -> impl Future<Output = Self::Engine> + Send;

    /// The URL for other processes; `None` if the engine cannot be shared between processes.
    fn url(&self) -> Option<String>;

    /// Delays every request by about this long from now on; zero ends the delay.
    fn hinder(&self, delay: Duration);

    /// Makes requests fail until [`Fixture::mend`] is called.
    fn breaks(&self) -> impl Future<Output = ()> + Send;

    /// Ends [`Fixture::breaks`].
    fn mend(&self) -> impl Future<Output = ()> + Send;

    /// Makes writes of cells fail until [`Fixture::mend_cells`] is called, even while the cells are read all
    /// the time.
    fn breaks_cells(&self) -> impl Future<Output = ()> + Send {
        self.breaks()
    }

    /// Ends [`Fixture::breaks_cells`].
    fn mend_cells(&self) -> impl Future<Output = ()> + Send {
        self.mend()
    }

    /// The proxies between the server and the test's clients, where requests can be observed in transit.
    fn proxies(&self) -> &[Proxy] {
        &[]
    }

    /// Makes another program hold this lock, which a client has used before. The hold lasts for a minute, or
    /// until the returned value is dropped.
    fn plant(&self, _lock: &str) -> impl Future<Output = Box<dyn Send>> + Send {
        async { panic!("no other program can hold a lock here") }
    }

    /// The planted holder as the server stores it, byte for byte; empty if it is gone.
    fn planted(&self, _lock: &str) -> impl Future<Output = String> + Send {
        async { panic!("no other program can hold a lock here") }
    }

    /// Destroys everything that the server has stored.
    fn destroy(&self) -> impl Future<Output = ()> + Send;

    /// Whether the fixture's clients get tokens without asking for them.
    fn has_tokens(&self) -> bool {
        Self::guarantees().tokens.is_some()
    }

    /// Whether a token costs another request.
    fn draws_tokens_apart(&self) -> bool {
        false
    }

    /// The number of round trips (or commits) so far; `None` if there is no network on which to count them.
    fn round_trips(&self) -> Option<u64>;

    /// A client with a session of its own.
    fn client(&self) -> impl Future<Output = Client> + Send {
        async { Client::new(self.engine().await) }
    }
}
