//! One connection: commands, and the wake-ups that the server pushes.

use std::sync::Arc;

use tokio::sync::OnceCell;

use super::failure::{Failure, code, not_greeted, not_selected, refused, unanswered};
use super::heartbeats::Heartbeats;
use super::options::{Login, Options};
use super::push::PushCodec;
use super::scripts::Script;
use super::wire::{Command, Value, WireError};
use crate::engines::cell_subscriptions::CellSubscriptions;
use crate::engines::waiter_table::WaiterTable;
use crate::net::abandon::AbandonGuard;
use crate::net::deadline;
use crate::net::per_runtime::Closable;
use crate::net::pipeline::{PendingReply, Pipeline};
use crate::{Error, Result};

/// A connection to the server. It never comes back to life: whoever finds it closed opens another.
pub(super) struct Connection {
    pipeline: Pipeline<PushCodec>,
    /// In the order of the scripts.
    shas: Vec<String>,
    /// Of those that few need.
    shared_shas: OnceCell<Vec<String>>,
    /// Of the claims that wait on this runtime: another that nobody drives must not hold them up.
    pub(super) heartbeats: Heartbeats,
    /// What it said of cells that are watched.
    pub(super) cells: Arc<CellSubscriptions>,
    listening: OnceCell<()>,
    /// Whether the server tells of changes to keys that it was asked to.
    tracking: OnceCell<bool>,
}

/// What came of a request, before anybody thought about what it means.
type Asked<T> = std::result::Result<T, WireError>;

impl Closable for Connection {
    fn is_closed(&self) -> bool {
        self.pipeline.is_retired()
    }
}

impl Connection {
    /// Connects, and asks the server about itself.
    pub(super) async fn open(options: &Options, waiters: &Arc<WaiterTable>) -> Result<(Self, String)> {
        let cells = Arc::<CellSubscriptions>::default();
        let hearing = PushCodec { waiters: waiters.clone(), cells: cells.clone() };
        let connected = in_time(async { Ok(options.address.connect(hearing).await?) }).await;
        let pipeline = connected.map_err(|wire_error| refused(&wire_error, options))?;
        let greeted = in_time(greet(&pipeline, options)).await;
        let (info, shas) = greeted.map_err(|wire_error| refused(&wire_error, options))?;
        let connection = Self {
            pipeline,
            shas,
            shared_shas: OnceCell::new(),
            heartbeats: Heartbeats::default(),
            cells,
            listening: OnceCell::new(),
            tracking: OnceCell::new(),
        };
        Ok((connection, info))
    }

    /// Makes sure that the server knows the scripts of claims that hold together with others. Not before one is needed: a
    /// connection should cost those nothing who have none.
    ///
    /// # Errors
    /// If it cannot be told. Nothing was done then.
    pub(super) async fn learn_to_share(&self, options: &Options) -> Result<()> {
        let learn = || async {
            let guard = AbandonGuard::retire(|| self.pipeline.retire());
            let shas = ask_all(&self.pipeline, load(Script::SHARED, options)).await.map(texts);
            guard.answered();
            shas
        };
        let learnt = self.shared_shas.get_or_try_init(learn).await;
        learnt.map(|_| ()).map_err(|wire_error| refused(&wire_error, options))
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
            let guard = AbandonGuard::retire(|| self.pipeline.retire());
            let subscribed = self.send(&mut Command::of(&["SUBSCRIBE", channel])).await;
            guard.answered();
            subscribed.map(drop)
        };
        let listening = self.listening.get_or_try_init(subscribe).await;
        listening.map(|_| ()).map_err(|wire_error| refused(&wire_error, options))
    }

    /// Makes sure that what is said on the channel of a cell arrives here.
    pub(super) async fn subscribe(&self, channel: &str, options: &Options) -> Result<()> {
        let subscribed = self.ask_while_wanted(&mut Command::of(&["SUBSCRIBE", channel])).await;
        subscribed.map(drop).map_err(|wire_error| refused(&wire_error, options))
    }

    /// Nobody wants to hear any more what is said there. A user who may not say so goes on hearing it.
    pub(super) async fn unsubscribe(&self, channel: &str) {
        let _ = self.send(&mut Command::of(&["UNSUBSCRIBE", channel])).await;
    }

    /// Asks the server to tell of the next change of `key`, and returns whether it is there now. `None` if the server does
    /// not do that, or does not let this user: then somebody has to look.
    pub(super) async fn watch(&self, key: &str) -> Option<bool> {
        let track = || async {
            self.send(&mut Command::of(&["CLIENT", "TRACKING", "ON", "OPTIN", "NOLOOP"])).await.is_ok()
        };
        if !*self.tracking.get_or_init(track).await {
            return None;
        }
        // The first is about the next command of this connection, whosever that is.
        let look = vec![Command::of(&["CLIENT", "CACHING", "YES"]), Command::of(&["EXISTS", key])];
        let guard = AbandonGuard::retire(|| self.pipeline.retire());
        let looked = ask_all(&self.pipeline, look).await;
        guard.answered();
        match looked.ok()?.pop()? {
            Value::Int(count) => Some(count > 0),
            _ => None,
        }
    }

    /// Starts a call of `script`, one of those of its options, with `keys` keys to come.
    pub(super) fn script(&self, script: Script, keys: usize, bytes: usize) -> Command {
        Command::script(self.sha(script), keys, bytes)
    }

    /// Calls a script. A server that forgot it (SCRIPT FLUSH, a restart) did nothing, and is asked again with the text: in
    /// one step, or it could forget in between.
    pub(super) async fn call(
        &self,
        script: Script,
        mut command: Command,
        options: &Options,
    ) -> Result<Value> {
        match self.call_known(script, &mut command, options).await? {
            Some(answer) => Ok(answer),
            // Boxed, because it is rare, and all requests would be as large.
            None => Box::pin(self.call_spelled_out(script, &command, options)).await,
        }
    }

    /// Calls a script that the server knows; `None` if it forgot it. It is sent when this is first polled.
    pub(super) async fn call_known(
        &self,
        script: Script,
        command: &mut Command,
        options: &Options,
    ) -> Result<Option<Value>> {
        match self.ask(script, command).await {
            Err(wire_error) if wire_error.code() == Some("NOSCRIPT") => Ok(None),
            answer => answer.map(Some).map_err(|wire_error| self.failed(&wire_error, options)),
        }
    }

    /// The same call with the script's text. It is sent when this is first polled.
    pub(super) async fn call_spelled_out(
        &self,
        script: Script,
        command: &Command,
        options: &Options,
    ) -> Result<Value> {
        let mut command = command.spelled_out(&script.source(options));
        self.ask(script, &mut command).await.map_err(|wire_error| self.failed(&wire_error, options))
    }

    /// Sends any other command.
    pub(super) async fn command(&self, mut command: Command, options: &Options) -> Result<Value> {
        let answer = self.ask_while_wanted(&mut command).await;
        answer.map_err(|wire_error| self.failed(&wire_error, options))
    }

    async fn ask(&self, script: Script, command: &mut Command) -> Asked<Value> {
        // Who looks, or writes a cell, is not one whom the core let wait for as long as it may take.
        if matches!(script, Script::Inspect | Script::CellWrite) {
            return self.ask_while_wanted(command).await;
        }
        let guard = AbandonGuard::retire(|| self.pipeline.retire());
        let answer = self.send(command).await;
        guard.answered();
        answer
    }

    /// For callers that may cancel at any time.
    async fn ask_while_wanted(&self, command: &mut Command) -> Asked<Value> {
        let guard = AbandonGuard::retire_if_slow(|| self.pipeline.retire());
        let answer = self.send(command).await;
        guard.answered();
        answer
    }

    async fn send(&self, command: &mut Command) -> Asked<Value> {
        let answered = self.pipeline.send(command.packed(), ()).ok_or_else(|| ended(&self.pipeline))?;
        answer(&self.pipeline, answered).await
    }

    fn failed(&self, wire_error: &WireError, options: &Options) -> Error {
        let failure = Failure::of(wire_error);
        // A master that was demoted stays so: another may have its address by now, and whoever connects finds out.
        if failure == Failure::Broken || code(wire_error) == Some("READONLY") {
            self.pipeline.retire();
        }
        unanswered(failure, wire_error, options)
    }
}

/// Logs in, and asks all that has to be known, in one round trip.
async fn greet(pipeline: &Pipeline<PushCodec>, options: &Options) -> Asked<(String, Vec<String>)> {
    let Login { user, password, database } = &options.login;
    let mut hello = Command::of(&["HELLO", "3"]);
    if let Some(password) = password {
        hello.arg("AUTH").arg(user.as_deref().unwrap_or("default")).arg(&password[..]);
    }
    let name = |what, value| Command::of(&["CLIENT", "SETINFO", what, value]);
    let mut greeting = vec![hello];
    greeting.extend([name("LIB-NAME", "latchwork"), name("LIB-VER", env!("CARGO_PKG_VERSION"))]);
    // Only if it is another than everybody begins with: a user may not be let.
    greeting.extend((*database > 0).then(|| Command::of(&["SELECT", &database.to_string()])));
    greeting.push(Command::of(&["INFO"]));
    greeting.extend(load(Script::of(options), options));
    let mut answers = send_all(pipeline, greeting)?.into_iter();
    let mut next = async || match answers.next() {
        Some(answered) => answer(pipeline, answered).await.map(Some),
        None => Ok(None),
    };
    next().await.map_err(|wire_error| not_greeted(wire_error, password.is_some()))?;
    for _ in ["LIB-NAME", "LIB-VER"] {
        // For people to read: an older server does not know it, and a user may not be let.
        if let Err(wire_error @ (WireError::Ended(_) | WireError::TimedOut(_))) = next().await {
            return Err(wire_error);
        }
    }
    if *database > 0 {
        next().await.map_err(not_selected)?;
    }
    let info = next().await?.map(text).unwrap_or_default();
    let mut shas = Vec::new();
    while let Some(sha) = next().await? {
        shas.push(text(sha));
    }
    Ok((info, shas))
}

fn load(scripts: &[Script], options: &Options) -> Vec<Command> {
    scripts.iter().map(|script| Command::of(&["SCRIPT", "LOAD", &script.source(options)])).collect()
}

/// Sends these without any other between them.
fn send_all(pipeline: &Pipeline<PushCodec>, mut commands: Vec<Command>) -> Asked<Vec<PendingReply<Value>>> {
    let count = commands.len();
    let bytes = commands.iter_mut().flat_map(|command| command.packed().iter().copied());
    pipeline
        .send_all(&bytes.collect::<Vec<_>>(), std::iter::repeat_n((), count))
        .ok_or_else(|| ended(pipeline))
}

async fn ask_all(pipeline: &Pipeline<PushCodec>, commands: Vec<Command>) -> Asked<Vec<Value>> {
    let mut answers = Vec::with_capacity(commands.len());
    for answered in send_all(pipeline, commands)? {
        answers.push(answer(pipeline, answered).await?);
    }
    Ok(answers)
}

async fn answer(pipeline: &Pipeline<PushCodec>, answered: PendingReply<Value>) -> Asked<Value> {
    match answered.await {
        Ok(Value::Refused(why)) => Err(WireError::Refused(why)),
        Ok(answer) => Ok(answer),
        Err(_) => Err(ended(pipeline)),
    }
}

fn ended(pipeline: &Pipeline<PushCodec>) -> WireError {
    WireError::Ended(pipeline.reason())
}

async fn in_time<T>(asking: impl Future<Output = Asked<T>>) -> Asked<T> {
    let late = || WireError::TimedOut(format!("no answer within {:?}", deadline::CONNECT));
    tokio::time::timeout(deadline::CONNECT, asking).await.unwrap_or_else(|_| Err(late()))
}

fn texts(values: Vec<Value>) -> Vec<String> {
    values.into_iter().map(text).collect()
}

fn text(value: Value) -> String {
    match value {
        Value::BulkString(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        _ => String::new(),
    }
}
