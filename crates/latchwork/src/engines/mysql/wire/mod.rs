//! The protocol of MySQL and MariaDB, as far as locks need it: prepared statements with their values, many under way at once.

mod auth;
mod bytes;
mod handshake;
mod reply;
mod request;
mod stream;
mod talk;

use std::future::Future;
use std::sync::Arc;

pub(super) use self::handshake::{Greeting, Login};
pub(super) use self::reply::Reply;
use self::reply::{Arriving, Ends, Next};
pub(super) use self::request::{Param, Prepared};
use self::stream::put_packet;
use self::talk::Talk;
use crate::engines::sql::session::{Moving, Socket};
use crate::engines::sql::{Answered, Desk, Driver};

/// Why there is no answer, or a bad one.
#[derive(Clone, Debug)]
pub(super) enum WireError {
    /// The server said no.
    Refused { code: u16, words: String },
    /// The connection ended, or cannot be used any more.
    Ended(String),
    /// Something that the two cannot agree on, before anything was asked.
    Unable(String),
}

impl From<std::io::Error> for WireError {
    fn from(error: std::io::Error) -> Self {
        Self::Ended(error.to_string())
    }
}

/// A connection. It never comes back to life: whoever finds it closed opens another. It ends when nobody has it any more.
pub(super) struct Wire {
    desk: Arc<Desk<Talk>>,
    ends: Ends,
}

impl Wire {
    /// Connects, encrypts if that was asked for, and logs in. Moves on the runtime it is called on, or as `moving` has it.
    ///
    /// # Errors
    /// Nothing was asked then.
    pub(super) async fn open(
        login: &Login,
        moving: Option<&Arc<Moving>>,
    ) -> Result<(Self, Greeting), WireError> {
        let socket = Socket::connect(&login.host, login.port).await?;
        let twin = if login.tls.is_none() { Some(socket.twin()?) } else { None };
        let (stream, greeting) = handshake::begin(login, Box::new(socket)).await?;
        let desk = Arc::new(Desk::new(Talk::default(), twin));
        let driving = Driver::new(stream, desk.clone());
        match moving {
            Some(moving) => moving.start(driving),
            None => drop(tokio::spawn(driving)),
        }
        Ok((Self { desk, ends: greeting.ends }, greeting))
    }

    pub(super) fn is_closed(&self) -> bool {
        self.desk.is_over()
    }

    /// Does not trust the connection any more: whoever waits for an answer hears that it ended.
    pub(super) fn hang_up(&self) {
        self.desk.end();
    }

    /// A command without values. It is on its way when this returns, and carried out whether its answer is waited for or not;
    /// so are those below.
    pub(super) fn query(&self, text: &str) -> impl Future<Output = Result<Reply, WireError>> + Send + use<> {
        self.desk
            .clone()
            .answer(self.ask(Next::First { is_binary: false }, |packet| request::put_query(packet, text)))
    }

    /// The same for one without which the connection is of no use: if it is refused, the connection ends, and what was sent behind
    /// it gets no answer.
    pub(super) fn demand(&self, text: &str) {
        let arriving = Arriving::new(Next::First { is_binary: false }, self.ends);
        let put = |out: &mut Vec<u8>| put_packet(out, 0, |packet| request::put_query(packet, text));
        drop(self.desk.ask(arriving, true, put));
    }

    pub(super) fn execute(
        &self,
        statement: Prepared,
        values: &[Param<'_>],
    ) -> impl Future<Output = Result<Reply, WireError>> + Send + use<> {
        let put = |packet: &mut Vec<u8>| request::put_execute(packet, statement, values);
        self.desk.clone().answer(self.ask(Next::First { is_binary: true }, put))
    }

    pub(super) fn prepare(
        &self,
        text: &str,
    ) -> impl Future<Output = Result<Prepared, WireError>> + Send + use<> {
        let asked = self
            .desk
            .clone()
            .answer(self.ask(Next::FirstOfPrepared, |packet| request::put_prepare(packet, text)));
        async { Ok(Prepared(asked.await?.statement)) }
    }

    /// `None` if it is too long to be sent.
    fn ask(&self, next: Next, put: impl FnOnce(&mut Vec<u8>)) -> Option<Answered<Talk>> {
        self.desk.ask(Arriving::new(next, self.ends), false, |out| put_packet(out, 0, put))
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.desk.leave();
    }
}
