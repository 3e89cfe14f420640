//! Advisory locks through the crate that the engine uses.

use std::sync::Arc;

use ::tokio_postgres::types::Type;
use ::tokio_postgres::{Client, Config, NoTls, Statement};

use crate::Result;
use crate::args::WorkerJob;
use crate::contend::AsyncLock;

/// One lock of one connection.
pub(crate) struct AdvisoryLock {
    connection: Arc<AdvisoryConnection>,
    number: i64,
}

struct AdvisoryConnection {
    client: Client,
    take: Statement,
    give: Statement,
}

/// The locks of this process's tasks, on one connection.
pub(crate) async fn advisory_locks(job: &WorkerJob) -> Result<Vec<AdvisoryLock>> {
    let (config, _) = job.url()?.split_once('?').unwrap_or((job.url()?, ""));
    let (client, driver) = config.parse::<Config>()?.connect(NoTls).await?;
    tokio::spawn(driver);
    let take = client.prepare_typed("SELECT pg_try_advisory_lock($1)", &[Type::INT8]).await?;
    let give = client.prepare_typed("SELECT pg_advisory_unlock($1)", &[Type::INT8]).await?;
    let connection = Arc::new(AdvisoryConnection { client, take, give });
    let pair = |task: u32| AdvisoryLock { connection: connection.clone(), number: task.into() };
    Ok((0..job.workload.tasks()).map(pair).collect())
}

impl AsyncLock for AdvisoryLock {
    type Guard = ();

    async fn acquire(&self) -> Result<()> {
        match self.connection.client.query_one(&self.connection.take, &[&self.number]).await?.try_get(0)? {
            true => Ok(()),
            false => Err("the floor's lock is taken".into()),
        }
    }

    async fn release(&self, (): ()) -> Result<()> {
        match self.connection.client.query_one(&self.connection.give, &[&self.number]).await?.try_get(0)? {
            true => Ok(()),
            false => Err("the floor's release freed nothing".into()),
        }
    }
}
