//! A session: one FIFO per client, which is its doorbell, its liveness check and its death notice.
//!
//! The owner keeps the read end open. A process that can open the write end knows that the owner is alive; a
//! process that keeps the write end open is told by the kernel, at once, when the owner dies; and a write
//! wakes the owner. One object has all three uses, so there is no order of closing to get wrong, and it works
//! across pid namespaces.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag};
use nix::sys::stat::{Mode as FileMode, fstatat};

use crate::clock;
use crate::poison::lock_ignoring_poison;

/// The extension of a FIFO that its owner has not opened yet.
const UNOPENED: &str = "new";
/// The time after which such a FIFO counts as a leftover.
const UNOPENED_SECONDS: i64 = 60;

/// The session of this client. For other clients, its drop is the death of this client.
pub(super) struct Session {
    id: u64,
    /// The process that created it.
    pid: u32,
    mode: u32,
    folder: PathBuf,
    file_name: String,
    fifo: Mutex<Fifo>,
}

struct Fifo {
    file: File,
    /// Device and inode, to notice that the FIFO was removed.
    identity: (u64, u64),
}

impl Session {
    /// Creates a session in `folder`. `mode`: the permissions of its FIFO.
    pub(super) fn create(folder: &Path, mode: u32) -> io::Result<Self> {
        remove_leftovers(folder)?;
        let id = u64::from_ne_bytes(clock::random_bytes());
        let fifo = Mutex::new(create_fifo(folder, id, mode)?);
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

    /// Creates the FIFO again if it was removed (by a cleaner of temporary files, for example). Without it
    /// this session looks dead, and a lock granted to it could be taken at once. Returns whether it was
    /// removed.
    pub(super) fn restore(&self, folder: &File) -> io::Result<bool> {
        let mut fifo = lock_ignoring_poison(&self.fifo);
        let found = fstatat(folder, self.file_name.as_str(), AtFlags::AT_SYMLINK_NOFOLLOW);
        if found.is_ok_and(|found| (found.st_dev, found.st_ino) == fifo.identity) {
            return Ok(false);
        }
        *fifo = create_fifo(&self.folder, self.id, self.mode)?;
        Ok(true)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // The exit of a fork does not end the session of its parent.
        if self.pid == forkmark::process_id() {
            let _ = fs::remove_file(fifo_path(&self.folder, self.id));
        }
    }
}

/// Creates a FIFO, opened by its owner.
fn create_fifo(folder: &Path, id: u64, mode: u32) -> io::Result<Fifo> {
    let (path, unopened) = (fifo_path(folder, id), folder.join(format!("{id:016x}.{UNOPENED}")));
    let _ = fs::remove_file(&unopened); // of an earlier attempt of this session that failed
    nix::unistd::mkfifo(&unopened, FileMode::from_bits_truncate(mode))?;
    fs::set_permissions(&unopened, fs::Permissions::from_mode(mode))?; // not reduced by the umask
    chown_to_owner_of(folder, &unopened)?;
    // For reading and writing, so that the owner never reads an end of file when the last writer closes.
    let file = open_fifo(&unopened, true, true)?;
    let created = file.metadata()?;
    // Renamed last, so that a FIFO under its final name always has its owner.
    fs::rename(&unopened, &path)?;
    Ok(Fifo { file, identity: (created.dev(), created.ino()) })
}

pub(super) fn fifo_path(folder: &Path, session: u64) -> PathBuf {
    folder.join(file_name(session))
}

fn file_name(session: u64) -> String {
    format!("{session:016x}.fifo")
}

pub(super) fn open_fifo(path: &Path, read: bool, write: bool) -> io::Result<File> {
    let flags = OFlag::O_NONBLOCK | OFlag::O_CLOEXEC | OFlag::O_NOFOLLOW;
    OpenOptions::new().read(read).write(write).custom_flags(flags.bits()).open(path)
}

/// Gives a file that root created in a folder of another user to that user, whose processes could not open it
/// otherwise.
pub(super) fn chown_to_owner_of(folder: &Path, created: &Path) -> io::Result<()> {
    let (owner, me) = (fs::metadata(folder)?, nix::unistd::geteuid());
    if me.is_root() && (owner.uid(), owner.gid()) != (0, 0) {
        std::os::unix::fs::lchown(created, Some(owner.uid()), Some(owner.gid()))?;
    }
    Ok(())
}

/// Removes the FIFOs of dead sessions. Ids are random and never used again, so a dead session never comes
/// back.
fn remove_leftovers(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let has_no_reader = matches!(
            open_fifo(&path, false, true),
            Err(error) if error.raw_os_error() == Some(Errno::ENXIO as i32)
        );
        if has_no_reader && !is_being_created(&path) {
            let _ = fs::remove_file(&path);
        }
    }
    Ok(())
}

/// Whether its owner may still be about to open it.
fn is_being_created(path: &Path) -> bool {
    let created = fs::symlink_metadata(path).map_or(0, |found| found.mtime());
    let now = Duration::from_micros(clock::wall_micros()).as_secs() as i64;
    path.extension().is_some_and(|kind| kind == UNOPENED) && (now - created).abs() < UNOPENED_SECONDS
}
