//! The protocol of PostgreSQL, as far as session locks need it: prepared statements with their values, many under way at once.
//!
//! Every lock that is kept for a connection is asked for on one that lives long and has little to say. The driver that rows use
//! logs in here as well, and is done then: through it a request would cost half as much again.

mod login;
mod message;

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

pub(super) use self::login::connect;
pub(super) use self::message::{Kind, MOST, Param, Prepared, Reply, Row, WireError};
use self::message::{Talk, put_execute, put_prepare, put_query};
use super::options::Options;
use crate::engines::sql::session::Moving;
use crate::net::pipeline::{PendingReply, Pipeline};

/// Room for most requests.
const USUAL_REQUEST: usize = 512;

/// A connection. It never comes back to life: whoever finds it closed opens another. It ends when nobody has it any more.
pub(super) struct Wire {
    pipeline: Arc<Pipeline<Talk>>,
    prepared: AtomicU32,
}

impl Wire {
    /// Connects, encrypts if that was asked for, and logs in. Moves on the runtime it is called on, or as `moving` has it.
    ///
    /// # Errors
    /// Nothing was asked then.
    pub(super) async fn open(options: &Options, moving: Option<&Arc<Moving>>) -> Result<Self, WireError> {
        let stream = login::log_in(options).await?;
        let (pipeline, read_task) = Pipeline::with_read_task(Talk, tokio::io::split(stream));
        match moving {
            Some(moving) => moving.start(read_task),
            None => drop(tokio::spawn(read_task)),
        }
        Ok(Self { pipeline: Arc::new(pipeline), prepared: AtomicU32::new(0) })
    }

    pub(super) fn is_closed(&self) -> bool {
        self.pipeline.is_closed()
    }

    /// Commands without values, in which nothing may stand that somebody else wrote. They are on their way when this returns, and
    /// carried out whether the answer is waited for or not; so are those below. What comes back is text.
    pub(super) fn query(&self, text: &str) -> impl Future<Output = Result<Reply, WireError>> + Send + use<> {
        answer(self.pipeline.clone(), self.ask(|out| put_query(out, text)))
    }

    /// Makes a statement known to the server.
    pub(super) fn prepare(
        &self,
        text: &str,
        kinds: &[Kind],
    ) -> impl Future<Output = Result<Prepared, WireError>> + Send + use<> {
        let prepared = Prepared(self.prepared.fetch_add(1, Ordering::Relaxed));
        let asked = answer(self.pipeline.clone(), self.ask(|out| put_prepare(out, prepared, text, kinds)));
        async move { asked.await.map(|_| prepared) }
    }

    /// Sends a statement with its values. What comes back is as the server keeps it.
    pub(super) fn execute(
        &self,
        statement: Prepared,
        values: &[Param<'_>],
    ) -> impl Future<Output = Result<Reply, WireError>> + Send + use<> {
        answer(self.pipeline.clone(), self.ask(|out| put_execute(out, statement, values)))
    }

    /// Carried out also if nobody waits for the answer: that is what makes an answer that is missing harmless.
    ///
    /// # Errors
    /// It was not sent.
    fn ask(&self, put: impl FnOnce(&mut Vec<u8>) -> bool) -> Result<PendingReply<PostgresReply>, WireError> {
        let mut request = Vec::with_capacity(USUAL_REQUEST);
        if !put(&mut request) {
            return Err(Talk::too_long());
        }
        let reply = self.pipeline.send_kept(&request, ());
        reply.ok_or_else(|| WireError::Ended(self.pipeline.reason()))
    }
}

type PostgresReply = Result<Reply, WireError>;

async fn answer(
    pipeline: Arc<Pipeline<Talk>>,
    asked: Result<PendingReply<PostgresReply>, WireError>,
) -> PostgresReply {
    asked?.await.unwrap_or_else(|_| Err(WireError::Ended(pipeline.reason())))
}
