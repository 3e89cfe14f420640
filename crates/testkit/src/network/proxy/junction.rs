//! A proxy that distinguishes its clients and treats each separately.

use std::net::SocketAddr;
use std::sync::Arc;

use super::link::Link;
use super::stream::{ProxyListener, Stream};
use super::switches::{Board, Entry};
use super::{Endpoint, Thread};

/// Finds the client that a connection belongs to, by the addresses of the client and of the junction. `None`
/// if it cannot be determined; then the connection is closed.
type Recognise = dyn Fn([SocketAddr; 2]) -> Option<usize> + Send + Sync;

/// A proxy in front of one server that several other servers connect to, each on a lane of its own.
pub struct Junction {
    lanes: Vec<Arc<Board>>,
    thread: Thread,
}

impl Junction {
    /// Listens on a free port of 127.0.0.1 for the server at `address`. `recognise` returns the lane of a
    /// connection, below `lanes`, by the addresses of its client and of the junction. It may block.
    pub fn to(
        address: SocketAddr,
        lanes: usize,
        recognise: impl Fn([SocketAddr; 2]) -> Option<usize> + Send + Sync + 'static,
    ) -> Self {
        let lanes: Vec<_> = (0..lanes).map(|_| Arc::<Board>::default()).collect();
        let sorted = Arc::new(Sorted {
            back: Endpoint::Tcp(address),
            lanes: lanes.clone(),
            recognise: Box::new(recognise),
        });
        let front = Endpoint::Tcp(([127, 0, 0, 1], 0).into());
        let thread = Thread::start(front, move |listener| accept(sorted, listener));
        Self { lanes, thread }
    }

    /// The address for clients.
    pub fn address(&self) -> SocketAddr {
        self.thread.address()
    }

    /// As [`super::Proxy::black_hole`], for one lane.
    pub fn black_hole(&self, lane: usize, holding: bool) {
        self.lanes[lane].change(|switches| switches.holding = holding);
    }
}

struct Sorted {
    back: Endpoint,
    lanes: Vec<Arc<Board>>,
    recognise: Box<Recognise>,
}

impl Sorted {
    fn enter(&self, client: &Stream) -> Option<Entry> {
        let lane = (self.recognise)(client.ends()?)?;
        Board::enter(&self.lanes[lane])
    }

    /// Clients of a server that is down reconnect again and again: they are not recognised before the server
    /// has answered.
    async fn pass(self: Arc<Self>, client: Stream) {
        let Ok(server) = self.back.connect().await else { return };
        // On another thread, so that the traffic of other connections is not delayed.
        let recognised = tokio::task::spawn_blocking(move || Some((self.enter(&client)?, client)));
        if let Some((entry, client)) = recognised.await.expect("the proxy does not panic") {
            Link::new(client, server, entry).run().await;
        }
    }
}

async fn accept(sorted: Arc<Sorted>, listener: ProxyListener) {
    loop {
        let client = listener.accept().await;
        tokio::spawn(sorted.clone().pass(client));
    }
}
