//! A session: one FIFO per client that is doorbell, sign of life and death notice in one.
//!
//! The owner keeps its read end open. Whoever can open the write end knows that the owner lives; whoever keeps it open
//! is told by the kernel, at once, when the owner dies; and what is written to it wakes the owner. One object for all
//! three, so there is no order of closing to get wrong, and it works across pid namespaces.

use std::fs::{self, File, OpenOptions};
use std::future::{Future, poll_fn};
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::task::Poll;
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag};
use nix::sys::stat::{Mode as FileMode, fstatat};
use tokio::io::Interest;
use tokio::net::unix::pipe::{Receiver, Sender};

use crate::clock;
use crate::engine::ClaimId;
use crate::poison::lock_ignoring_poison;

/// The ending of a FIFO that its owner has not opened yet.
const UNBORN: &str = "new";
/// How long that may last before it counts as a leftover.
const BIRTH_SECONDS: i64 = 60;

/// This client's own session. Dropping it is its death, as far as others can see.
pub(super) struct Session {
    id: u64,
    /// The process it belongs to.
    pid: u32,
    mode: u32,
    folder: PathBuf,
    file_name: String,
    fifo: Mutex<Fifo>,
}

struct Fifo {
    file: File,
    /// Device and inode, to notice that somebody removed it.
    identity: (u64, u64),
}

impl Session {
    /// Begins a session in `folder`; `mode` says who may ring.
    pub(super) fn begin(folder: &Path, mode: u32) -> io::Result<Self> {
        sweep(folder)?;
        let id = u64::from_ne_bytes(clock::random_bytes());
        let fifo = Mutex::new(give_birth(folder, id, mode)?);
        let pid = forkmark::process_id();
        Ok(Self { id, pid, mode, folder: folder.to_owned(), file_name: file_name(id), fifo })
    }

    pub(super) fn id(&self) -> u64 {
        self.id
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Another descriptor of the FIFO: the session lives as long as any of them is open.
    pub(super) fn descriptor(&self) -> io::Result<OwnedFd> {
        lock_ignoring_poison(&self.fifo).file.as_fd().try_clone_to_owned()
    }

    /// Makes the FIFO anew if somebody removed it (a cleaner of temporary files, say): without it this session looks
    /// dead, and whatever it is granted could be taken at once. True if it had to.
    pub(super) fn revive(&self, folder: &File) -> io::Result<bool> {
        let mut fifo = lock_ignoring_poison(&self.fifo);
        let found = fstatat(folder, self.file_name.as_str(), AtFlags::AT_SYMLINK_NOFOLLOW);
        if found.is_ok_and(|found| (found.st_dev, found.st_ino) == fifo.identity) {
            return Ok(false);
        }
        *fifo = give_birth(&self.folder, self.id, self.mode)?;
        Ok(true)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // A fork that goes does not end its parent's session.
        if self.pid == forkmark::process_id() {
            let _ = fs::remove_file(fifo_path(&self.folder, self.id));
        }
    }
}

/// Makes a FIFO with its owner already at it.
fn give_birth(folder: &Path, id: u64, mode: u32) -> io::Result<Fifo> {
    let (path, unborn) = (fifo_path(folder, id), folder.join(format!("{id:016x}.{UNBORN}")));
    let _ = fs::remove_file(&unborn); // from an attempt of ours that failed half-way
    nix::unistd::mkfifo(&unborn, FileMode::from_bits_truncate(mode))?;
    fs::set_permissions(&unborn, fs::Permissions::from_mode(mode))?; // the umask has no say
    share_with_the_owner_of(folder, &unborn)?;
    // Read and write: the owner never sees an end of file when the last ringer goes.
    let file = open_fifo(&unborn, true, true)?;
    let made = file.metadata()?;
    // Renamed only now, so that no FIFO under its final name was ever without its owner.
    fs::rename(&unborn, &path)?;
    Ok(Fifo { file, identity: (made.dev(), made.ino()) })
}

/// Another session that is alive, held open: it can be rung, and its death is seen.
pub(super) struct Peer(File);

impl Peer {
    /// `None` if the session is dead. That it cannot be opened for another reason (no descriptor left, not permitted)
    /// says nothing of its life, and is an error.
    pub(super) fn open(folder: &Path, session: u64) -> io::Result<Option<Self>> {
        match open_fifo(&fifo_path(folder, session), false, true) {
            Ok(file) => Ok(Some(Self(file))),
            // ENXIO: nobody has the read end. ENOENT: it ended and cleaned up.
            Err(error)
                if [Some(Errno::ENXIO as i32), Some(Errno::ENOENT as i32)]
                    .contains(&error.raw_os_error()) =>
            {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Wakes the session's owner. If the FIFO is full, its owner is stopped; it asks again by itself some time after it
    /// continues.
    pub(super) fn ring(&self, news: News) {
        let _ = (&self.0).write(&news.encode());
    }

    /// Resolves when the session's owner is dead.
    async fn died(self) -> io::Result<()> {
        // The kernel reports an error on a write end whose last reader is gone.
        Sender::from_file(self.0)?.ready(Interest::ERROR).await.map(drop)
    }
}

/// Resolves when the owner of one of these sessions is dead.
pub(super) async fn one_died(peers: Vec<Peer>) -> io::Result<()> {
    let mut deaths: Vec<_> = peers.into_iter().map(|peer| Box::pin(peer.died())).collect();
    poll_fn(|cx| {
        let dead = deaths.iter_mut().map(|death| death.as_mut().poll(cx)).find(Poll::is_ready);
        dead.unwrap_or(Poll::Pending)
    })
    .await
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
    folder.join(file_name(session))
}

fn file_name(session: u64) -> String {
    format!("{session:016x}.fifo")
}

fn open_fifo(path: &Path, read: bool, write: bool) -> io::Result<File> {
    let flags = OFlag::O_NONBLOCK | OFlag::O_CLOEXEC | OFlag::O_NOFOLLOW;
    OpenOptions::new().read(read).write(write).custom_flags(flags.bits()).open(path)
}

/// In a folder of another user (root may use it), what we make belongs to that user, who could not ring us otherwise.
pub(super) fn share_with_the_owner_of(folder: &Path, made: &Path) -> io::Result<()> {
    let (owner, me) = (fs::metadata(folder)?, nix::unistd::geteuid());
    if me.is_root() && (owner.uid(), owner.gid()) != (0, 0) {
        std::os::unix::fs::lchown(made, Some(owner.uid()), Some(owner.gid()))?;
    }
    Ok(())
}

/// Clears away what dead sessions left behind. Ids are random and never used again, so a dead name stays dead.
fn sweep(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
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
