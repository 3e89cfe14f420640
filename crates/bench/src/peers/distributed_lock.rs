//! Crate distributed-lock 0.2 on several masters. It stops after a majority and releases only where a claim
//! was confirmed, so it leaves keys behind until they expire. Every cycle has a name of its own here, or it
//! would wait for its own keys.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use distributed_lock_core::{DistributedLock, LockHandle, LockProvider};
use distributed_lock_redis::{RedisLockHandle, RedisLockProvider};

use crate::Result;
use crate::args::WorkerJob;
use crate::contend::AsyncLock;

/// The locks of one task.
pub(crate) struct FreshNameLock {
    provider: Arc<RedisLockProvider>,
    name: String,
    turn: AtomicU64,
}

/// The locks of this process's tasks, from one provider that is warmed up.
pub(crate) async fn locks(job: &WorkerJob) -> Result<Vec<FreshNameLock>> {
    let provider =
        Arc::new(RedisLockProvider::builder().urls(&super::server_urls(job.url()?)).build().await?);
    let lock = |task| FreshNameLock {
        provider: provider.clone(),
        name: format!("{}/{task}/{}", job.workload.lock_name(task), job.index),
        turn: AtomicU64::new(0),
    };
    let locks: Vec<_> = (0..job.workload.tasks()).map(lock).collect();
    for lock in &locks {
        lock.acquire().await?.release().await?;
    }
    Ok(locks)
}

impl AsyncLock for FreshNameLock {
    type Guard = RedisLockHandle;

    async fn acquire(&self) -> Result<RedisLockHandle> {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        Ok(self.provider.create_lock(&format!("{}/{turn}", self.name)).acquire(None).await?)
    }

    async fn release(&self, guard: RedisLockHandle) -> Result<()> {
        Ok(guard.release().await?)
    }
}
