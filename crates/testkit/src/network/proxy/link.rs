//! One connection through the proxy.

use std::io::ErrorKind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use latchwork::clock::{Clock, Moment};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::stream::Stream;
use super::switches::{Entry, Switches};

/// The most that is read at once; requests are far smaller.
const CHUNK: usize = 64 * 1024;
/// How long a client may take to close its end of a connection that was cut.
const LINGER: Duration = Duration::from_secs(5);

/// A client's connection, and the one to the server that belongs to it.
pub(super) struct Link {
    client: Stream,
    server: Stream,
    entry: Entry,
    /// Whether the next reply is dropped, as its request matched.
    doomed: AtomicBool,
    /// Whether everything that the server sends is dropped, as a request matched.
    silent: AtomicBool,
}

/// The direction of a chunk.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Request,
    Reply,
}

/// Bytes in transit. An empty chunk is the end of the stream.
struct Chunk {
    bytes: Vec<u8>,
    arrived: Moment,
    /// How much of the chunk was written; `None` until the switches have decided whether the chunk is
    /// dropped.
    sent: Option<usize>,
}

/// The condition that a chunk waits for.
enum Wait {
    Nothing,
    Change,
    ChangeOr(Duration),
    Room,
}

/// The connection was cut.
struct Cut;

impl Link {
    pub(super) fn new(client: Stream, server: Stream, entry: Entry) -> Self {
        Self { client, server, entry, doomed: AtomicBool::new(false), silent: AtomicBool::new(false) }
    }

    /// Forwards what both sides send, until both have ended or the connection is cut.
    pub(super) async fn run(self) {
        let passed = tokio::select! {
            biased;
            () = self.entry.board().until(|switches| self.entry.is_cut(switches)) => Err(Cut),
            passed = async { tokio::try_join!(self.pass(Direction::Request), self.pass(Direction::Reply)) } => passed.map(drop),
        };
        if let Err(Cut) = passed {
            self.close().await;
        }
    }

    /// Closes both ends, and reads the remaining bytes: a socket that is closed with unread bytes resets its
    /// connection, and the server might not see the last request that was forwarded.
    async fn close(self) {
        let Self { client, server, entry, .. } = self;
        client.finish();
        server.finish();
        let noticed = async {
            let _ = tokio::time::timeout(LINGER, read_to_end(&client)).await;
            drop((client, entry));
        };
        tokio::join!(noticed, read_to_end(&server));
    }

    async fn pass(&self, direction: Direction) -> Result<(), Cut> {
        let (sender, receiver) = unbounded_channel();
        let read = async {
            self.read(direction, &sender).await;
            drop(sender);
            Ok(())
        };
        tokio::try_join!(read, self.write(direction, receiver)).map(drop)
    }

    /// Reads until the end, without waiting for earlier chunks to be written.
    async fn read(&self, direction: Direction, chunks: &UnboundedSender<Chunk>) {
        let source = if direction == Direction::Request { &self.client } else { &self.server };
        let mut buffer = vec![0; CHUNK];
        loop {
            let length = read(source, &mut buffer).await;
            let mut bytes = buffer[..length].to_vec();
            if direction == Direction::Request && length > 0 {
                self.entry.board().change(|switches| switches.take_in(&mut bytes));
            }
            let _ = chunks.send(Chunk { bytes, arrived: Clock::boottime().now(), sent: None });
            if length == 0 {
                return;
            }
        }
    }

    async fn write(&self, direction: Direction, mut chunks: UnboundedReceiver<Chunk>) -> Result<(), Cut> {
        let target = if direction == Direction::Request { &self.server } else { &self.client };
        while let Some(mut chunk) = chunks.recv().await {
            // Subscribes before it looks, or a change in between would be missed.
            let mut news = self.entry.board().news();
            loop {
                match self.offer(direction, target, &mut chunk)? {
                    Wait::Nothing => break,
                    Wait::Change => drop(news.changed().await),
                    Wait::ChangeOr(span) => drop(tokio::time::timeout(span, news.changed()).await),
                    Wait::Room => tokio::select! {
                        _ = target.writable() => {}
                        _ = news.changed() => {}
                    },
                }
            }
        }
        Ok(())
    }

    /// Writes as much as the switches allow now.
    fn offer(&self, direction: Direction, target: &Stream, chunk: &mut Chunk) -> Result<Wait, Cut> {
        let mut switches = self.entry.board().switches();
        if self.entry.is_cut(&switches) {
            return Err(Cut);
        }
        if switches.holding || self.entry.is_forgotten(&switches) {
            return Ok(Wait::Change);
        }
        let due = chunk.arrived.after(switches.delay).since(Clock::boottime().now());
        if direction == Direction::Request && !due.is_zero() {
            return Ok(Wait::ChangeOr(due));
        }
        if chunk.bytes.is_empty() {
            target.finish();
            return Ok(Wait::Nothing);
        }
        if direction == Direction::Reply && self.silent.load(Ordering::Relaxed) {
            drop(switches);
            self.entry.board().change(|switches| switches.lost_replies += 1);
            return Ok(Wait::Nothing);
        }
        let sent = match chunk.sent {
            Some(sent) => sent,
            None if self.loses(direction, &chunk.bytes, &mut switches) => return Err(Cut),
            None => 0,
        };
        let sent = match target.try_write(&chunk.bytes[sent..]) {
            Ok(length) => sent + length,
            Err(error) if error.kind() == ErrorKind::WouldBlock => sent,
            Err(_) => return Err(Cut),
        };
        chunk.sent = Some(sent);
        Ok(if sent == chunk.bytes.len() { Wait::Nothing } else { Wait::Room })
    }

    /// Whether a chunk that is not held back is dropped.
    fn loses(&self, direction: Direction, bytes: &[u8], switches: &mut Switches) -> bool {
        match direction {
            Direction::Request if switches.loses_request() => true,
            Direction::Request => {
                self.doomed.fetch_or(switches.loses_reply_to(bytes), Ordering::Relaxed);
                self.silent.fetch_or(switches.falls_silent_after(bytes), Ordering::Relaxed);
                false
            }
            Direction::Reply => switches.loses_reply(self.doomed.load(Ordering::Relaxed)),
        }
    }
}

/// The next bytes; zero at the end of the stream, or if the connection broke.
async fn read(source: &Stream, buffer: &mut [u8]) -> usize {
    loop {
        if source.readable().await.is_err() {
            return 0;
        }
        match source.try_read(buffer) {
            Ok(length) => return length,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(_) => return 0,
        }
    }
}

async fn read_to_end(source: &Stream) {
    let mut buffer = vec![0; CHUNK];
    while read(source, &mut buffer).await > 0 {}
}
