//! `flock` on a file: the kernel's own lock between processes. Fast, and not fair.

use std::fs::File;
use std::path::Path;

use crate::Result;
use crate::contend::BlockingLock;

/// One open file description: one contender.
pub(crate) struct Flock(File);

impl Flock {
    pub(crate) fn open(folder: &Path) -> Result<Self> {
        let path = folder.join("flock");
        Ok(Self(File::options().read(true).write(true).create(true).truncate(false).open(path)?))
    }
}

impl BlockingLock for Flock {
    fn acquire(&mut self) -> Result<()> {
        Ok(self.0.lock()?)
    }

    fn release(&mut self) -> Result<()> {
        Ok(self.0.unlock()?)
    }
}
