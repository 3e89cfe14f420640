//! Messages that one session writes to the FIFO of another.

use std::io;

use tokio::net::unix::pipe::Receiver;

use crate::engine::ClaimId;

/// A message for a waiting claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FifoMessage {
    pub(super) id: ClaimId,
    /// The token of the grant. Zero: no grant, claim again.
    pub(super) token: u64,
    /// The end of the lease, as stored in the database.
    pub(super) until: i64,
}

impl FifoMessage {
    /// At most `PIPE_BUF` bytes, so that a write is atomic.
    const BYTES: usize = 32;

    /// Asks for a new `claim`: the session that this claim watched ended.
    pub(super) fn recheck(id: ClaimId) -> Self {
        Self { id, token: 0, until: 0 }
    }

    pub(super) fn is_grant(&self) -> bool {
        self.token != 0
    }

    pub(super) fn encode(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..16].copy_from_slice(self.id.as_bytes());
        bytes[16..24].copy_from_slice(&self.token.to_ne_bytes());
        bytes[24..].copy_from_slice(&self.until.to_ne_bytes());
        bytes
    }

    fn decode(bytes: &[u8; Self::BYTES]) -> Self {
        let number = |at: usize| u64::from_ne_bytes(std::array::from_fn(|byte| bytes[at + byte]));
        let id = ClaimId::from_bytes(std::array::from_fn(|byte| bytes[byte]));
        Self { id, token: number(16), until: number(24) as i64 }
    }

    /// Reads the next messages, at least one.
    pub(super) async fn read_from(fifo: &Receiver) -> io::Result<Vec<Self>> {
        let mut bytes = [0; 128 * Self::BYTES];
        loop {
            fifo.readable().await?;
            match fifo.try_read(&mut bytes) {
                Ok(length) => return Ok(bytes[..length].as_chunks().0.iter().map(Self::decode).collect()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
    }
}
