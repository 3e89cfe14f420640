//! One connection, for which the server keeps `GET_LOCK` locks.

use std::sync::{Arc, OnceLock};

use super::super::connection::Connection;
use super::super::errors::{code, failed, refused};
use super::super::grants;
use super::super::options::Options;
use super::super::statements::{NOW, Text};
use super::super::wire::{MysqlParam, Reply, StatementId, WireError, WireResult};
use crate::engine::Note;
use crate::engines::sql::session::{
    Backend, Key, Moving, Participant, SessionConnection, SessionTerms, TryLock, not_terminated,
};
use crate::engines::sql::{SqlValue, Statement};
use crate::{Effect, Error, ErrorKind, LockName, Result};

/// How often the client polls whether a killed connection is gone. The server itself pauses for 5 ms in
/// between.
const MAX_KILL_POLLS: usize = 600;
const NO_SUCH_THREAD: u16 = 1094;
/// The address of this connection's client. It distinguishes the connection from one with the same number
/// after a restart.
const OWN_HOST: &str = "SELECT CRC32(HOST) FROM information_schema.PROCESSLIST WHERE ID = CONNECTION_ID()";
const EXISTS: &str = "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE ID = ? AND CRC32(HOST) = ?";
const STILL_EXISTS: &str =
    "SELECT COUNT(*) + 0 * SLEEP(0.005) FROM information_schema.PROCESSLIST WHERE ID = ? AND CRC32(HOST) = ?";
/// Takes a lock whose name contains the connection's own number, and which is never released. The server
/// stores no name for a connection, so this marks the connection as one of Latchwork.
const MARK: &str = "DO GET_LOCK(CONCAT('latchwork:', CONNECTION_ID()), 0)";
/// The holder of a lock: its number, its address, its user and host, and whether it is marked. The server
/// shows the connections of other users only with the right PROCESS.
const HOLDER: &str = "SELECT h.id, CRC32(COALESCE(p.HOST, '')), COALESCE(CONCAT(p.USER, '@', p.HOST), ''), \
                    COALESCE(IS_USED_LOCK(CONCAT('latchwork:', h.id)) = h.id, 0) \
                    FROM (SELECT IS_USED_LOCK(?) AS id) AS h LEFT JOIN information_schema.PROCESSLIST AS p ON p.ID = h.id \
                    WHERE h.id IS NOT NULL";

/// A connection.
pub(super) struct MysqlAdvisoryConnection {
    plain: Connection,
    backend: Backend,
    try_lock: StatementId,
    wait_lock: StatementId,
    unlock: StatementId,
    exists: StatementId,
    still_exists: StatementId,
    holder: StatementId,
    draw_token: OnceLock<StatementId>,
}

/// Refuses a proxy that shares its server connections between clients.
///
/// # Errors
/// [`ErrorKind::Unsupported`] with the reason.
pub(super) async fn refuse_proxy(options: &Arc<Options>) -> Result<()> {
    let (first, second) =
        (Connection::open(options.clone()).await?, Connection::open(options.clone()).await?);
    let query = async |connection: &Connection, text: &str| -> Result<Option<SqlValue>> {
        let reply = connection.command(text).await.map_err(|wire_error| refused(&wire_error, options))?;
        Ok(last(&reply))
    };
    const NUMBER: &str = "SELECT CONNECTION_ID()";
    let before = query(&first, NUMBER).await?;
    query(&second, "BEGIN").await?;
    if query(&second, NUMBER).await? == before || query(&first, NUMBER).await? != before {
        let why = "a proxy shares server connections between clients, and a session lock would stay with the next one; name the \
                   server itself, or leave scheme=session out";
        return Err(unfit(options, why));
    }
    Ok(())
}

fn unfit(options: &Options, why: &str) -> Error {
    Error::new(ErrorKind::Unsupported, format!("{} at {}: {why}", options.engine, options.shown_as))
}

/// Refuses a replica, and a member of a cluster, whose locks the other members do not know. Checked on every
/// connection: the host name may resolve to another server by then, and a primary may have become a replica.
///
/// # Errors
/// [`ErrorKind::Unsupported`] with the reason.
fn refuse_unfit(is_read_only: &Reply, cluster_size: &Reply, options: &Options) -> Result<()> {
    let is_on = |value: Option<SqlValue>| matches!(value, Some(SqlValue::Bytes(text)) if text != b"0" && text != b"OFF");
    if is_on(last(is_read_only)) {
        let why = "it is read only, as a replica is, and its locks are not the primary's; name the primary";
        return Err(unfit(options, why));
    }
    if is_on(last(cluster_size)) {
        let why = "it is a member of a Galera cluster, and the other members do not know its locks; leave scheme=session out";
        return Err(unfit(options, why));
    }
    Ok(())
}

impl MysqlAdvisoryConnection {
    /// # Errors
    /// The error of the server.
    pub(super) async fn open(
        options: Arc<Options>,
        terms: &SessionTerms,
        moving: &Arc<Moving>,
    ) -> Result<Self> {
        let plain = Connection::open_moved(options.clone(), moving).await?;
        // MySQL takes whole seconds.
        let slice = terms.slice().as_secs().max(1);
        let limit = if plain.is_mariadb() { "max_statement_time" } else { "max_execution_time" };
        let set = plain.command(&format!("SET SESSION wait_timeout = {}, {limit} = 0", terms.ttl.as_secs()));
        let (wait, release) = (format!("SELECT GET_LOCK(?, {slice})"), "SELECT RELEASE_LOCK(?)");
        let texts = ["SELECT GET_LOCK(?, 0)", &wait, release, EXISTS, STILL_EXISTS, HOLDER];
        let [try_lock, wait_lock, unlock, exists, still_exists, holder] =
            texts.map(|text| plain.prepare(text));
        let mark = plain.command(MARK);
        let (own_host, read_only) = (plain.command(OWN_HOST), plain.command("SELECT @@GLOBAL.read_only"));
        let cluster_size = plain.command("SHOW GLOBAL STATUS LIKE 'wsrep_cluster_size'");
        let prepared = async {
            set.await?;
            mark.await?;
            let (try_lock, wait_lock, unlock) = (try_lock.await?, wait_lock.await?, unlock.await?);
            let (exists, still_exists, holder) = (exists.await?, still_exists.await?, holder.await?);
            let prepared = (try_lock, wait_lock, unlock, exists, still_exists, holder);
            Ok((prepared, own_host.await?, read_only.await?, cluster_size.await?))
        };
        let prepared: WireResult<_> = prepared.await;
        let (prepared, own_host, is_read_only, cluster_size) =
            prepared.map_err(|wire_error| refused(&wire_error, &options))?;
        refuse_unfit(&is_read_only, &cluster_size, &options)?;
        let (try_lock, wait_lock, unlock, exists, still_exists, holder) = prepared;
        let since = first(&own_host).map(number).unwrap_or_default();
        let backend = Backend { number: plain.thread().into(), since };
        let draw_token = OnceLock::new();
        Ok(Self { plain, backend, try_lock, wait_lock, unlock, exists, still_exists, holder, draw_token })
    }

    async fn answer<T>(&self, reply: impl Future<Output = WireResult<T>>) -> Result<T> {
        reply.await.map_err(|wire_error| failed(&wire_error, self.plain.options()))
    }

    /// Whether a statement returns 1. `None`: it returns null, because the server could not carry it out.
    async fn returns_one(&self, statement: StatementId, values: &[MysqlParam<'_>]) -> Result<Option<bool>> {
        Ok(is_one(&self.answer(self.plain.execute(statement, values)).await?))
    }

    async fn get_lock(&self, statement: StatementId, key: Key) -> Result<bool> {
        let options = self.plain.options();
        if self.plain.is_closed() {
            let message = format!("{} at {}: the connection ended before", options.engine, options.shown_as);
            return Err(Error::new(ErrorKind::Unreachable, message).with_effect(Effect::None));
        }
        match self
            .plain
            .execute(statement, &[MysqlParam::Bytes(&key.digits())])
            .await
            .map(|reply| is_one(&reply))
        {
            Ok(Some(is_held)) => Ok(is_held),
            Ok(None) => {
                let message = format!("{} at {}: GET_LOCK failed", options.engine, options.shown_as);
                Err(Error::new(ErrorKind::Unreachable, message).with_effect(Effect::Unknown))
            }
            // A failed statement does not release a lock that it took.
            Err(wire_error) => Err(failed(&wire_error, options).with_effect(Effect::Unknown)),
        }
    }

    /// The statement that draws tokens. Two tasks may prepare it at once: a task must not wait for another
    /// one, whose runtime may be blocked.
    async fn token_statement(&self) -> Result<StatementId> {
        match self.draw_token.get() {
            Some(prepared) => Ok(*prepared),
            None => {
                let prepared = self.prepare_token_statement().await?;
                Ok(*self.draw_token.get_or_init(|| prepared))
            }
        }
    }

    /// Creates the table of tokens if it is missing.
    async fn prepare_token_statement(&self) -> Result<StatementId> {
        let options = self.plain.options();
        let table = format!("{}_fence", options.table);
        let text = include_str!("draw.sql").replace("{fence}", &table).replace("{now}", NOW);
        let prepared = match self.plain.prepare(&text).await {
            Err(WireError::Refused { code: code::NO_SUCH_TABLE, .. }) => {
                match self.plain.command(&create_table(&table)).await {
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

/// The statement that creates the table of tokens.
pub(in super::super) fn create_table(name: &str) -> String {
    include_str!("fence.sql").replace("{fence}", name)
}

fn is_one(reply: &Reply) -> Option<bool> {
    match first(reply) {
        None | Some(SqlValue::Null) => None,
        Some(value) => Some(number(value) == 1),
    }
}

/// The last value of the first row.
fn last(reply: &Reply) -> Option<SqlValue> {
    reply.rows.first().and_then(|row| row.last()).cloned()
}

fn first(reply: &Reply) -> Option<&SqlValue> {
    reply.rows.first().and_then(|row| row.first())
}

/// Numbers are returned as text by statements that are not prepared.
fn number(value: &SqlValue) -> i64 {
    match value {
        SqlValue::Int(number) => *number,
        SqlValue::Bytes(text) => String::from_utf8_lossy(text).parse().unwrap_or_default(),
        SqlValue::Text(text) => text.parse().unwrap_or_default(),
        SqlValue::Null => 0,
    }
}

impl SessionConnection for MysqlAdvisoryConnection {
    fn backend(&self) -> Backend {
        self.backend
    }

    fn is_closed(&self) -> bool {
        self.plain.is_closed()
    }

    async fn try_lock(&self, key: Key, fenced: Option<&LockName>, _: &Note) -> Result<TryLock> {
        if !self.get_lock(self.try_lock, key).await? {
            return Ok(TryLock::Busy);
        }
        match fenced {
            None => Ok(TryLock::Held(None)),
            // If the token cannot be drawn, the lock is still held.
            Some(name) => {
                let token = Box::pin(self.draw_token(name))
                    .await
                    .map_err(|error| error.with_effect(Effect::Unknown))?;
                Ok(TryLock::Held(Some(token)))
            }
        }
    }

    async fn wait_lock(&self, key: Key, _: &Note) -> Result<bool> {
        self.get_lock(self.wait_lock, key).await
    }

    async fn draw_token(&self, name: &LockName) -> Result<u64> {
        let draw = self.token_statement().await?;
        let reply =
            self.answer(self.plain.execute(draw, &[MysqlParam::Bytes(name.as_str().as_bytes())])).await?;
        // Without a matched row, the id is that of an earlier statement.
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
        let Text { sql, .. } = Text::of(Statement::SweepDue, options.scheme, &options.table);
        Ok(first(&self.answer(self.plain.command(&sql)).await?).is_some())
    }

    async fn unlock(&self, key: Key) -> Result<bool> {
        let reply = self.answer(self.plain.execute(self.unlock, &[MysqlParam::Bytes(&key.digits())])).await?;
        Ok(is_one(&reply) == Some(true))
    }

    async fn heartbeat(&self) -> Result<()> {
        self.answer(self.plain.command("DO 1")).await.map(drop)
    }

    async fn terminate(&self, Backend { number: other, since }: Backend) -> Result<bool> {
        if since == 0 {
            let Options { engine, shown_as, .. } = &**self.plain.options();
            let message = format!(
                "{engine} at {shown_as}: connection {other} is another user's, which this user may neither see nor end; it needs the \
                 rights PROCESS and CONNECTION ADMIN (MySQL: CONNECTION_ADMIN)"
            );
            return Err(Error::new(ErrorKind::Denied, message));
        }
        let values = [MysqlParam::Int(other), MysqlParam::Int(since)];
        if self.returns_one(self.exists, &values).await? != Some(true) {
            return Ok(false);
        }
        match self.plain.command(&format!("KILL CONNECTION {other}")).await {
            Err(WireError::Refused { code: NO_SUCH_THREAD, .. }) => return Ok(false),
            killed => drop(killed.map_err(|wire_error| failed(&wire_error, self.plain.options()))?),
        }
        for _ in 0..MAX_KILL_POLLS {
            if self.returns_one(self.still_exists, &values).await? != Some(true) {
                return Ok(true);
            }
        }
        let Options { engine, shown_as, .. } = &**self.plain.options();
        Err(not_terminated(engine, shown_as, other))
    }

    async fn participants(&self, key: Key) -> Result<Vec<Participant>> {
        let reply = self.answer(self.plain.execute(self.holder, &[MysqlParam::Bytes(&key.digits())])).await?;
        let read = reply.rows.iter().filter_map(|row| {
            let [id, since, account, is_marked] = row else { return None };
            let account = match account {
                SqlValue::Bytes(text) => String::from_utf8_lossy(text).into_owned(),
                _ => String::new(),
            };
            let backend = Backend { number: number(id), since: number(since) };
            let of = if account.is_empty() { "" } else { " of " };
            let note = Note::new(&format!("connection {}{of}{account}", backend.number));
            let foreign = (number(is_marked) != 1).then_some(account);
            Some(Participant { backend, is_holder: true, foreign, note })
        });
        Ok(read.collect())
    }
}
