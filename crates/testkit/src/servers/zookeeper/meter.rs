//! Counts the requests of clients on the network: the server itself does not distinguish heartbeats from
//! other requests.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The types of requests that are only heartbeats: a ping, and a `sync`, which the leader answers.
const SIGNS: [[u8; 4]; 2] = [11_i32.to_be_bytes(), 9_i32.to_be_bytes()];

/// Forwards connections without TLS to a server and counts their requests, for the life of the process.
pub struct ZooKeeperMeter {
    address: SocketAddr,
    counts: Arc<PacketCounts>,
}

#[derive(Default)]
struct PacketCounts {
    sessions: AtomicU64,
    signs: AtomicU64,
    others: AtomicU64,
}

impl ZooKeeperMeter {
    /// Listens on a free port of 127.0.0.1 for the server at `server`.
    ///
    /// # Panics
    /// If there is no free port.
    pub fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let (address, counts) =
            (listener.local_addr().expect("the socket is bound"), Arc::<PacketCounts>::default());
        let counting = counts.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let counts = counting.clone();
                std::thread::spawn(move || pass_on(client, server, &counts));
            }
        });
        Self { address, counts }
    }

    /// The address for clients.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The number of session requests, for new sessions or for sessions whose connection was lost.
    pub fn sessions(&self) -> u64 {
        self.counts.sessions.load(Relaxed)
    }

    /// The number of requests that are only heartbeats.
    pub fn signs(&self) -> u64 {
        self.counts.signs.load(Relaxed)
    }

    /// The number of other requests.
    pub fn others(&self) -> u64 {
        self.counts.others.load(Relaxed)
    }
}

/// Runs until one of the two disconnects.
fn pass_on(mut client: TcpStream, server: SocketAddr, counts: &PacketCounts) -> io::Result<()> {
    let mut server = TcpStream::connect(server)?;
    [&client, &server].into_iter().try_for_each(|stream| stream.set_nodelay(true))?;
    let (mut answers, mut back) = (server.try_clone()?, client.try_clone()?);
    std::thread::spawn(move || {
        let _ = io::copy(&mut answers, &mut back);
        back.shutdown(Shutdown::Both)
    });
    let mut is_greeting = true;
    while let Ok(message) = next(&mut client) {
        let kind = message.get(8..12).unwrap_or_default();
        match std::mem::take(&mut is_greeting) {
            true => &counts.sessions,
            false if SIGNS.iter().any(|sign| sign == kind) => &counts.signs,
            false => &counts.others,
        }
        .fetch_add(1, Relaxed);
        server.write_all(&message)?;
    }
    server.shutdown(Shutdown::Both)
}

/// The next message with its length: its xid, its type, and its body.
fn next(client: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut message = vec![0; 4];
    client.read_exact(&mut message)?;
    let length = u32::from_be_bytes([message[0], message[1], message[2], message[3]]);
    client.take(u64::from(length)).read_to_end(&mut message)?;
    match message.len() == 4 + length as usize {
        true => Ok(message),
        false => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}
