//! A connection as the engine opens it, and claim ids as it draws them.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use latchwork::clock;
use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Client, Cmd, IntoConnectionInfo, Pipeline, ProtocolVersion, RedisResult, Value,
};

use crate::Result;
use crate::args::WorkerJob;

/// One multiplexed connection that speaks RESP3.
#[derive(Clone)]
pub(super) struct RedisConnection(MultiplexedConnection);

impl RedisConnection {
    pub(super) async fn open(job: &WorkerJob) -> Result<Self> {
        let info = job.url()?.into_connection_info()?;
        let settings = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP3);
        let client = Client::open(info.set_redis_settings(settings))?;
        let config = AsyncConnectionConfig::new().set_response_timeout(None);
        Ok(Self(client.get_multiplexed_async_connection_with_config(&config).await?))
    }

    /// Loads `script` and returns its digest.
    pub(super) async fn load(&self, script: &str) -> Result<String> {
        match self.send(redis::cmd("SCRIPT").arg("LOAD").arg(script)).await? {
            Value::BulkString(digest) => Ok(String::from_utf8(digest)?),
            other => Err(format!("no digest: {other:?}").into()),
        }
    }

    /// By the crate's shortest path, which the engine uses too.
    pub(super) async fn send(&self, command: &Cmd) -> Result<Value> {
        Ok(self.0.clone().send_packed_command(command).await.and_then(Value::extract_error)?)
    }

    /// Sends several commands in one pipeline.
    pub(super) async fn send_all<const N: usize>(&self, commands: &Pipeline) -> Result<[Value; N]> {
        let answers = self.0.clone().send_packed_commands(commands, 0, N).await?;
        let answers = answers.into_iter().map(Value::extract_error).collect::<RedisResult<Vec<_>>>()?;
        <[Value; N]>::try_from(answers).map_err(|answers| format!("not {N} answers: {answers:?}").into())
    }
}

/// Ids as long as the engine's, a new one for each claim.
pub(super) struct Ids {
    process: u64,
    next: AtomicU64,
}

impl Ids {
    pub(super) fn new() -> Self {
        Self { process: u64::from_ne_bytes(clock::random_bytes()), next: AtomicU64::new(0) }
    }

    pub(super) fn draw(&self) -> String {
        format!("{:016x}{:016x}", self.process, self.next.fetch_add(1, Relaxed))
    }
}
