//! The least that is still a fenced lock: `SET k id NX PX ttl` and `INCR f` in one pipeline, then a script
//! that deletes the key if its value is still the id. No queue, no wake-up, and the counter is incremented
//! even if the key is taken.

use std::sync::Arc;

use redis::{Cmd, Pipeline, Value};

use super::connection::{Ids, RedisConnection};
use crate::Result;
use crate::args::WorkerJob;
use crate::contend::AsyncLock;

const RELEASE: &str =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";
const TTL: &str = "30000";

/// The connection and the script that all tasks of the process share.
struct BareClient {
    connection: RedisConnection,
    ids: Ids,
    release: String,
}

/// One lock.
pub(crate) struct Bare {
    client: Arc<BareClient>,
    key: String,
    fence: String,
}

/// The locks of this process's tasks, on one connection that is warmed up.
pub(crate) async fn bare(job: &WorkerJob) -> Result<Vec<Bare>> {
    let connection = RedisConnection::open(job).await?;
    let release = connection.load(RELEASE).await?;
    let client = Arc::new(BareClient { connection, ids: Ids::new(), release });
    let lock = |key: String| Bare { client: client.clone(), fence: format!("{key}:fence"), key };
    let warm = lock("bench/warm".into());
    warm.release(warm.acquire().await?).await?;
    Ok((0..job.workload.tasks()).map(|task| lock(job.workload.lock_name(task))).collect())
}

impl AsyncLock for Bare {
    type Guard = String;

    async fn acquire(&self) -> Result<String> {
        let id = self.client.ids.draw();
        let mut claim = Pipeline::with_capacity(2);
        claim.cmd("SET").arg(&self.key).arg(&id).arg("NX").arg("PX").arg(TTL);
        claim.cmd("INCR").arg(&self.fence);
        match self.client.connection.send_all(&claim).await? {
            [Value::Okay, Value::Int(_token)] => Ok(id),
            other => Err(format!("the bare claim found the lock taken: {other:?}").into()),
        }
    }

    async fn release(&self, id: String) -> Result<()> {
        let mut command = Cmd::with_capacity(5, 192);
        command.arg("EVALSHA").arg(&self.client.release).arg(1).arg(&self.key).arg(&id);
        match self.client.connection.send(&command).await? {
            Value::Int(1) => Ok(()),
            other => Err(format!("the bare release freed nothing: {other:?}").into()),
        }
    }
}
