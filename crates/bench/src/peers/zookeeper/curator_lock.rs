//! A peer: the lock of crate zookeeper-client, on the nodes that Curator uses.
//!
//! Its release cannot be awaited: it is a drop, after which the node is removed in the background.

use zookeeper_client::{Acls, Client, LockPrefix, OwnedLockClient};

use crate::Result;
use crate::args::WorkerJob;
use crate::contend::AsyncLock;

/// One lock. The tasks of a process share its session, which this kind of prefix allows.
pub(crate) struct CuratorLock {
    client: Client,
    parent: String,
}

pub(crate) async fn curator_locks(job: &WorkerJob) -> Result<Vec<CuratorLock>> {
    let client = super::session(job).await?;
    let lock = |task| CuratorLock { client: client.clone(), parent: super::parent(job, task) };
    Ok((0..job.workload.tasks()).map(lock).collect())
}

impl AsyncLock for CuratorLock {
    type Guard = OwnedLockClient;

    async fn acquire(&self) -> Result<OwnedLockClient> {
        let prefix = LockPrefix::new_curator(&self.parent, "lock-")?;
        Ok(self.client.lock(prefix, super::DATA, Acls::anyone_all()).await?.into_owned())
    }

    async fn release(&self, lock: OwnedLockClient) -> Result<()> {
        drop(lock);
        Ok(())
    }
}
