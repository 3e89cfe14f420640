//! A connection in the command phase: commands of many tasks, outstanding at once.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::codec::{ExpectedResponse, MysqlCodec};
use super::com_query::put_com_query;
use super::com_stmt_execute::{MysqlParam, put_com_stmt_execute};
use super::com_stmt_prepare::{StatementId, put_com_stmt_prepare};
use super::connection_phase::{ConnectOptions, connection_phase};
use super::handshake_v10::HandshakeV10;
use super::packet::put_packet;
use super::reply::Reply;
use super::response::ResponseTo;
use super::{WireError, WireResult};
use crate::engines::sql::session::{Moving, Socket};
use crate::net::byte_stream::ByteStream;
use crate::net::dial::dial;
use crate::net::pipeline::{PendingReply, Pipeline};

/// Room for most commands.
const USUAL_COMMAND: usize = 512;

/// A connection. Once closed it stays closed; its users open another. Dropped, it ends when the outstanding
/// commands are answered.
pub(in crate::engines::mysql) struct MysqlPipeline {
    pipeline: Arc<Pipeline<MysqlCodec>>,
    /// Commands are sent even if their replies are dropped. Session locks count on that: the server then
    /// knows of every claim that its client asked for.
    keeps_abandoned: bool,
}

/// A command.
pub(in crate::engines::mysql) enum MysqlCommand<'a> {
    /// A statement without parameters. It must not contain text of other people.
    Query(&'a str),
    /// A [`MysqlCommand::Query`] after whose refusal the connection is of no use: it ends then, and later
    /// commands are not answered.
    QueryThatMustSucceed(&'a str),
    Prepare(&'a str),
    Execute(StatementId, &'a [MysqlParam<'a>]),
}

impl MysqlCommand<'_> {
    /// Adds its packet. `None` if it is too long; nothing is added then.
    fn put(&self, out: &mut Vec<u8>) -> Option<ExpectedResponse> {
        let to = match self {
            MysqlCommand::Query(_) | MysqlCommand::QueryThatMustSucceed(_) => ResponseTo::Query,
            MysqlCommand::Prepare(_) => ResponseTo::StmtPrepare,
            MysqlCommand::Execute(..) => ResponseTo::StmtExecute,
        };
        let is_put = put_packet(out, 0, |payload| match self {
            MysqlCommand::Query(statement) | MysqlCommand::QueryThatMustSucceed(statement) => {
                put_com_query(payload, statement);
            }
            MysqlCommand::Prepare(statement) => put_com_stmt_prepare(payload, statement),
            MysqlCommand::Execute(statement, values) => put_com_stmt_execute(payload, *statement, values),
        });
        let must_succeed = matches!(self, MysqlCommand::QueryThatMustSucceed(_));
        is_put.then_some(ExpectedResponse { to, must_succeed })
    }
}

/// Commands that are sent together.
#[derive(Default)]
pub(in crate::engines::mysql) struct Batch {
    bytes: Vec<u8>,
    /// `None`: the command is too long to be sent.
    expected: Vec<Option<ExpectedResponse>>,
}

impl Batch {
    pub(in crate::engines::mysql) fn add(&mut self, command: &MysqlCommand<'_>) {
        self.bytes.reserve(USUAL_COMMAND);
        self.expected.push(command.put(&mut self.bytes));
    }
}

/// The reply to a command.
pub(in crate::engines::mysql) struct PendingResponse {
    pipeline: Arc<Pipeline<MysqlCodec>>,
    /// `None`: the command was not sent.
    reply: Result<PendingReply<WireResult<Reply>>, WireError>,
}

impl PendingResponse {
    /// The number of the statement that was prepared.
    pub(in crate::engines::mysql) async fn statement_id(self) -> WireResult<StatementId> {
        Ok(self.await?.statement_id)
    }
}

impl Future for PendingResponse {
    type Output = WireResult<Reply>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<WireResult<Reply>> {
        let Self { pipeline, reply } = &mut *self;
        match reply {
            Err(not_sent) => Poll::Ready(Err(not_sent.clone())),
            Ok(reply) => Pin::new(reply)
                .poll(context)
                .map(|reply| reply.unwrap_or_else(|_| Err(WireError::Ended(pipeline.reason())))),
        }
    }
}

impl MysqlPipeline {
    /// Connects, and passes the connection phase. The connection belongs to this runtime.
    ///
    /// # Errors
    /// Why this user cannot use this server.
    pub(in crate::engines::mysql) async fn open(login: &ConnectOptions) -> WireResult<(Self, HandshakeV10)> {
        let stream = dial(&login.host, login.port).await?;
        let (codec, stream, handshake) = begin(login, Box::new(stream)).await?;
        let pipeline = Pipeline::over(codec, tokio::io::split(stream));
        Ok((Self { pipeline: Arc::new(pipeline), keeps_abandoned: false }, handshake))
    }

    /// [`MysqlPipeline::open`] for a connection of session locks, which any runtime may drive.
    pub(in crate::engines::mysql) async fn open_moving(
        login: &ConnectOptions,
        moving: &Arc<Moving>,
    ) -> WireResult<(Self, HandshakeV10)> {
        let socket = Socket::connect(&login.host, login.port).await?;
        let (codec, stream, handshake) = begin(login, Box::new(socket)).await?;
        let (pipeline, read_task) = Pipeline::with_read_task(codec, tokio::io::split(stream));
        moving.start(read_task);
        Ok((Self { pipeline: Arc::new(pipeline), keeps_abandoned: true }, handshake))
    }

    pub(in crate::engines::mysql) fn is_closed(&self) -> bool {
        self.pipeline.is_closed()
    }

    /// Closes the connection. Outstanding commands stay unanswered.
    pub(in crate::engines::mysql) fn close(&self) {
        self.pipeline.close("the connection ended");
    }

    /// Sends commands, with no other between them. They are sent when this returns. Returns a reply for each.
    pub(in crate::engines::mysql) fn send(&self, batch: Batch) -> Vec<PendingResponse> {
        self.send_batch(batch, self.keeps_abandoned)
    }

    /// [`MysqlPipeline::send`] for commands whose replies nobody waits for.
    pub(in crate::engines::mysql) fn send_unattended(&self, batch: Batch) {
        drop(self.send_batch(batch, true));
    }

    /// Sends one command.
    pub(in crate::engines::mysql) fn send_one(&self, command: &MysqlCommand<'_>) -> PendingResponse {
        let mut bytes = Vec::with_capacity(USUAL_COMMAND);
        let reply = match (command.put(&mut bytes), self.keeps_abandoned) {
            (None, _) => Err(too_long()),
            (Some(expected), false) => self.pipeline.send(&bytes, expected).ok_or_else(|| self.ended()),
            (Some(expected), true) => self.pipeline.send_kept(&bytes, expected).ok_or_else(|| self.ended()),
        };
        PendingResponse { pipeline: self.pipeline.clone(), reply }
    }

    fn send_batch(&self, Batch { bytes, expected }: Batch, is_kept: bool) -> Vec<PendingResponse> {
        let sent = expected.iter().flatten().copied();
        let pending = match is_kept {
            true => self.pipeline.send_all_kept(&bytes, sent),
            false => self.pipeline.send_all(&bytes, sent),
        };
        let mut pending = pending.map(Vec::into_iter);
        let replies = expected.iter().map(|expected| match (expected, &mut pending) {
            (None, _) => Err(too_long()),
            (Some(_), None) => Err(self.ended()),
            (Some(_), Some(pending)) => Ok(pending.next().expect("a reply for each command that was sent")),
        });
        replies.map(|reply| PendingResponse { pipeline: self.pipeline.clone(), reply }).collect()
    }

    fn ended(&self) -> WireError {
        WireError::Ended(self.pipeline.reason())
    }
}

fn too_long() -> WireError {
    WireError::Unable("a statement of more than 16 MB".to_owned())
}

async fn begin(
    login: &ConnectOptions,
    stream: Box<dyn ByteStream>,
) -> WireResult<(MysqlCodec, Box<dyn ByteStream>, HandshakeV10)> {
    let (stream, handshake) = connection_phase(login, stream).await?;
    Ok((MysqlCodec { deprecates_eof: handshake.deprecates_eof() }, stream, handshake))
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex, split};

    use super::*;

    const ERR: &[u8] = b"\x0b\0\0\x01\xff\xbd\x04#40001no";

    fn open() -> (MysqlPipeline, DuplexStream) {
        let (near, far) = duplex(4096);
        let pipeline = Pipeline::over(MysqlCodec { deprecates_eof: true }, split(near));
        (MysqlPipeline { pipeline: Arc::new(pipeline), keeps_abandoned: false }, far)
    }

    fn is_ended(result: WireResult<Reply>, why: &str) -> bool {
        matches!(result, Err(WireError::Ended(error)) if error.to_string() == why)
    }

    /// It was carried out by then, and is never answered.
    #[tokio::test]
    async fn commands_behind_a_refused_one_that_must_succeed_are_not_refused() {
        let (pipeline, mut far) = open();
        let mut batch = Batch::default();
        batch.add(&MysqlCommand::QueryThatMustSucceed("ROLLBACK"));
        pipeline.send_unattended(batch);
        let behind = pipeline.send_one(&MysqlCommand::Query("SELECT 1"));
        far.write_all(ERR).await.expect("read");
        assert!(is_ended(behind.await, "no"));
        let late = pipeline.send_one(&MysqlCommand::Query("SELECT 1"));
        assert!(is_ended(late.await, "no") && pipeline.is_closed(), "nobody answers any more");
    }

    /// Taken for a refusal, it would tell the others that nothing was done.
    #[tokio::test]
    async fn a_reply_after_the_end_is_no_reason_for_it() {
        let (pipeline, mut far) = open();
        let asked = pipeline.send_one(&MysqlCommand::Query("SELECT 1"));
        pipeline.close();
        let _ = far.write_all(ERR).await;
        tokio::task::yield_now().await;
        assert!(is_ended(asked.await, "the connection ended"));
    }

    #[tokio::test]
    async fn a_command_that_is_too_long_is_not_sent() {
        let (pipeline, mut far) = open();
        tokio::task::yield_now().await;
        let mut batch = Batch::default();
        batch.add(&MysqlCommand::Query(&"x".repeat(1 << 24)));
        batch.add(&MysqlCommand::Query("a"));
        let [too_long, short] = pipeline.send(batch).try_into().ok().expect("two replies");
        assert!(matches!(too_long.await, Err(WireError::Unable(why)) if why.contains("16 MB")));
        let mut sent = [0; 6];
        far.read_exact(&mut sent).await.expect("one packet");
        assert_eq!(sent, [2, 0, 0, 0, 3, b'a']);
        far.write_all(ERR).await.expect("read");
        assert!(matches!(short.await, Err(WireError::Refused { code: 1213, .. })));
    }
}
