//! Our side: a client of the library, as a program would use it.

use latchwork::{Guard, Lock};

use crate::Result;
use crate::args::Job;
use crate::contend::AsyncLock;
use crate::plan::Side;

impl AsyncLock for Lock {
    type Guard = Guard;

    async fn acquire(&self) -> Result<Guard> {
        Ok(Lock::acquire(self).await?)
    }

    async fn release(&self, guard: Guard) -> Result<()> {
        Ok(guard.release().await?)
    }
}

/// The locks of this process's tasks, from one client, which is already warm.
pub(crate) async fn locks(job: &Job) -> Result<Vec<Lock>> {
    let url = match job.side {
        Side::MemoryMulti | Side::MemoryCurrent => "memory:".to_owned(),
        _ => format!("sqlite:{}", job.folder.join("locks.db").display()),
    };
    let client = latchwork::connect(&url).await?;
    client.lock("bench/warm").acquire().await?.release().await?;
    let passes = job.side != Side::SqliteUnpassed;
    let lock = |task| client.lock(job.workload.lock_name(task)).local_handoff(passes);
    Ok((0..job.workload.tasks()).map(lock).collect())
}
