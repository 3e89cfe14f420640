//! A proxy that tells its clients apart, and treats each in its own way.

use std::net::SocketAddr;
use std::sync::Arc;

use super::stream::Stream;
use super::switches::{Board, Entry};
use super::{Place, Thread};

/// Who a connection comes from, by its address; `None` if that cannot be found out, and it is closed.
type Recognise = Box<dyn Fn(SocketAddr) -> Option<usize> + Send>;

/// In front of one server that several others talk to, each on a lane of its own.
pub struct Junction {
    lanes: Vec<Arc<Board>>,
    thread: Thread,
}

impl Junction {
    /// Listens on a free port of 127.0.0.1 for the server at `address`. `recognise` says on which of the `lanes` a
    /// connection from this address is; it may take its time, as long as others can wait.
    pub fn to(
        address: SocketAddr,
        lanes: usize,
        recognise: impl Fn(SocketAddr) -> Option<usize> + Send + 'static,
    ) -> Self {
        let lanes: Vec<_> = (0..lanes).map(|_| Arc::<Board>::default()).collect();
        let sorted = Sorted { lanes: lanes.clone(), recognise: Box::new(recognise) };
        let front = Place::Tcp(([127, 0, 0, 1], 0).into());
        let thread = Thread::start(front, Place::Tcp(address), move |client| sorted.enter(client));
        Self { lanes, thread }
    }

    /// Where clients connect.
    pub fn address(&self) -> SocketAddr {
        self.thread.address()
    }

    /// As [`super::Proxy::refuse`], for one lane.
    pub fn refuse(&self, lane: usize, refused: bool) {
        self.lanes[lane].change(|switches| switches.refuse(refused));
    }

    /// How many connections are open on one lane.
    pub fn connections(&self, lane: usize) -> usize {
        self.lanes[lane].switches().connections
    }
}

struct Sorted {
    lanes: Vec<Arc<Board>>,
    recognise: Recognise,
}

impl Sorted {
    fn enter(&self, client: &Stream) -> Option<Entry> {
        let lane = (self.recognise)(client.peer()?)?;
        Board::enter(&self.lanes[lane])
    }
}
