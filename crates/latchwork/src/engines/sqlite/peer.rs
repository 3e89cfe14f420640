//! The session of another client.

use std::fs::File;
use std::future::{Future, poll_fn};
use std::io::{self, Write};
use std::path::Path;
use std::task::Poll;

use nix::errno::Errno;
use tokio::io::Interest;
use tokio::net::unix::pipe::Sender;

use super::message::FifoMessage;
use super::session::{fifo_path, open_fifo};

/// A session that is alive: its FIFO, open for writing. It can be sent messages, and its death is seen.
pub(super) struct Peer(File);

/// The messages of a transaction, sent after its commit.
pub(super) type Outbox = Vec<(Peer, FifoMessage)>;

impl Peer {
    /// `None` if the session is dead. Another failure to open its FIFO (no descriptor left, not permitted)
    /// says nothing about the session, and is an error.
    pub(super) fn open(folder: &Path, session: u64) -> io::Result<Option<Self>> {
        match open_fifo(&fifo_path(folder, session), false, true) {
            Ok(file) => Ok(Some(Self(file))),
            // ENXIO: no process has the read end open. ENOENT: the session ended and removed its FIFO.
            Err(error)
                if [Some(Errno::ENXIO as i32), Some(Errno::ENOENT as i32)]
                    .contains(&error.raw_os_error()) =>
            {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Wakes the owner of the session. A full FIFO means that the owner is stopped; the owner claims again by
    /// itself some time after it continues.
    fn send(&self, message: FifoMessage) {
        let _ = (&self.0).write(&message.encode());
    }

    /// Resolves when the owner of the session is dead.
    async fn died(self) -> io::Result<()> {
        // The kernel reports an error on a write end whose last reader is gone.
        Sender::from_file(self.0)?.ready(Interest::ERROR).await.map(drop)
    }
}

/// Sends the messages of a transaction that is committed.
pub(super) fn send_all(outbox: Outbox) {
    outbox.into_iter().for_each(|(peer, message)| peer.send(message));
}

/// Resolves when the owner of one of these sessions is dead.
pub(super) async fn any_died(peers: Vec<Peer>) -> io::Result<()> {
    let mut deaths: Vec<_> = peers.into_iter().map(|peer| Box::pin(peer.died())).collect();
    poll_fn(|cx| {
        let dead = deaths.iter_mut().map(|death| death.as_mut().poll(cx)).find(Poll::is_ready);
        dead.unwrap_or(Poll::Pending)
    })
    .await
}
