//! `tokio::sync::Mutex`: the fair lock of one process.

use std::sync::Arc;

use tokio::sync::{Mutex, OwnedMutexGuard};

use crate::Result;
use crate::args::WorkerJob;
use crate::contend::AsyncLock;

impl AsyncLock for Arc<Mutex<()>> {
    type Guard = OwnedMutexGuard<()>;

    async fn acquire(&self) -> Result<Self::Guard> {
        Ok(self.clone().lock_owned().await)
    }

    async fn release(&self, guard: Self::Guard) -> Result<()> {
        drop(guard);
        Ok(())
    }
}

/// The mutexes of this process's tasks; tasks that take the same lock share one.
pub(crate) fn mutexes(job: &WorkerJob) -> Vec<Arc<Mutex<()>>> {
    let mut named = std::collections::HashMap::new();
    let names = (0..job.workload.tasks()).map(|task| job.workload.lock_name(task));
    names.map(|name| Arc::clone(named.entry(name).or_default())).collect()
}
