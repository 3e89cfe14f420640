//! A session: one FIFO per client that is doorbell, sign of life and death notice in one.
//!
//! The owner keeps its read end open. Whoever can open the write end knows that the owner lives; whoever keeps it open
//! is told by the kernel, at once, when the owner dies; and what is written to it wakes the owner. One object for all
//! three, so there is no order of closing to get wrong, and it works across pid namespaces.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::stat::Mode as FileMode;
use tokio::io::Interest;
use tokio::net::unix::pipe::{Receiver, Sender};

use crate::clock;
use crate::engine::ClaimId;

/// How many leftovers of dead sessions one start clears away at most.
const SWEEP: usize = 256;
/// The ending of a FIFO that its owner has not opened yet.
const UNBORN: &str = "new";
/// How long that may last before it counts as a leftover.
const BIRTH_SECONDS: i64 = 60;

/// This client's own session. Dropping it is its death, as far as others can see.
pub(super) struct Session {
    id: u64,
    fifo: File,
    path: PathBuf,
}

impl Session {
    /// Begins a session in `folder`; `mode` says who may ring.
    pub(super) fn begin(folder: &Path, mode: u32) -> io::Result<Self> {
        sweep(folder)?;
        let id = u64::from_ne_bytes(clock::random_bytes());
        let (path, unborn) = (fifo_path(folder, id), folder.join(format!("{id:016x}.{UNBORN}")));
        nix::unistd::mkfifo(&unborn, FileMode::from_bits_truncate(mode))?;
        fs::set_permissions(&unborn, fs::Permissions::from_mode(mode))?; // the umask has no say
        // Read and write: the owner never sees an end of file when the last ringer goes.
        let fifo = open_fifo(&unborn, true, true)?;
        // Renamed only now, so that no FIFO under its final name was ever without its owner.
        fs::rename(&unborn, &path)?;
        Ok(Self { id, fifo, path })
    }

    pub(super) fn id(&self) -> u64 {
        self.id
    }

    /// Another descriptor of the FIFO: the session lives as long as any of them is open.
    pub(super) fn descriptor(&self) -> io::Result<OwnedFd> {
        self.fifo.as_fd().try_clone_to_owned()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Another session that is alive, held open: it can be rung, and its death is seen.
pub(super) struct Peer(File);

impl Peer {
    /// `None` if the session is dead.
    pub(super) fn open(folder: &Path, session: u64) -> Option<Self> {
        // ENXIO: nobody has the read end. ENOENT: it ended and cleaned up.
        open_fifo(&fifo_path(folder, session), false, true).ok().map(Self)
    }

    /// Wakes the session's owner. A full FIFO belongs to a stopped process, which looks again when it continues.
    pub(super) fn ring(&self, news: News) {
        let _ = (&self.0).write(&news.encode());
    }

    /// Resolves when the session's owner is dead.
    pub(super) async fn died(self) -> io::Result<()> {
        // The kernel reports an error on a write end whose last reader is gone.
        Sender::from_file(self.0)?.ready(Interest::ERROR).await.map(drop)
    }
}

/// What a ring says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct News {
    pub(super) id: ClaimId,
    pub(super) token: u64,
    /// When the lease ends, as the database has it.
    pub(super) until: i64,
}

impl News {
    /// At most `PIPE_BUF` bytes, so a write is whole or not at all.
    pub(super) const BYTES: usize = 32;

    /// "Look again": the claim you watched is gone.
    pub(super) fn recheck(id: ClaimId) -> Self {
        Self { id, token: 0, until: 0 }
    }

    pub(super) fn is_grant(&self) -> bool {
        self.token != 0
    }

    fn encode(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..16].copy_from_slice(self.id.as_bytes());
        bytes[16..24].copy_from_slice(&self.token.to_ne_bytes());
        bytes[24..].copy_from_slice(&self.until.to_ne_bytes());
        bytes
    }

    pub(super) fn decode(bytes: &[u8; Self::BYTES]) -> Self {
        let number = |at: usize| u64::from_ne_bytes(std::array::from_fn(|byte| bytes[at + byte]));
        let id = ClaimId::from_bytes(std::array::from_fn(|byte| bytes[byte]));
        Self { id, token: number(16), until: number(24) as i64 }
    }
}

/// The next news to arrive, at least one.
pub(super) async fn read_news(fifo: &Receiver) -> io::Result<Vec<News>> {
    let mut bytes = [0; 128 * News::BYTES];
    loop {
        fifo.readable().await?;
        match fifo.try_read(&mut bytes) {
            Ok(length) => return Ok(bytes[..length].as_chunks().0.iter().map(News::decode).collect()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
}

fn fifo_path(folder: &Path, session: u64) -> PathBuf {
    folder.join(format!("{session:016x}.fifo"))
}

fn open_fifo(path: &Path, read: bool, write: bool) -> io::Result<File> {
    let flags = OFlag::O_NONBLOCK | OFlag::O_CLOEXEC | OFlag::O_NOFOLLOW;
    OpenOptions::new().read(read).write(write).custom_flags(flags.bits()).open(path)
}

/// Clears away what dead sessions left behind. Ids are random and never used again, so a dead name stays dead.
fn sweep(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)?.take(SWEEP) {
        let path = entry?.path();
        let nobody_reads = matches!(open_fifo(&path, false, true), Err(error) if error.raw_os_error() == Some(Errno::ENXIO as i32));
        if nobody_reads && !is_being_born(&path) {
            let _ = fs::remove_file(&path);
        }
    }
    Ok(())
}

/// Whether its owner may still be about to open it.
fn is_being_born(path: &Path) -> bool {
    let made = fs::symlink_metadata(path).map_or(0, |found| found.mtime());
    let now = Duration::from_micros(clock::wall_micros()).as_secs() as i64;
    path.extension().is_some_and(|kind| kind == UNBORN) && (now - made).abs() < BIRTH_SECONDS
}
