//! A bad network between a client and a server, for engines that use one.
//!
//! Bytes travel in chunks: the result of one read of a socket. A client that writes each request in one piece
//! and waits for its reply sends one chunk per request. A switch takes effect before its call returns.

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

/// How long, and how often, the proxy retries to connect to a server.
const AWAITED: Duration = Duration::from_secs(1);
const GLANCE: Duration = Duration::from_millis(10);

/// A running proxy, on a thread of its own: a test that blocks its own runtime does not affect it.
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

    /// Listens for a server that may start to listen a moment after its clients connect: early clients wait
    /// for it.
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

    /// The address for clients.
    ///
    /// # Panics
    /// If it listens on a Unix socket.
    pub fn address(&self) -> SocketAddr {
        self.thread.address()
    }

    /// The Unix socket for clients.
    ///
    /// # Panics
    /// If it listens on a port.
    pub fn socket(&self) -> PathBuf {
        match &self.thread.place {
            Endpoint::Tcp(address) => panic!("it listens on {address}"),
            Endpoint::Unix(path) => path.clone(),
        }
    }

    /// Delays every chunk from client to server by this much after its arrival; their order is kept. The
    /// delay also applies to chunks that are held back already: zero sends them at once.
    pub fn delay(&self, span: Duration) {
        self.board.change(|switches| switches.delay = span);
    }

    /// Closes all connections now. Bytes in transit are lost.
    pub fn cut(&self) {
        self.board.change(Switches::cut);
    }

    /// Closes the existing connections, and new connections at once.
    pub fn refuse(&self, refused: bool) {
        self.board.change(|switches| {
            switches.refusing = refused;
            if refused {
                switches.cut();
            }
        });
    }

    /// Forwards nothing in either direction, while all connections stay open and new ones can be made. Bytes
    /// sent meanwhile arrive when it ends, as in a network that heals.
    pub fn black_hole(&self, holding: bool) {
        self.board.change(|switches| switches.holding = holding);
    }

    /// Forwards nothing any more on the existing connections, though they stay open; new ones work. This is
    /// the effect of a router that restarts.
    pub fn forget_connections(&self) {
        self.board.change(Switches::forget);
    }

    /// Drops each of the next `count` chunks from server to client, and closes the connection on which it
    /// arrived: the server acted, and the client gets no reply.
    pub fn lose_replies(&self, count: u32) {
        self.board.change(|switches| switches.replies_to_lose = count);
    }

    /// Drops the next chunk from server to client, and closes its connection.
    pub fn lose_next_reply(&self) {
        self.lose_replies(1);
    }

    /// Forwards the next chunk from client to server that contains `needle` (the name of a command, the
    /// digest of a script), drops the server's next chunk on that connection, and closes it. Each call
    /// applies to one request. Nothing is found inside TLS.
    pub fn lose_reply_to(&self, needle: &[u8]) {
        self.board.change(|switches| switches.needles.push(needle.to_owned()));
    }

    /// Forwards the next chunk from client to server that contains `needle`, and drops everything that the
    /// server sends on that connection from then on. The connection stays open until [`Proxy::cut`]. This is
    /// for servers that send other messages before the reply: a test can check the server's state before it
    /// cuts the connection.
    pub fn silence_after(&self, needle: &[u8]) {
        self.board.change(|switches| switches.last_words.push(needle.to_owned()));
    }

    /// Replaces `old` by `new` in each chunk from a client, once per chunk: a client that tells the server
    /// its own address becomes reachable elsewhere.
    ///
    /// # Panics
    /// If they differ in length, because a length may precede them.
    pub fn replace(&self, old: &str, new: &str) {
        assert_eq!(old.len(), new.len(), "{old} and {new}");
        let both = [old, new].map(|text| text.as_bytes().to_owned());
        self.board.change(|switches| switches.replaced = Some(both));
    }

    /// Drops the next chunk from client to server, and closes its connection: the server never sees the
    /// request.
    pub fn cut_before_next_request(&self) {
        self.board.change(|switches| switches.request_to_lose = true);
    }

    /// The number of open client connections.
    pub fn connections(&self) -> usize {
        self.board.switches().connections
    }

    /// The number of chunks from clients so far.
    pub fn requests(&self) -> u64 {
        self.board.switches().requests
    }

    /// The number of dropped replies so far: whether an ordered fault has happened.
    pub fn lost_replies(&self) -> u64 {
        self.board.switches().lost_replies
    }

    /// Waits until no client connection is open. After [`Proxy::cut`] or [`Proxy::refuse`], that is when each
    /// client has noticed and has closed its end, too.
    pub async fn until_closed(&self) {
        self.board.until(|switches| switches.connections == 0).await;
    }

    /// Waits until this many replies have been dropped since the proxy started.
    pub async fn until_lost_replies(&self, count: u64) {
        self.board.until(|switches| switches.lost_replies >= count).await;
    }
}

/// The proxy's address and thread.
struct Thread {
    place: Endpoint,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Thread {
    /// Listens, and serves connections until it is dropped.
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

/// The main function of the proxy's thread.
fn run<F: Future<Output = ()>>(
    front: &Endpoint,
    serve: impl FnOnce(ProxyListener) -> F,
    ready: &mpsc::Sender<Endpoint>,
    stopped: oneshot::Receiver<()>,
) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let (listener, place) = ProxyListener::bind(front);
        ready.send(place).expect("the caller waits for the address");
        tokio::select! {
            () = serve(listener) => {}
            _ = stopped => {}
        }
    });
}

async fn accept(board: Arc<Board>, listener: ProxyListener, back: Endpoint) {
    loop {
        let client = listener.accept().await;
        // Whether the connection is refused, and which cuts it has not seen, is read in one step, so that no
        // cut falls in between.
        let Some(entry) = Board::enter(&board) else { continue };
        let back = back.clone();
        tokio::spawn(async move {
            if let Some(server) = reach(&back, &entry).await {
                Link::new(client, server, entry).run().await;
            }
        });
    }
}

/// Connects to the server as soon as it listens; `None` if it does not in time.
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
