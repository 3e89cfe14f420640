//! The engine's own two scripts, sent raw: no core, no session, no keeper.

use std::sync::Arc;

use redis::{Cmd, Value};

use super::connection::{Ids, RedisConnection};
use crate::Result;
use crate::args::WorkerJob;
use crate::contend::AsyncLock;

#[allow(dead_code, reason = "the floor sends two of the scripts")]
#[path = "../../../../latchwork/src/engines/redis/lua/mod.rs"]
mod lua;

/// The engine's claim script, composed as in the engine.
pub(crate) fn claim_script() -> String {
    lua::compose(lua::CLAIM_SET, GAP_MS, MOST_WAITERS)
}

/// The engine's release script.
pub(crate) fn release_script() -> String {
    lua::compose(lua::RELEASE, GAP_MS, MOST_WAITERS)
}

/// The arguments of a claim with the library's defaults: ttl, wait lease.
const TERMS: [&str; 2] = ["30000", "3000"];
/// The engine's defaults for the placeholders of the scripts.
const GAP_MS: u128 = 0;
const MOST_WAITERS: u32 = 10_000;

/// The connection and the scripts that all tasks of the process share.
struct ScriptClient {
    connection: RedisConnection,
    ids: Ids,
    claim: String,
    release: String,
    /// The part of a member after the id: channel, mode, line feed and note, as long as the library's.
    tail: String,
}

/// One lock.
pub(crate) struct Scripts {
    client: Arc<ScriptClient>,
    keys: [String; 4],
}

/// The locks of this process's tasks, on one connection that is warmed up.
pub(crate) async fn scripts(job: &WorkerJob) -> Result<Vec<Scripts>> {
    let connection = RedisConnection::open(job).await?;
    let (claim, release) =
        (connection.load(&claim_script()).await?, connection.load(&release_script()).await?);
    let tail = format!("{:016x}x\npid {} on benchmark", job.index, std::process::id());
    let client = Arc::new(ScriptClient { connection, ids: Ids::new(), claim, release, tail });
    let lock = |name: &str| Scripts { client: client.clone(), keys: keys(name) };
    let warm = lock("bench/warm");
    warm.release(warm.acquire().await?).await?;
    Ok((0..job.workload.tasks()).map(|task| lock(&job.workload.lock_name(task))).collect())
}

/// Holder, queue, deadlines and fence, as the engine names them.
fn keys(name: &str) -> [String; 4] {
    let side = |what| format!("{{{name}}}:latchwork1:{what}");
    [name.to_owned(), side("q"), side("w"), side("f")]
}

impl Scripts {
    fn call(&self, script: &str, id: &str) -> Cmd {
        let mut command = Cmd::with_capacity(16, 512);
        command.arg("EVALSHA").arg(script).arg(4).arg(&self.keys).arg(id).arg(&self.client.tail);
        command
    }
}

impl AsyncLock for Scripts {
    type Guard = String;

    async fn acquire(&self) -> Result<String> {
        let id = self.client.ids.draw();
        let mut command = self.call(&self.client.claim, &id);
        command.arg(&TERMS);
        match self.client.connection.send(&command).await? {
            Value::BulkString(_token) => Ok(id),
            other => Err(format!("the raw claim found the lock taken: {other:?}").into()),
        }
    }

    async fn release(&self, id: String) -> Result<()> {
        let command = self.call(&self.client.release, &id);
        match self.client.connection.send(&command).await? {
            Value::Int(1) => Ok(()),
            other => Err(format!("the raw release freed nothing: {other:?}").into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use testkit::servers::{RedisOptions, RedisServer};

    use super::*;
    use crate::plan::{Side, Workload};

    fn digest(server: &RedisServer, script: &str) -> String {
        server.command(&["SCRIPT", "LOAD", script]).text()
    }

    #[tokio::test]
    async fn the_floor_sends_the_engines_own_scripts_on_its_own_keys() -> Result<()> {
        let server = RedisServer::start(RedisOptions::default());
        let url = format!("redis://{}", server.address());
        let digests = [claim_script(), release_script()].map(|script| digest(&server, &script));
        server.command(&["SCRIPT", "FLUSH"]);
        let library = latchwork::connect(&url).await?;
        let known = server.command(&["SCRIPT", "EXISTS", &digests[0], &digests[1]]);
        assert!(known.array().iter().all(|known| known.integer() == 1), "compose them as scripts.rs does");

        let job = WorkerJob {
            workload: Workload::Free,
            side: Side::ScriptsMulti,
            index: 0,
            folder: "".into(),
            millis: 1,
            url: Some(url),
        };
        let raw = scripts(&job).await?.remove(0);
        let theirs = raw.acquire().await?;
        let ours = library.lock(job.workload.lock_name(0));
        assert!(ours.try_acquire().await?.is_none());
        raw.release(theirs).await?;
        let guard = ours.try_acquire().await?.ok_or("free again")?;
        assert!(raw.acquire().await.is_err());
        Ok(guard.release().await?)
    }
}
