//! Advisory locks through the crate that the engine uses.

use std::sync::Arc;

use tokio_postgres::types::Type;
use tokio_postgres::{Client, Config, NoTls, Statement};

use crate::Result;
use crate::args::Job;
use crate::contend::AsyncLock;

/// One lock of one connection.
pub(crate) struct Pair {
    wire: Arc<Wire>,
    number: i64,
}

struct Wire {
    client: Client,
    take: Statement,
    give: Statement,
}

/// The locks of this process's tasks, on one connection.
pub(crate) async fn statements(job: &Job) -> Result<Vec<Pair>> {
    let (config, _) = job.url()?.split_once('?').unwrap_or((job.url()?, ""));
    let (client, connection) = config.parse::<Config>()?.connect(NoTls).await?;
    tokio::spawn(connection);
    let take = client.prepare_typed("SELECT pg_try_advisory_lock($1)", &[Type::INT8]).await?;
    let give = client.prepare_typed("SELECT pg_advisory_unlock($1)", &[Type::INT8]).await?;
    let wire = Arc::new(Wire { client, take, give });
    let pair = |task: u32| Pair { wire: wire.clone(), number: task.into() };
    Ok((0..job.workload.tasks()).map(pair).collect())
}

impl AsyncLock for Pair {
    type Guard = ();

    async fn acquire(&self) -> Result<()> {
        match self.wire.client.query_one(&self.wire.take, &[&self.number]).await?.try_get(0)? {
            true => Ok(()),
            false => Err("the floor's lock is taken".into()),
        }
    }

    async fn release(&self, (): ()) -> Result<()> {
        match self.wire.client.query_one(&self.wire.give, &[&self.number]).await?.try_get(0)? {
            true => Ok(()),
            false => Err("the floor's release freed nothing".into()),
        }
    }
}
