//! The floor of the PostgreSQL engine: its own two prepared statements, through the same crate.

use std::sync::Arc;

use tokio_postgres::types::Type;
use tokio_postgres::{Client, Config, NoTls, Statement};

use crate::Result;
use crate::args::WorkerJob;
use crate::contend::AsyncLock;

const CLAIM: &str = include_str!("../../../latchwork/src/engines/postgres/sql/claim_uncontended.sql");
const RELEASE: &str = include_str!("../../../latchwork/src/engines/sql/release_uncontended.sql");
/// As in the engine's statements.rs.
const NOW_EXPRESSION: &str = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint";
const TTL: i64 = 30_000_000;

/// One lock of one connection.
pub(crate) struct PostgresRowLock {
    connection: Arc<PostgresConnection>,
    name: Vec<u8>,
    id: Vec<u8>,
}

struct PostgresConnection {
    client: Client,
    claim: Statement,
    release: Statement,
}

/// The locks of this process's tasks, on one connection, in the tables that the engine created.
pub(crate) async fn row_locks(job: &WorkerJob) -> Result<Vec<PostgresRowLock>> {
    drop(latchwork::connect(job.url()?).await?);
    let (config, _) = job.url()?.split_once('?').unwrap_or((job.url()?, ""));
    let (client, driver) = config.parse::<Config>()?.connect(NoTls).await?;
    tokio::spawn(driver);
    let text = |text: &str| text.replace("{lock}", "latchwork_lock").replace("{now}", NOW_EXPRESSION);
    let types = [Type::BYTEA, Type::BYTEA, Type::INT8, Type::BYTEA, Type::BYTEA];
    let claim = client.prepare_typed(&text(CLAIM), &types).await?;
    let release = client.prepare_typed(&text(RELEASE), &types[..2]).await?;
    let connection = Arc::new(PostgresConnection { client, claim, release });
    let pair = |task| PostgresRowLock {
        connection: connection.clone(),
        name: job.workload.lock_name(task).into_bytes(),
        id: u128::from(job.index + task + 1).to_be_bytes().to_vec(),
    };
    let pairs: Vec<_> = (0..job.workload.tasks()).map(pair).collect();
    for pair in &pairs {
        pair.acquire().await?;
        pair.release(()).await?;
    }
    Ok(pairs)
}

impl AsyncLock for PostgresRowLock {
    type Guard = ();

    async fn acquire(&self) -> Result<()> {
        let (note, owner) = (&b"pid 12345 on host"[..], None::<&[u8]>);
        let PostgresConnection { client, claim, .. } = &*self.connection;
        let row = client.query_opt(claim, &[&self.name, &self.id, &TTL, &note, &owner]).await?;
        row.map(drop).ok_or_else(|| "the floor's lock is taken".into())
    }

    async fn release(&self, (): ()) -> Result<()> {
        let PostgresConnection { client, release, .. } = &*self.connection;
        client.query_opt(release, &[&self.name, &self.id]).await?;
        Ok(())
    }
}
