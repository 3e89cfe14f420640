//! One connection: the handshake, commands and scripts, subscriptions and key tracking.

use std::sync::Arc;

use tokio::sync::OnceCell;

use super::errors::{Failure, code, connect_error, handshake_error, request_error, select_error};
use super::heartbeats::Heartbeats;
use super::options::Options;
use super::push::PushCodec;
use super::scripts::{Digests, Script};
use super::wire::{Command, Reply, WireError};
use crate::engines::cell_subscriptions::CellSubscriptions;
use crate::engines::waiter_table::WaiterTable;
use crate::net::abandon::AbandonGuard;
use crate::net::deadline;
use crate::net::per_runtime::Closable;
use crate::net::pipeline::{PendingReply, Pipeline};
use crate::{Error, Result};

/// A connection to the server. Once closed it stays closed; its users open another.
pub(super) struct Connection {
    pipeline: Pipeline<PushCodec>,
    digests: Digests,
    /// Of [`Script::SHARED`], once they are loaded.
    shared_digests: OnceCell<Digests>,
    /// Of the claims that wait on this runtime: claims of a runtime that is not driven must not hold them up.
    pub(super) heartbeats: Heartbeats,
    pub(super) cells: Arc<CellSubscriptions>,
    /// Set once this connection is subscribed to the client's channel.
    listening: OnceCell<()>,
    /// Whether the server tracks keys for this connection.
    tracking: OnceCell<bool>,
}

impl Closable for Connection {
    fn is_closed(&self) -> bool {
        self.pipeline.is_retired()
    }
}

impl Connection {
    /// Connects, authenticates and loads the scripts. Also returns the server's INFO.
    pub(super) async fn open(options: &Options, waiters: &Arc<WaiterTable>) -> Result<(Self, String)> {
        let cells = Arc::<CellSubscriptions>::default();
        let codec = PushCodec { waiters: waiters.clone(), cells: cells.clone() };
        let connected = in_time(async { Ok(options.endpoint.connect(codec).await?) }).await;
        let pipeline = connected.map_err(|wire_error| connect_error(&wire_error, options))?;
        let greeted = in_time(handshake(&pipeline, options)).await;
        let (info, digests) = greeted.map_err(|wire_error| connect_error(&wire_error, options))?;
        let connection = Self {
            pipeline,
            digests,
            shared_digests: OnceCell::new(),
            heartbeats: Heartbeats::default(),
            cells,
            listening: OnceCell::new(),
            tracking: OnceCell::new(),
        };
        Ok((connection, info))
    }

    /// Loads the scripts of claims that hold together with others, unless that is done. Not before one is
    /// needed: clients without such claims should not pay for them with every connection.
    ///
    /// # Errors
    /// If they cannot be loaded. Nothing was done then.
    pub(super) async fn load_shared_scripts(&self, options: &Options) -> Result<()> {
        let load = || async {
            let guard = AbandonGuard::retire(|| self.pipeline.retire());
            let replies = send_all(&self.pipeline, load_commands(&Script::SHARED, options)).await;
            guard.answered();
            replies.map(|replies| Digests::new(&Script::SHARED, replies.into_iter().map(text)))
        };
        let loaded = self.shared_digests.get_or_try_init(load).await;
        loaded.map(drop).map_err(|wire_error| connect_error(&wire_error, options))
    }

    fn digest(&self, script: Script) -> &str {
        let shared = || self.shared_digests.get()?.get(script);
        self.digests.get(script).or_else(shared).expect("scripts are loaded before they are called")
    }

    /// Whether this connection is subscribed to the client's channel.
    pub(super) fn is_listening(&self) -> bool {
        self.listening.initialized()
    }

    /// Subscribes to the client's channel, unless that is done. Before a claim may be queued: a message to a
    /// channel without a subscriber is lost, and the claim taken for dead.
    pub(super) async fn listen(&self, channel: &str, options: &Options) -> Result<()> {
        let subscribe = || async {
            let guard = AbandonGuard::retire(|| self.pipeline.retire());
            let subscribed = self.send(&mut Command::of(&["SUBSCRIBE", channel])).await;
            guard.answered();
            subscribed.map(drop)
        };
        let listening = self.listening.get_or_try_init(subscribe).await;
        listening.map(drop).map_err(|wire_error| connect_error(&wire_error, options))
    }

    /// Subscribes to the channel of a cell.
    pub(super) async fn subscribe(&self, channel: &str, options: &Options) -> Result<()> {
        let subscribed = self.send_cancellable(&mut Command::of(&["SUBSCRIBE", channel])).await;
        subscribed.map(drop).map_err(|wire_error| connect_error(&wire_error, options))
    }

    /// Unsubscribes from the channel of a cell. If the user lacks the permission, the messages keep arriving.
    pub(super) async fn unsubscribe(&self, channel: &str) {
        let _ = self.send(&mut Command::of(&["UNSUBSCRIBE", channel])).await;
    }

    /// Asks the server to push the next change of `key`, and returns whether the key exists now. `None` if
    /// the server cannot track keys, or does not let this user: then the key has to be polled.
    pub(super) async fn track(&self, key: &str) -> Option<bool> {
        let enable = || async {
            self.send(&mut Command::of(&["CLIENT", "TRACKING", "ON", "OPTIN", "NOLOOP"])).await.is_ok()
        };
        if !*self.tracking.get_or_init(enable).await {
            return None;
        }
        // CACHING applies to the next command of this connection, so no other may come between.
        let commands = vec![Command::of(&["CLIENT", "CACHING", "YES"]), Command::of(&["EXISTS", key])];
        let guard = AbandonGuard::retire(|| self.pipeline.retire());
        let replies = send_all(&self.pipeline, commands).await;
        guard.answered();
        match replies.ok()?.pop()? {
            Reply::Int(count) => Some(count > 0),
            _ => None,
        }
    }

    /// Starts a call of `script`, which must be loaded. The caller appends `keys` keys, and then arguments.
    pub(super) fn script(&self, script: Script, keys: usize, bytes: usize) -> Command {
        Command::evalsha(self.digest(script), keys, bytes)
    }

    /// Calls a script. A server that lost it (SCRIPT FLUSH, a restart) did nothing, and is sent the source
    /// instead: with SCRIPT LOAD and another EVALSHA it could lose the script in between.
    pub(super) async fn call(
        &self,
        script: Script,
        mut command: Command,
        options: &Options,
    ) -> Result<Reply> {
        match self.call_by_digest(script, &mut command, options).await? {
            Some(reply) => Ok(reply),
            // Boxed, because it is rare and would make the future of every request as large.
            None => Box::pin(self.call_by_source(script, &command, options)).await,
        }
    }

    /// Calls a script by EVALSHA; `None` if the server lost it. Sent when this is first polled.
    pub(super) async fn call_by_digest(
        &self,
        script: Script,
        command: &mut Command,
        options: &Options,
    ) -> Result<Option<Reply>> {
        match self.send_script(script, command).await {
            Err(wire_error) if wire_error.code() == Some("NOSCRIPT") => Ok(None),
            reply => reply.map(Some).map_err(|wire_error| self.failed(&wire_error, options)),
        }
    }

    /// Calls a script by EVAL with its source. Sent when this is first polled.
    pub(super) async fn call_by_source(
        &self,
        script: Script,
        command: &Command,
        options: &Options,
    ) -> Result<Reply> {
        let mut command = command.with_source(&script.source(options));
        let reply = self.send_script(script, &mut command).await;
        reply.map_err(|wire_error| self.failed(&wire_error, options))
    }

    /// Sends any other command.
    pub(super) async fn command(&self, mut command: Command, options: &Options) -> Result<Reply> {
        let reply = self.send_cancellable(&mut command).await;
        reply.map_err(|wire_error| self.failed(&wire_error, options))
    }

    async fn send_script(&self, script: Script, command: &mut Command) -> Result<Reply, WireError> {
        // Inspecting and cell writes have no deadline of the core, and may be cancelled at any time.
        if matches!(script, Script::Inspect | Script::CellWrite) {
            return self.send_cancellable(command).await;
        }
        let guard = AbandonGuard::retire(|| self.pipeline.retire());
        let reply = self.send(command).await;
        guard.answered();
        reply
    }

    /// For callers that may cancel at any time.
    async fn send_cancellable(&self, command: &mut Command) -> Result<Reply, WireError> {
        let guard = AbandonGuard::retire_if_slow(|| self.pipeline.retire());
        let reply = self.send(command).await;
        guard.answered();
        reply
    }

    async fn send(&self, command: &mut Command) -> Result<Reply, WireError> {
        let pending = self.pipeline.send(command.packed(), ()).ok_or_else(|| closed(&self.pipeline))?;
        receive(&self.pipeline, pending).await
    }

    fn failed(&self, wire_error: &WireError, options: &Options) -> Error {
        let failure = Failure::of(wire_error);
        // A demoted master stays demoted. Another server may have its address by now, which a new connection
        // finds.
        if failure == Failure::Broken || code(wire_error) == Some("READONLY") {
            self.pipeline.retire();
        }
        request_error(failure, wire_error, options)
    }
}

/// Authenticates, reads INFO and loads the scripts, in one round trip.
async fn handshake(
    pipeline: &Pipeline<PushCodec>,
    options: &Options,
) -> Result<(String, Digests), WireError> {
    let password = &options.user.password;
    let mut hello = Command::of(&["HELLO", "3"]);
    if let Some(password) = password {
        hello.arg("AUTH").arg(options.user.name()).arg(&password[..]);
    }
    let set_info = |attribute, value| Command::of(&["CLIENT", "SETINFO", attribute, value]);
    let mut commands = vec![hello];
    commands.extend([set_info("LIB-NAME", "latchwork"), set_info("LIB-VER", env!("CARGO_PKG_VERSION"))]);
    // Only for another database than the initial one: the user may lack the permission.
    let has_select = options.database > 0;
    commands.extend(has_select.then(|| Command::of(&["SELECT", &options.database.to_string()])));
    commands.push(Command::of(&["INFO"]));
    let scripts = Script::of(options);
    commands.extend(load_commands(scripts, options));
    let mut pending = submit(pipeline, commands)?.into_iter();
    let mut next = async || match pending.next() {
        Some(pending) => receive(pipeline, pending).await.map(Some),
        None => Ok(None),
    };
    next().await.map_err(|wire_error| handshake_error(wire_error, password.is_some()))?;
    for _ in ["LIB-NAME", "LIB-VER"] {
        // For people to read: an older server does not know it, and the user may lack the permission.
        if let Err(wire_error @ (WireError::Closed(_) | WireError::TimedOut(_))) = next().await {
            return Err(wire_error);
        }
    }
    if has_select {
        next().await.map_err(select_error)?;
    }
    let info = next().await?.map(text).unwrap_or_default();
    let mut digests = Vec::new();
    while let Some(digest) = next().await? {
        digests.push(text(digest));
    }
    Ok((info, Digests::new(scripts, digests)))
}

fn load_commands(scripts: &[Script], options: &Options) -> Vec<Command> {
    scripts.iter().map(|script| Command::of(&["SCRIPT", "LOAD", &script.source(options)])).collect()
}

/// Sends these commands with no other between them.
fn submit(
    pipeline: &Pipeline<PushCodec>,
    mut commands: Vec<Command>,
) -> Result<Vec<PendingReply<Reply>>, WireError> {
    let count = commands.len();
    let bytes = commands.iter_mut().flat_map(|command| command.packed().iter().copied());
    pipeline
        .send_all(&bytes.collect::<Vec<_>>(), std::iter::repeat_n((), count))
        .ok_or_else(|| closed(pipeline))
}

async fn send_all(pipeline: &Pipeline<PushCodec>, commands: Vec<Command>) -> Result<Vec<Reply>, WireError> {
    let mut replies = Vec::with_capacity(commands.len());
    for pending in submit(pipeline, commands)? {
        replies.push(receive(pipeline, pending).await?);
    }
    Ok(replies)
}

async fn receive(pipeline: &Pipeline<PushCodec>, pending: PendingReply<Reply>) -> Result<Reply, WireError> {
    match pending.await {
        Ok(Reply::Error(why)) => Err(WireError::Refused(why)),
        Ok(reply) => Ok(reply),
        Err(_) => Err(closed(pipeline)),
    }
}

fn closed(pipeline: &Pipeline<PushCodec>) -> WireError {
    WireError::Closed(pipeline.reason())
}

async fn in_time<T>(attempt: impl Future<Output = Result<T, WireError>>) -> Result<T, WireError> {
    let late = || WireError::TimedOut(format!("no answer within {:?}", deadline::CONNECT));
    tokio::time::timeout(deadline::CONNECT, attempt).await.unwrap_or_else(|_| Err(late()))
}

fn text(value: Reply) -> String {
    match value {
        Reply::BulkString(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        _ => String::new(),
    }
}
