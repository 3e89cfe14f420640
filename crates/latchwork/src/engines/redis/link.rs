//! One connection: commands, and the wake-ups that the server pushes.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{
    Arg, AsyncConnectionConfig, Cmd, Pipeline, PushInfo, PushKind, RedisError, RedisResult, ServerErrorKind,
    Value,
};
use tokio::sync::OnceCell;

use super::beats::Beats;
use super::failure::{Failure, code, refused, unanswered};
use super::options::Options;
use super::scripts::Script;
use crate::engine::ClaimId;
use crate::engines::cell_news::{CellNews, CellNewsDriven};
use crate::engines::links::Connection;
use crate::engines::mailbox::{Mailbox, News};
use crate::engines::pulse::{Driven, Pulse};
use crate::engines::unheard;
use crate::{Error, Result};

/// How long to try to reach the server. The core bounds every request as well.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);
/// Requests that may wait to be written. More wait for room.
const REQUESTS: usize = 1_024;

/// A connection to the server. It never comes back to life: whoever finds it closed opens another.
pub(super) struct Link {
    connection: MultiplexedConnection,
    /// In the order of the scripts.
    shas: Vec<String>,
    /// Of those that few need.
    shared_shas: OnceCell<Vec<String>>,
    pulse: Arc<Pulse>,
    /// Of the claims that wait on this runtime: another that nobody drives must not hold them up.
    pub(super) beats: Beats,
    /// What it said of cells that are watched.
    pub(super) cells: Arc<CellNews>,
    listening: OnceCell<()>,
    /// Whether the server tells of changes to keys that it was asked to.
    tracking: OnceCell<bool>,
}

fn received(pulse: &Pulse, cells: &CellNews, push: &PushInfo) {
    if let (PushKind::Message, Some(Value::BulkString(channel))) = (&push.kind, push.data.first())
        && channel.starts_with(super::cells::CHANNEL.as_bytes())
    {
        return cells.tell(&String::from_utf8_lossy(channel));
    }
    match (&push.kind, push.data.get(1)) {
        (PushKind::Message, Some(Value::BulkString(message))) => {
            if let Some((id, news)) = read_message(message) {
                pulse.mailbox.deliver(id, news);
            }
        }
        (PushKind::Invalidate, _) => changed(&pulse.mailbox, push.data.first()),
        (PushKind::Disconnection, _) => pulse.close(),
        _ => {}
    }
}

/// What the server says of keys that [`Link::watch`] asked about.
fn changed(mailbox: &Mailbox, keys: Option<&Value>) {
    match keys {
        Some(Value::Array(keys)) => {
            let keys = keys.iter().filter_map(|key| match key {
                Value::BulkString(key) => Some(key),
                _ => None,
            });
            keys.for_each(|key| mailbox.changed(key));
        }
        // All of them: the database was flushed.
        _ => mailbox.recheck_all(),
    }
}

/// A claim's id, and its token if it was granted.
fn read_message(message: &[u8]) -> Option<(ClaimId, News)> {
    let (id, token) = message.split_at_checked(32)?;
    let id = super::member::parse_id(id)?;
    match token {
        [] => Some((id, News::Recheck)),
        token => Some((id, News::Granted(std::str::from_utf8(token).ok()?.parse().ok()?))),
    }
}

impl Connection for Link {
    fn is_closed(&self) -> bool {
        self.pulse.is_closed()
    }
}

impl Link {
    /// Connects, and asks the server about itself.
    pub(super) async fn open(options: &Options, mailbox: &Arc<Mailbox>) -> Result<(Self, String)> {
        let pulse = Pulse::new(mailbox);
        let driven = Driven(pulse.clone());
        let cells = Arc::<CellNews>::default();
        let cells_driven = CellNewsDriven(cells.clone());
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT_LIMIT))
            .set_response_timeout(None)
            .set_pipeline_buffer_size(REQUESTS)
            .set_push_sender(move |push: PushInfo| {
                received(&driven.0, &cells_driven.0, &push);
                Ok::<(), ()>(())
            });
        let connecting = options.client.get_multiplexed_async_connection_with_config(&config);
        let mut connection = connecting.await.map_err(|error| refused(&error, options))?;
        let mut greeting = redis::pipe();
        greeting.cmd("INFO");
        load(&mut greeting, Script::of(options), options);
        let answers = tokio::time::timeout(CONNECT_LIMIT, greeting.query_async(&mut connection)).await;
        let answers: RedisResult<Vec<String>> = answers.unwrap_or_else(|_| Err(timed_out()));
        let mut answers = answers.map_err(|error| refused(&error, options))?.into_iter();
        let info = answers.next().unwrap_or_default();
        let shas = answers.collect();
        let link = Self {
            connection,
            shas,
            shared_shas: OnceCell::new(),
            pulse,
            beats: Beats::default(),
            cells,
            listening: OnceCell::new(),
            tracking: OnceCell::new(),
        };
        Ok((link, info))
    }

    /// Makes sure that the server knows the scripts of claims that hold together with others. Not before one is needed: a
    /// connection should cost those nothing who have none.
    ///
    /// # Errors
    /// If it cannot be told. Nothing was done then.
    pub(super) async fn learn_to_share(&self, options: &Options) -> Result<()> {
        let learn = || async {
            let mut scripts = redis::pipe();
            load(&mut scripts, Script::SHARED, options);
            let unheard = Unheard(&self.pulse);
            let shas = scripts.query_async(&mut self.connection.clone()).await;
            unheard.heard();
            shas
        };
        let learnt: RedisResult<_> = self.shared_shas.get_or_try_init(learn).await;
        learnt.map(|_| ()).map_err(|error| refused(&error, options))
    }

    fn sha(&self, script: Script) -> &str {
        match (script as usize).checked_sub(Script::FIRST_SHARED) {
            None => &self.shas[script as usize],
            Some(number) => &self.shared_shas.get().expect("whoever shares has learnt to")[number],
        }
    }

    /// Whether the server's messages to this client arrive here.
    pub(super) fn is_listening(&self) -> bool {
        self.listening.initialized()
    }

    /// Makes sure that the server's messages to this client arrive here. Before a claim may be queued: a message to
    /// nobody is lost, and its receiver taken for dead.
    pub(super) async fn listen(&self, channel: &str, options: &Options) -> Result<()> {
        let subscribe = || async {
            let unheard = Unheard(&self.pulse);
            let subscribed = self.connection.clone().subscribe(channel).await;
            unheard.heard();
            subscribed
        };
        let listening = self.listening.get_or_try_init(subscribe).await;
        listening.map(|_| ()).map_err(|error| refused(&error, options))
    }

    /// Makes sure that what is said on the channel of a cell arrives here.
    pub(super) async fn subscribe(&self, channel: &str, options: &Options) -> Result<()> {
        // Whoever watches a cell may stop at any time.
        let unheard = unheard::Unheard::of(|| self.pulse.close());
        let subscribed = self.connection.clone().subscribe(channel).await;
        unheard.heard();
        subscribed.map_err(|error| refused(&error, options))
    }

    /// Nobody wants to hear any more what is said there. A user who may not say so goes on hearing it.
    pub(super) async fn unsubscribe(&self, channel: &str) {
        let _ = self.connection.clone().unsubscribe(channel).await;
    }

    /// Asks the server to tell of the next change of `key`, and returns whether it is there now. `None` if the server does
    /// not do that, or does not let this user: then somebody has to look.
    pub(super) async fn watch(&self, key: &str) -> Option<bool> {
        let track = || async {
            let mut track = Cmd::new();
            track.arg("CLIENT").arg("TRACKING").arg("ON").arg("OPTIN").arg("NOLOOP");
            self.send(&track).await.is_ok()
        };
        if !*self.tracking.get_or_init(track).await {
            return None;
        }
        let mut look = redis::pipe();
        look.cmd("CLIENT").arg("CACHING").arg("YES").ignore().cmd("EXISTS").arg(key);
        let unheard = Unheard(&self.pulse);
        let looked: RedisResult<(bool,)> = look.query_async(&mut self.connection.clone()).await;
        unheard.heard();
        looked.ok().map(|(is_there,)| is_there)
    }

    /// Starts a call of `script`, one of those of its options, with `keys` keys to come.
    pub(super) fn script(&self, script: Script, keys: usize, bytes: usize) -> Cmd {
        let mut command = Cmd::with_capacity(keys * 3 + 8, bytes + 96);
        command.arg("EVALSHA").arg(self.sha(script)).arg(keys);
        command
    }

    /// Calls a script. A server that forgot it (SCRIPT FLUSH, a restart) did nothing, and is asked again with the text: in
    /// one step, or it could forget in between.
    pub(super) async fn call(&self, script: Script, command: &Cmd, options: &Options) -> Result<Value> {
        // Whoever only looks may stop at any time: that says nothing of the connection.
        let unheard = (!matches!(script, Script::Inspect | Script::CellWrite)).then(|| Unheard(&self.pulse));
        // Who writes a cell may stop as well, and is not one whom the core let wait for as long as it may take.
        let unheard_cell =
            matches!(script, Script::CellWrite).then(|| unheard::Unheard::of(|| self.pulse.close()));
        let answer = match self.send(command).await {
            Err(error) if error.kind() == redis::ErrorKind::Server(ServerErrorKind::NoScript) => {
                // Boxed, because it is rare, and all requests would be as large.
                Box::pin(self.send_spelled_out(script, command, options)).await
            }
            answer => answer,
        };
        unheard.into_iter().for_each(Unheard::heard);
        unheard_cell.into_iter().for_each(unheard::Unheard::heard);
        answer.map_err(|error| self.failed(&error, options))
    }

    async fn send_spelled_out(&self, script: Script, command: &Cmd, options: &Options) -> RedisResult<Value> {
        self.send(&spelled_out(command, &script.source(options))).await
    }

    /// Sends any other command.
    pub(super) async fn command(&self, command: &Cmd, options: &Options) -> Result<Value> {
        // Whoever only reads may be the only one who uses this connection, and must leave it when nobody answers.
        let unheard = unheard::Unheard::of(|| self.pulse.close());
        let answer = self.send(command).await;
        unheard.heard();
        answer.map_err(|error| self.failed(&error, options))
    }

    async fn send(&self, command: &Cmd) -> RedisResult<Value> {
        // The crate gives a server's error as a value here.
        self.connection.clone().send_packed_command(command).await.and_then(Value::extract_error)
    }

    fn failed(&self, error: &RedisError, options: &Options) -> Error {
        let failure = Failure::of(error);
        // A master that was demoted stays so: another may have its address by now, and whoever connects finds out.
        if failure == Failure::Connection || code(error) == Some("READONLY") {
            self.pulse.close();
        }
        unanswered(failure, error, options)
    }
}

fn load(pipe: &mut Pipeline, scripts: &[Script], options: &Options) {
    for script in scripts {
        pipe.cmd("SCRIPT").arg("LOAD").arg(script.source(options));
    }
}

fn timed_out() -> RedisError {
    io::Error::new(io::ErrorKind::TimedOut, format!("no answer within {CONNECT_LIMIT:?}")).into()
}

/// The same call with the script's text instead of its digest.
fn spelled_out(command: &Cmd, text: &str) -> Cmd {
    let mut spelled_out = Cmd::new();
    spelled_out.arg("EVAL").arg(text);
    for arg in command.args_iter().skip(2) {
        if let Arg::Simple(arg) = arg {
            spelled_out.arg(arg);
        }
    }
    spelled_out
}

/// A request that was dropped before its answer came: the core waited long enough. The connection may be cut off
/// without a word, so the next request opens another.
struct Unheard<'a>(&'a Pulse);

impl Unheard<'_> {
    fn heard(self) {
        std::mem::forget(self);
    }
}

impl Drop for Unheard<'_> {
    fn drop(&mut self) {
        self.0.close();
    }
}
