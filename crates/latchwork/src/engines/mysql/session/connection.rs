//! One connection with the locks that the server keeps for it.

use std::sync::{Arc, OnceLock};

use super::super::connection::Connection as Plain;
use super::super::failure::{code, failed, refused};
use super::super::grants;
use super::super::options::Options;
use super::super::statements::{NOW, Text};
use super::super::wire::{MysqlParam, Reply, StatementId, WireError, WireResult};
use crate::engine::Note;
use crate::engines::sql::session::{Backend, Connection, Key, Moving, Seen, Terms, Tried, still_there};
use crate::engines::sql::{Statement, Value};
use crate::{Effect, Error, ErrorKind, LockName, Result};

/// How often the server is asked whether a connection that was ended is gone, with 5 ms of its own time in between.
const MOST_LOOKS: usize = 600;
const NO_SUCH_THREAD: u16 = 1094;
/// Tells a connection from one with the same number after a restart: where its client is.
const SELF: &str = "SELECT CRC32(HOST) FROM information_schema.PROCESSLIST WHERE ID = CONNECTION_ID()";
const IS_THERE: &str = "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE ID = ? AND CRC32(HOST) = ?";
const IS_STILL_THERE: &str =
    "SELECT COUNT(*) + 0 * SLEEP(0.005) FROM information_schema.PROCESSLIST WHERE ID = ? AND CRC32(HOST) = ?";
/// A lock that every connection of ours has for itself alone, and never gives back. The server keeps no name for a
/// connection: this is how an operator tells it from another program's.
const MARK: &str = "DO GET_LOCK(CONCAT('latchwork:', CONNECTION_ID()), 0)";
/// The holder of a lock: number, address, user, and whether it is one of ours. Other users' connections are only
/// shown to those who may see them.
const SEEN: &str = "SELECT h.id, CRC32(COALESCE(p.HOST, '')), COALESCE(CONCAT(p.USER, '@', p.HOST), ''), \
                    COALESCE(IS_USED_LOCK(CONCAT('latchwork:', h.id)) = h.id, 0) \
                    FROM (SELECT IS_USED_LOCK(?) AS id) AS h LEFT JOIN information_schema.PROCESSLIST AS p ON p.ID = h.id \
                    WHERE h.id IS NOT NULL";

/// A connection.
pub(super) struct Named {
    plain: Plain,
    backend: Backend,
    try_get: StatementId,
    get: StatementId,
    release: StatementId,
    is_there: StatementId,
    is_still_there: StatementId,
    seen: StatementId,
    draw: OnceLock<StatementId>,
}

/// Something that shares its connections between clients.
///
/// # Errors
/// [`ErrorKind::Unsupported`] with the reason.
pub(super) async fn refuse_proxy(options: &Arc<Options>) -> Result<()> {
    let (first, second) = (Plain::open(options.clone()).await?, Plain::open(options.clone()).await?);
    let ask = async |connection: &Plain, text: &str| -> Result<Option<Value>> {
        let reply = connection.command(text).await.map_err(|wire_error| refused(&wire_error, options))?;
        Ok(last(&reply))
    };
    const NUMBER: &str = "SELECT CONNECTION_ID()";
    let before = ask(&first, NUMBER).await?;
    ask(&second, "BEGIN").await?;
    if ask(&second, NUMBER).await? == before || ask(&first, NUMBER).await? != before {
        let why = "a proxy shares server connections between clients, and a session lock would stay with the next one; name the \
                   server itself, or leave scheme=session out";
        return Err(unfit(options, why));
    }
    Ok(())
}

fn unfit(options: &Options, why: &str) -> Error {
    Error::new(ErrorKind::Unsupported, format!("{} at {}: {why}", options.engine, options.place))
}

/// A server that follows another, and one of a cluster, whose locks the others do not know. Looked at on every connection: a name
/// may lead to another server by then, and a primary may have become a replica.
///
/// # Errors
/// [`ErrorKind::Unsupported`] with the reason.
fn refuse_unfit(is_read_only: &Reply, cluster_size: &Reply, options: &Options) -> Result<()> {
    let is_yes =
        |value: Option<Value>| matches!(value, Some(Value::Bytes(text)) if text != b"0" && text != b"OFF");
    if is_yes(last(is_read_only)) {
        let why = "it is read only, as a replica is, and its locks are not the primary's; name the primary";
        return Err(unfit(options, why));
    }
    if is_yes(last(cluster_size)) {
        let why = "it is a member of a Galera cluster, and the others do not know its locks; leave scheme=session out";
        return Err(unfit(options, why));
    }
    Ok(())
}

impl Named {
    /// # Errors
    /// What the server says.
    pub(super) async fn open(options: Arc<Options>, terms: &Terms, moving: &Arc<Moving>) -> Result<Self> {
        let plain = Plain::open_moved(options.clone(), moving).await?;
        // Whole seconds, as MySQL has it.
        let slice = terms.slice().as_secs().max(1);
        let limit = if plain.is_mariadb() { "max_statement_time" } else { "max_execution_time" };
        let set = plain.command(&format!("SET SESSION wait_timeout = {}, {limit} = 0", terms.ttl.as_secs()));
        let (wait, release) = (format!("SELECT GET_LOCK(?, {slice})"), "SELECT RELEASE_LOCK(?)");
        let texts = ["SELECT GET_LOCK(?, 0)", &wait, release, IS_THERE, IS_STILL_THERE, SEEN];
        let [try_get, get, release, is_there, is_still_there, seen] = texts.map(|text| plain.prepare(text));
        let mark = plain.command(MARK);
        let (me, read_only) = (plain.command(SELF), plain.command("SELECT @@GLOBAL.read_only"));
        let cluster_size = plain.command("SHOW GLOBAL STATUS LIKE 'wsrep_cluster_size'");
        let prepared = async {
            set.await?;
            mark.await?;
            let (try_get, get, release) = (try_get.await?, get.await?, release.await?);
            let prepared = (try_get, get, release, is_there.await?, is_still_there.await?, seen.await?);
            Ok((prepared, me.await?, read_only.await?, cluster_size.await?))
        };
        let prepared: WireResult<_> = prepared.await;
        let (prepared, me, is_read_only, cluster_size) =
            prepared.map_err(|wire_error| refused(&wire_error, &options))?;
        refuse_unfit(&is_read_only, &cluster_size, &options)?;
        let (try_get, get, release, is_there, is_still_there, seen) = prepared;
        let since = first(&me).map(number).unwrap_or_default();
        let backend = Backend { number: plain.thread().into(), since };
        let draw = OnceLock::new();
        Ok(Self { plain, backend, try_get, get, release, is_there, is_still_there, seen, draw })
    }

    async fn answer<T>(&self, asked: impl Future<Output = WireResult<T>>) -> Result<T> {
        asked.await.map_err(|wire_error| failed(&wire_error, self.plain.options()))
    }

    /// Whether the server says 1. It says nothing if it could not do it.
    async fn yes(&self, statement: StatementId, values: &[MysqlParam<'_>]) -> Result<Option<bool>> {
        Ok(is_yes(&self.answer(self.plain.execute(statement, values)).await?))
    }

    async fn get(&self, statement: StatementId, key: Key) -> Result<bool> {
        let options = self.plain.options();
        if self.plain.is_closed() {
            let message = format!("{} at {}: the connection ended before", options.engine, options.place);
            return Err(Error::new(ErrorKind::Unreachable, message).with_effect(Effect::None));
        }
        match self
            .plain
            .execute(statement, &[MysqlParam::Bytes(&key.digits())])
            .await
            .map(|reply| is_yes(&reply))
        {
            Ok(Some(is_held)) => Ok(is_held),
            Ok(None) => {
                let message = format!("{} at {}: GET_LOCK failed", options.engine, options.place);
                Err(Error::new(ErrorKind::Unreachable, message).with_effect(Effect::Unknown))
            }
            // A lock does not go with the statement that took it.
            Err(wire_error) => Err(failed(&wire_error, options).with_effect(Effect::Unknown)),
        }
    }

    /// The statement that draws tokens. Two may prepare it at once: nobody waits for another, who may stand still.
    async fn draw(&self) -> Result<StatementId> {
        match self.draw.get() {
            Some(draw) => Ok(*draw),
            None => {
                let prepared = self.prepare_draw().await?;
                Ok(*self.draw.get_or_init(|| prepared))
            }
        }
    }

    /// Makes the table of tokens if it is missing.
    async fn prepare_draw(&self) -> Result<StatementId> {
        let options = self.plain.options();
        let table = format!("{}_fence", options.table);
        let text = include_str!("draw.sql").replace("{fence}", &table).replace("{now}", NOW);
        let prepared = match self.plain.prepare(&text).await {
            Err(WireError::Refused { code: code::NO_SUCH_TABLE, .. }) => {
                match self.plain.command(&self::table(&table)).await {
                    Ok(_) => self.plain.prepare(&text).await,
                    Err(wire_error) => Err(wire_error),
                }
            }
            prepared => prepared,
        };
        match prepared {
            Ok(prepared) => Ok(prepared),
            Err(wire_error) => {
                Err(self.plain.with_grants(refused(&wire_error, options), grants::of_tokens).await)
            }
        }
    }
}

/// The statement that makes the table of tokens.
pub(in super::super) fn table(name: &str) -> String {
    include_str!("fence.sql").replace("{fence}", name)
}

fn is_yes(reply: &Reply) -> Option<bool> {
    match first(reply) {
        None | Some(Value::Null) => None,
        Some(value) => Some(number(value) == 1),
    }
}

/// The last value of the first row.
fn last(reply: &Reply) -> Option<Value> {
    reply.rows.first().and_then(|row| row.last()).cloned()
}

fn first(reply: &Reply) -> Option<&Value> {
    reply.rows.first().and_then(|row| row.first())
}

/// Numbers come as texts where the statement was not prepared.
fn number(value: &Value) -> i64 {
    match value {
        Value::Int(number) => *number,
        Value::Bytes(text) => String::from_utf8_lossy(text).parse().unwrap_or_default(),
        Value::Text(text) => text.parse().unwrap_or_default(),
        Value::Null => 0,
    }
}

impl Connection for Named {
    fn backend(&self) -> Backend {
        self.backend
    }

    fn is_closed(&self) -> bool {
        self.plain.is_closed()
    }

    async fn try_lock(&self, key: Key, fenced: Option<&LockName>, _: &Note) -> Result<Tried> {
        if !self.get(self.try_get, key).await? {
            return Ok(Tried::Busy);
        }
        match fenced {
            None => Ok(Tried::Held(None)),
            // The lock does not go with a token that could not be drawn.
            Some(name) => {
                let drawing = Box::pin(self.draw_token(name));
                let token = drawing.await.map_err(|error| error.with_effect(Effect::Unknown))?;
                Ok(Tried::Held(Some(token)))
            }
        }
    }

    async fn wait_lock(&self, key: Key, _: &Note) -> Result<bool> {
        self.get(self.get, key).await
    }

    async fn draw_token(&self, name: &LockName) -> Result<u64> {
        let draw = self.draw().await?;
        let reply =
            self.answer(self.plain.execute(draw, &[MysqlParam::Bytes(name.as_str().as_bytes())])).await?;
        // Only then: otherwise the number is that of an earlier statement.
        match (reply.matched, reply.insert_id) {
            (1.., token) if token < 1 << 55 => Ok(token),
            (_, token) => {
                let message = format!(
                    "{}: {token} cannot be a token; it must be below 2^55",
                    self.plain.options().engine
                );
                Err(Error::new(ErrorKind::Corrupt, message))
            }
        }
    }

    async fn is_sweep_due(&self) -> Result<bool> {
        let options = self.plain.options();
        let Text { words, .. } = Text::of(Statement::SweepDue, options.scheme, &options.table);
        Ok(first(&self.answer(self.plain.command(&words)).await?).is_some())
    }

    async fn unlock(&self, key: Key) -> Result<bool> {
        let reply =
            self.answer(self.plain.execute(self.release, &[MysqlParam::Bytes(&key.digits())])).await?;
        Ok(is_yes(&reply) == Some(true))
    }

    async fn beat(&self) -> Result<()> {
        self.answer(self.plain.command("DO 1")).await.map(drop)
    }

    async fn end(&self, Backend { number: other, since }: Backend) -> Result<bool> {
        if since == 0 {
            let Options { engine, place, .. } = &**self.plain.options();
            let message = format!(
                "{engine} at {place}: connection {other} is another user's, which this one may neither see nor end; it needs the \
                 rights PROCESS and CONNECTION ADMIN (MySQL: CONNECTION_ADMIN)"
            );
            return Err(Error::new(ErrorKind::Denied, message));
        }
        let values = [MysqlParam::Int(other), MysqlParam::Int(since)];
        if self.yes(self.is_there, &values).await? != Some(true) {
            return Ok(false);
        }
        match self.plain.command(&format!("KILL CONNECTION {other}")).await {
            Err(WireError::Refused { code: NO_SUCH_THREAD, .. }) => return Ok(false),
            killed => drop(killed.map_err(|wire_error| failed(&wire_error, self.plain.options()))?),
        }
        for _ in 0..MOST_LOOKS {
            if self.yes(self.is_still_there, &values).await? != Some(true) {
                return Ok(true);
            }
        }
        let Options { engine, place, .. } = &**self.plain.options();
        Err(still_there(engine, place, other))
    }

    async fn seen(&self, key: Key) -> Result<Vec<Seen>> {
        let reply = self.answer(self.plain.execute(self.seen, &[MysqlParam::Bytes(&key.digits())])).await?;
        let read = reply.rows.iter().filter_map(|row| {
            let [id, since, who, is_ours] = row else { return None };
            let who = match who {
                Value::Bytes(text) => String::from_utf8_lossy(text).into_owned(),
                _ => String::new(),
            };
            let backend = Backend { number: number(id), since: number(since) };
            let of = if who.is_empty() { "" } else { " of " };
            let note = Note::new(&format!("connection {}{of}{who}", backend.number));
            let stranger = (number(is_ours) != 1).then_some(who);
            Some(Seen { backend, is_held: true, stranger, note })
        });
        Ok(read.collect())
    }
}
