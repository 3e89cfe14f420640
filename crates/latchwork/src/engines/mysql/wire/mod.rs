//! The protocol of MySQL and MariaDB, as far as locks need it: prepared statements with their values, many under way at once.

mod auth;
mod bytes;
mod desk;
mod driver;
mod handshake;
mod reply;
mod request;
mod stream;

use std::future::Future;
use std::sync::Arc;

use self::desk::{Answered, Desk};
use self::driver::Driver;
pub(super) use self::handshake::{Greeting, Login};
use self::reply::Next;
pub(super) use self::reply::Reply;
pub(super) use self::request::{Param, Prepared};
use crate::engines::sql::session::{Moving, Socket};

/// Why there is no answer, or a bad one.
#[derive(Clone, Debug)]
pub(super) enum Trouble {
    /// The server said no.
    Refused { code: u16, words: String },
    /// The connection ended, or cannot be used any more.
    Ended(String),
    /// Something that the two cannot agree on, before anything was asked.
    Unable(String),
}

impl From<std::io::Error> for Trouble {
    fn from(error: std::io::Error) -> Self {
        Self::Ended(error.to_string())
    }
}

/// A connection. It never comes back to life: whoever finds it closed opens another. It ends when nobody has it any more.
pub(super) struct Wire {
    desk: Arc<Desk>,
}

impl Wire {
    /// Connects, encrypts if that was asked for, and logs in. Moves on the runtime it is called on, or as `moving` has it.
    ///
    /// # Errors
    /// Nothing was asked then.
    pub(super) async fn open(
        login: &Login,
        moving: Option<&Arc<Moving>>,
    ) -> Result<(Self, Greeting), Trouble> {
        let socket = Socket::connect(&login.host, login.port).await?;
        let twin = if login.tls.is_none() { Some(socket.twin()?) } else { None };
        let (stream, greeting) = handshake::begin(login, Box::new(socket)).await?;
        let desk = Arc::new(Desk::new(twin, greeting.ends));
        let driving = Driver::new(stream, desk.clone());
        match moving {
            Some(moving) => moving.start(driving),
            None => drop(tokio::spawn(driving)),
        }
        Ok((Self { desk }, greeting))
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
    pub(super) fn query(&self, text: &str) -> impl Future<Output = Result<Reply, Trouble>> + Send + use<> {
        let put = |packet: &mut Vec<u8>| request::put_query(packet, text);
        self.answer(self.desk.ask(Next::First { is_binary: false }, false, put))
    }

    /// The same for one without which the connection is of no use: if it is refused, the connection ends, and what was sent behind
    /// it gets no answer.
    pub(super) fn demand(&self, text: &str) {
        drop(
            self.desk.ask(Next::First { is_binary: false }, true, |packet| request::put_query(packet, text)),
        );
    }

    pub(super) fn execute(
        &self,
        statement: Prepared,
        values: &[Param<'_>],
    ) -> impl Future<Output = Result<Reply, Trouble>> + Send + use<> {
        let put = |packet: &mut Vec<u8>| request::put_execute(packet, statement, values);
        self.answer(self.desk.ask(Next::First { is_binary: true }, false, put))
    }

    pub(super) fn prepare(
        &self,
        text: &str,
    ) -> impl Future<Output = Result<Prepared, Trouble>> + Send + use<> {
        let put = |packet: &mut Vec<u8>| request::put_prepare(packet, text);
        let asked = self.answer(self.desk.ask(Next::FirstOfPrepared, false, put));
        async { Ok(Prepared(asked.await?.statement)) }
    }

    fn answer(
        &self,
        answered: Option<Answered>,
    ) -> impl Future<Output = Result<Reply, Trouble>> + Send + use<> {
        let desk = self.desk.clone();
        async move {
            match answered {
                Some(answered) => answered.await.unwrap_or_else(|_| Err(desk.why())),
                None => Err(Trouble::Unable("a statement of more than 16 MB".to_owned())),
            }
        }
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.desk.leave();
    }
}
