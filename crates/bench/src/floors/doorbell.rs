//! A bare doorbell: the release statement, then 32 bytes into the FIFO of the other process, which blocks in
//! a read.

use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::sys::stat::Mode;
use rusqlite::Connection;

use super::Statements;
use crate::Result;
use crate::contend::BlockingLock;

/// One of two processes that pass a lock back and forth.
pub(crate) struct Doorbell<'db> {
    pair: Statements<'db>,
    mine: File,
    theirs: File,
    /// The first process begins with the lock and does not wait for the doorbell.
    begins: bool,
}

impl<'db> Doorbell<'db> {
    pub(crate) fn new(db: &'db Connection, folder: &Path, index: u32, name: String) -> Result<Self> {
        let (mine, theirs) = (open(folder, index)?, open(folder, 1 - index)?);
        Ok(Self { pair: Statements::new(db, vec![name])?, mine, theirs, begins: index == 0 })
    }
}

impl BlockingLock for Doorbell<'_> {
    fn acquire(&mut self) -> Result<()> {
        if !std::mem::take(&mut self.begins) {
            self.mine.read_exact(&mut [0; 32])?;
        }
        Ok(())
    }

    /// Claims the row, so that the next release has one to free.
    fn prepare_release(&mut self) -> Result<()> {
        self.pair.acquire()
    }

    fn release(&mut self) -> Result<()> {
        self.pair.release()?;
        Ok(self.theirs.write_all(&[0; 32])?)
    }
}

/// Opens the FIFO for reading and writing: then neither the open nor the last write needs the other process.
fn open(folder: &Path, index: u32) -> Result<File> {
    let path: PathBuf = folder.join(format!("{index}.fifo"));
    match nix::unistd::mkfifo(&path, Mode::S_IRUSR | Mode::S_IWUSR) {
        Ok(()) | Err(Errno::EEXIST) => Ok(File::options().read(true).write(true).open(path)?),
        Err(error) => Err(error.into()),
    }
}
