//! Crate rslock on one server or on several: `SET NX PX`, and a retry after a random part of its delay.

use std::sync::Arc;
use std::time::Duration;

use rslock::{LockGuard, LockManager};

use crate::Result;
use crate::args::WorkerJob;
use crate::contend::AsyncLock;
use crate::plan::Side;

const TTL: Duration = Duration::from_secs(30);
/// The default of rslock; only the delay is shortened.
const RETRIES: u32 = 3;
const QUICK: Duration = Duration::from_millis(10);

/// One lock of one manager.
pub(crate) struct RslockLock {
    manager: Arc<LockManager>,
    name: String,
}

/// The locks of this process's tasks, from one manager that is warmed up.
pub(crate) async fn rslock_locks(job: &WorkerJob) -> Result<Vec<RslockLock>> {
    let mut manager = LockManager::new(super::server_urls(job.url()?));
    if job.side == Side::RslockQuick {
        manager.set_retry(RETRIES, QUICK);
    }
    manager.acquire("bench/warm", TTL).await?.release().await;
    let manager = Arc::new(manager);
    let lock = |task| RslockLock { manager: manager.clone(), name: job.workload.lock_name(task) };
    Ok((0..job.workload.tasks()).map(lock).collect())
}

impl AsyncLock for RslockLock {
    type Guard = LockGuard;

    async fn acquire(&self) -> Result<LockGuard> {
        Ok(self.manager.acquire(self.name.as_str(), TTL).await?)
    }

    async fn release(&self, guard: LockGuard) -> Result<()> {
        guard.release().await;
        Ok(())
    }
}
