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
use self::message::{Arriving, Talk, put_execute, put_prepare, put_query};
pub(super) use self::message::{Kind, MOST, Param, Prepared, Reply, Row, WireError};
use super::options::Options;
use crate::engines::sql::session::Moving;
use crate::engines::sql::{Answered, Desk, Driver};

/// A connection. It never comes back to life: whoever finds it closed opens another. It ends when nobody has it any more.
pub(super) struct Wire {
    desk: Arc<Desk<Talk>>,
    prepared: AtomicU32,
}

impl Wire {
    /// Connects, encrypts if that was asked for, and logs in. Moves on the runtime it is called on, or as `moving` has it.
    ///
    /// # Errors
    /// Nothing was asked then.
    pub(super) async fn open(options: &Options, moving: Option<&Arc<Moving>>) -> Result<Self, WireError> {
        let (stream, twin) = login::log_in(options).await?;
        let desk = Arc::new(Desk::new(Talk, twin));
        let driving = Driver::new(stream, desk.clone());
        match moving {
            Some(moving) => moving.start(driving),
            None => drop(tokio::spawn(driving)),
        }
        Ok(Self { desk, prepared: AtomicU32::new(0) })
    }

    pub(super) fn is_closed(&self) -> bool {
        self.desk.is_over()
    }

    /// Commands without values, in which nothing may stand that somebody else wrote. They are on their way when this returns, and
    /// carried out whether the answer is waited for or not; so are those below. What comes back is text.
    pub(super) fn query(&self, text: &str) -> impl Future<Output = Result<Reply, WireError>> + Send + use<> {
        self.desk.clone().answer(self.ask(|out| put_query(out, text)))
    }

    /// Makes a statement known to the server.
    pub(super) fn prepare(
        &self,
        text: &str,
        kinds: &[Kind],
    ) -> impl Future<Output = Result<Prepared, WireError>> + Send + use<> {
        let prepared = Prepared(self.prepared.fetch_add(1, Ordering::Relaxed));
        let asked = self.desk.clone().answer(self.ask(|out| put_prepare(out, prepared, text, kinds)));
        async move { asked.await.map(|_| prepared) }
    }

    /// Sends a statement with its values. What comes back is as the server keeps it.
    pub(super) fn execute(
        &self,
        statement: Prepared,
        values: &[Param<'_>],
    ) -> impl Future<Output = Result<Reply, WireError>> + Send + use<> {
        self.desk.clone().answer(self.ask(|out| put_execute(out, statement, values)))
    }

    fn ask(&self, put: impl FnOnce(&mut Vec<u8>) -> bool) -> Option<Answered<Talk>> {
        self.desk.ask(Arriving::default(), false, put)
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.desk.leave();
    }
}
