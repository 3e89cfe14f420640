//! A bad network between a client and a server, for the engines that have a wire.
//!
//! Bytes travel in chunks: what one read of a socket returns. A client that writes each request in one piece and waits
//! for its reply sends one chunk per request. A switch counts from the moment its call returns.

mod junction;
mod link;
mod stream;
mod switches;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use latchwork::clock::Clock;
use tempfile::TempDir;
use tokio::sync::oneshot;

pub use junction::Junction;

use link::Link;
use stream::{Endpoint, ProxyListener, Stream};
use switches::{Board, Entry, Switches};

/// How long a server is awaited, and how often.
const AWAITED: Duration = Duration::from_secs(1);
const GLANCE: Duration = Duration::from_millis(10);

/// A running proxy, on a thread of its own: what a test does to its own runtime does not touch it.
pub struct Proxy {
    board: Arc<Board>,
    thread: Thread,
    _folder: Option<TempDir>,
}

impl Proxy {
    /// Listens on a free port of 127.0.0.1 for the server at `address`.
    pub fn to(address: SocketAddr) -> Self {
        Self::between(Endpoint::Tcp(([127, 0, 0, 1], 0).into()), Endpoint::Tcp(address), None)
    }

    /// The same for a server that may begin to listen a moment after its clients come: who comes early waits for it.
    pub fn awaiting(address: SocketAddr) -> Self {
        let proxy = Self::to(address);
        proxy.board.change(|switches| switches.patience = AWAITED);
        proxy
    }

    /// Listens on a Unix socket of its own for the server on the Unix socket at `path`.
    pub fn to_socket(path: &Path) -> Self {
        let folder = tempfile::Builder::new().prefix("proxy").tempdir().expect("a temporary folder");
        let front = folder.path().join("proxy.sock");
        Self::between(Endpoint::Unix(front), Endpoint::Unix(path.to_owned()), Some(folder))
    }

    fn between(front: Endpoint, back: Endpoint, folder: Option<TempDir>) -> Self {
        let board = Arc::<Board>::default();
        let thread = Thread::start(front, {
            let board = board.clone();
            move |listener| accept(board, listener, back)
        });
        Self { board, thread, _folder: folder }
    }

    /// Where clients connect.
    ///
    /// # Panics
    /// If it listens on a Unix socket.
    pub fn address(&self) -> SocketAddr {
        self.thread.address()
    }

    /// The Unix socket where clients connect.
    ///
    /// # Panics
    /// If it listens on a port.
    pub fn socket(&self) -> PathBuf {
        match &self.thread.place {
            Endpoint::Tcp(address) => panic!("it listens on {address}"),
            Endpoint::Unix(path) => path.clone(),
        }
    }

    /// Holds back every chunk from client to server until so long after it came; they keep their order. Counts also for
    /// what is held back already: zero sends it on at once.
    pub fn delay(&self, span: Duration) {
        self.board.change(|switches| switches.delay = span);
    }

    /// Closes all connections now. What was on its way is lost.
    pub fn cut(&self) {
        self.board.change(Switches::cut);
    }

    /// Closes new connections at once, and those that exist when this begins.
    pub fn refuse(&self, refused: bool) {
        self.board.change(|switches| {
            switches.refusing = refused;
            if refused {
                switches.cut();
            }
        });
    }

    /// Nothing goes through in either direction, while all connections stay open and new ones can be made. What was sent
    /// meanwhile arrives when it ends, as in a network that heals.
    pub fn black_hole(&self, holding: bool) {
        self.board.change(|switches| switches.holding = holding);
    }

    /// Nothing goes through any more on the connections that there are, though they stay open; new ones are as good as
    /// ever. As when a router on the way restarts.
    pub fn forget_connections(&self) {
        self.board.change(Switches::forget);
    }

    /// Swallows each of the next `count` chunks from server to client, and closes the connection on which it came: the
    /// server acted, and the client never hears of it.
    pub fn lose_replies(&self, count: u32) {
        self.board.change(|switches| switches.replies_to_lose = count);
    }

    /// Swallows the next chunk from server to client, and closes its connection.
    pub fn lose_next_reply(&self) {
        self.lose_replies(1);
    }

    /// Lets the next chunk from client to server that contains `needle` (the name of a command, the digest of a script)
    /// through, swallows what the server sends next on that connection, and closes it. Each call counts for one request.
    /// Nothing is found inside TLS.
    pub fn lose_reply_to(&self, needle: &[u8]) {
        self.board.change(|switches| switches.needles.push(needle.to_owned()));
    }

    /// Lets the next chunk from client to server that contains `needle` through, and swallows all that the server sends
    /// on that connection from then on; it stays open until [`Proxy::cut`]. For servers that send other things before
    /// the reply: when it is cut, what the server did can have been looked at.
    pub fn silence_after(&self, needle: &[u8]) {
        self.board.change(|switches| switches.last_words.push(needle.to_owned()));
    }

    /// From now on `new` stands where a client said `old`, once in each chunk: a client that tells the server where it is
    /// found is found elsewhere.
    ///
    /// # Panics
    /// If they differ in length, which may stand in front of them.
    pub fn replace(&self, old: &str, new: &str) {
        assert_eq!(old.len(), new.len(), "{old} and {new}");
        let both = [old, new].map(|text| text.as_bytes().to_owned());
        self.board.change(|switches| switches.replaced = Some(both));
    }

    /// Drops the next chunk from client to server, and closes its connection: the server never sees it.
    pub fn cut_before_next_request(&self) {
        self.board.change(|switches| switches.request_to_lose = true);
    }

    /// How many connections clients have open.
    pub fn connections(&self) -> usize {
        self.board.switches().connections
    }

    /// How many chunks came from clients so far.
    pub fn requests(&self) -> u64 {
        self.board.switches().requests
    }

    /// How many replies were swallowed so far: whether a fault that was ordered has happened.
    pub fn lost_replies(&self) -> u64 {
        self.board.switches().lost_replies
    }

    /// Waits until no client has a connection open: after [`Proxy::cut`] or [`Proxy::refuse`], until each has noticed
    /// and has closed its end, too.
    pub async fn until_closed(&self) {
        self.board.until(|switches| switches.connections == 0).await;
    }

    /// Waits until this many replies were swallowed since the proxy began.
    pub async fn until_lost_replies(&self, count: u64) {
        self.board.until(|switches| switches.lost_replies >= count).await;
    }
}

/// Where a proxy listens, and the thread that does.
struct Thread {
    place: Endpoint,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Thread {
    /// Listens, and serves who comes until it is dropped.
    fn start<F: Future<Output = ()>>(
        front: Endpoint,
        serve: impl FnOnce(ProxyListener) -> F + Send + 'static,
    ) -> Self {
        let (stop, stopped) = oneshot::channel();
        let (ready, listens) = mpsc::channel();
        let thread = std::thread::spawn(move || run(&front, serve, &ready, stopped));
        let place = listens.recv().expect("the proxy listens");
        Self { place, stop: Some(stop), thread: Some(thread) }
    }

    fn address(&self) -> SocketAddr {
        match &self.place {
            Endpoint::Tcp(address) => *address,
            Endpoint::Unix(path) => panic!("it listens on {}", path.display()),
        }
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(ended.is_ok() || std::thread::panicking(), "the proxy panicked");
        }
    }
}

/// The proxy's thread.
fn run<F: Future<Output = ()>>(
    front: &Endpoint,
    serve: impl FnOnce(ProxyListener) -> F,
    ready: &mpsc::Sender<Endpoint>,
    stopped: oneshot::Receiver<()>,
) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let (listener, place) = ProxyListener::bind(front);
        ready.send(place).expect("somebody waits for it");
        tokio::select! {
            () = serve(listener) => {}
            _ = stopped => {}
        }
    });
}

async fn accept(board: Arc<Board>, listener: ProxyListener, back: Endpoint) {
    loop {
        let client = listener.accept().await;
        // Whether it is refused and which cuts it has not seen are one look, so that no cut falls in between.
        let Some(entry) = Board::enter(&board) else { continue };
        let back = back.clone();
        tokio::spawn(async move {
            if let Some(server) = reach(&back, &entry).await {
                Link::new(client, server, entry).run().await;
            }
        });
    }
}

/// The server, as soon as it listens; `None` if it does not in time.
async fn reach(back: &Endpoint, entry: &Entry) -> Option<Stream> {
    let (clock, patience) = (Clock::boottime(), entry.board().switches().patience);
    let end = clock.now().after(patience);
    loop {
        match back.connect().await {
            Ok(server) => return Some(server),
            Err(_) if clock.now() < end => tokio::time::sleep(GLANCE).await,
            Err(_) => return None,
        }
    }
}
