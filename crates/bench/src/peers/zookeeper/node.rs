//! An ephemeral node, created and deleted through crate zookeeper-client.

use zookeeper_client::{Acls, Client, CreateMode};

use crate::Result;
use crate::args::WorkerJob;
use crate::contend::AsyncLock;

/// A node of one task.
pub(crate) struct NodeLock {
    client: Client,
    path: String,
}

pub(crate) async fn nodes(job: &WorkerJob) -> Result<Vec<NodeLock>> {
    let client = super::session(job).await?;
    let node = |task| NodeLock { client: client.clone(), path: format!("{}/raw", super::parent(job, task)) };
    Ok((0..job.workload.tasks()).map(node).collect())
}

impl AsyncLock for NodeLock {
    type Guard = ();

    async fn acquire(&self) -> Result<()> {
        let options = CreateMode::Ephemeral.with_acls(Acls::anyone_all());
        self.client.create(&self.path, super::DATA, &options).await?;
        Ok(())
    }

    async fn release(&self, (): ()) -> Result<()> {
        Ok(self.client.delete(&self.path, None).await?)
    }
}
