//! The part of PostgreSQL's protocol that session locks need: prepared statements with parameters, pipelined.
//!
//! Session locks use a few long-lived connections with small messages. The driver that rows use connects and
//! authenticates here as well, but does no more: through it a request would cost half as much again.

mod login;
mod message;

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

pub(super) use self::login::connect;
pub(super) use self::message::{
    MAX_MESSAGE, NOT_POSTGRES, ParamType, Reply, ReplyRow, StatementName, StatementParam, WireError,
    reply_too_long,
};
use self::message::{PostgresCodec, put_execute, put_prepare, put_query};
use super::options::Options;
use crate::engines::sql::session::Moving;
use crate::net::pipeline::{PendingReply, Pipeline};

/// Room for most requests, in bytes.
const USUAL_REQUEST: usize = 512;

/// A connection. Once closed it stays closed; its users open another. It ends when it is dropped.
pub(super) struct AdvisoryWire {
    pipeline: Arc<Pipeline<PostgresCodec>>,
    /// The number of statements prepared so far.
    prepared: AtomicU32,
}

impl AdvisoryWire {
    /// Connects, with TLS if the options ask for it, and authenticates. The connection is driven by the
    /// runtime of the caller, or by `moving`.
    ///
    /// # Errors
    /// If that fails. No request was sent then.
    pub(super) async fn open(options: &Options, moving: Option<&Arc<Moving>>) -> Result<Self, WireError> {
        let stream = login::log_in(options).await?;
        let (pipeline, read_task) = Pipeline::with_read_task(PostgresCodec, tokio::io::split(stream));
        match moving {
            Some(moving) => moving.start(read_task),
            None => drop(tokio::spawn(read_task)),
        }
        Ok(Self { pipeline: Arc::new(pipeline), prepared: AtomicU32::new(0) })
    }

    pub(super) fn is_closed(&self) -> bool {
        self.pipeline.is_closed()
    }

    /// Sends commands without parameters, which must not contain text from outside. As with the methods
    /// below, they are sent when this returns, and carried out even if the future is dropped. The values in
    /// the reply are text.
    pub(super) fn query(&self, text: &str) -> impl Future<Output = Result<Reply, WireError>> + Send + use<> {
        reply(self.pipeline.clone(), self.send(|out| put_query(out, text)))
    }

    /// Prepares a statement.
    pub(super) fn prepare(
        &self,
        text: &str,
        types: &[ParamType],
    ) -> impl Future<Output = Result<StatementName, WireError>> + Send + use<> {
        let name = StatementName(self.prepared.fetch_add(1, Ordering::Relaxed));
        let reply = reply(self.pipeline.clone(), self.send(|out| put_prepare(out, name, text, types)));
        async move { reply.await.map(|_| name) }
    }

    /// Executes a statement with its parameters. The values in the reply are binary.
    pub(super) fn execute(
        &self,
        statement: StatementName,
        params: &[StatementParam<'_>],
    ) -> impl Future<Output = Result<Reply, WireError>> + Send + use<> {
        reply(self.pipeline.clone(), self.send(|out| put_execute(out, statement, params)))
    }

    /// Sends a request, which is carried out even if its reply is not awaited: so a request after an
    /// unanswered one has a known effect.
    ///
    /// # Errors
    /// If it was not sent.
    fn send(&self, put: impl FnOnce(&mut Vec<u8>) -> bool) -> Result<PendingReply<PostgresReply>, WireError> {
        let mut request = Vec::with_capacity(USUAL_REQUEST);
        if !put(&mut request) {
            return Err(PostgresCodec::request_too_long());
        }
        let reply = self.pipeline.send_kept(&request, ());
        reply.ok_or_else(|| WireError::Ended(self.pipeline.reason()))
    }
}

type PostgresReply = Result<Reply, WireError>;

async fn reply(
    pipeline: Arc<Pipeline<PostgresCodec>>,
    pending: Result<PendingReply<PostgresReply>, WireError>,
) -> PostgresReply {
    pending?.await.unwrap_or_else(|_| Err(WireError::Ended(pipeline.reason())))
}
