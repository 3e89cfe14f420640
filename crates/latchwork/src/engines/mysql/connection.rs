//! One connection with its session set up. Statements of many tasks are outstanding at once.

use std::future::Future;
use std::sync::Arc;

use super::errors::{code, failed, refused};
use super::grants::Account;
use super::options::{Options, Scheme};
use super::wire::{
    Batch, MysqlCommand, MysqlParam, MysqlPipeline, PendingResponse, StatementId, WireError, WireResult,
};
use crate::engines::sql::SqlValue;
use crate::engines::sql::session::Moving;
use crate::net::abandon::AbandonGuard;
use crate::net::deadline;
use crate::{Error, ErrorKind, Result};

/// The settings of every session, whatever the server's own settings are. A statement is a transaction unless
/// it is in one. The database's clock shows UTC. A value that does not fit is an error. A statement waits at
/// most 3 s for a locked row or a locked table. That limit also ends a statement whose client is gone:
/// neither server checks for that while it waits.
const SESSION: &str = "SET SESSION autocommit = 1, time_zone = '+00:00', sql_mode = 'STRICT_ALL_TABLES', \
                       innodb_lock_wait_timeout = 3, lock_wait_timeout = 3";
/// A shared table has times in the time zone of the programs that share it.
const GLOBAL_TIME_ZONE: &str = "SET SESSION time_zone = @@GLOBAL.time_zone";
const ISOLATION: &str = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED";
/// A client that is stopped in the middle of a transaction must not block a lock for longer than this.
const IDLE: &str = "SET SESSION idle_transaction_timeout = 3";
/// From MariaDB 11.6.2 on, this is on by default: a statement that waited for a row fails if the row was
/// changed meanwhile. A claim that waits for another must read the row as it is then. Older servers do not
/// have the setting.
const SNAPSHOT: &str = "SET SESSION innodb_snapshot_isolation = OFF";

/// A connection. Once closed it stays closed; its users open another. Dropped, it ends when the outstanding
/// statements are answered.
pub(super) struct Connection {
    pipeline: MysqlPipeline,
    options: Arc<Options>,
    is_mariadb: bool,
    thread: u32,
}

impl Connection {
    /// Connects, logs in and sets up the session. The connection belongs to this runtime, and ends with it.
    ///
    /// # Errors
    /// Why this user cannot use this server. Nothing was done.
    pub(super) async fn open(options: Arc<Options>) -> Result<Self> {
        let opening = Self::set_up(&options, None);
        match tokio::time::timeout(deadline::CONNECT, opening).await {
            Ok(opened) => opened.map_err(|wire_error| refused(&wire_error, &options)),
            Err(_) => {
                let message =
                    format!("{} at {}: no answer to the connection", options.engine, options.shown_as);
                Err(Error::new(ErrorKind::Unreachable, message))
            }
        }
    }

    /// [`Connection::open`] for a connection that any runtime may drive. The caller limits the time.
    pub(super) async fn open_moved(options: Arc<Options>, moving: &Arc<Moving>) -> Result<Self> {
        let opened = Self::set_up(&options, Some(moving)).await;
        opened.map_err(|wire_error| refused(&wire_error, &options))
    }

    async fn set_up(options: &Arc<Options>, moving: Option<&Arc<Moving>>) -> WireResult<Self> {
        let (pipeline, handshake) = match moving {
            None => MysqlPipeline::open(&options.login).await?,
            Some(moving) => MysqlPipeline::open_moving(&options.login, moving).await?,
        };
        let is_mariadb = handshake.server_version.contains("MariaDB");
        let time_zone = (options.scheme == Scheme::Insert).then_some(GLOBAL_TIME_ZONE);
        let settings = [Some(SESSION), Some(ISOLATION), is_mariadb.then_some(IDLE), time_zone];
        let mut batch = Batch::default();
        settings.into_iter().flatten().for_each(|setting| batch.add(&MysqlCommand::Query(setting)));
        if is_mariadb {
            batch.add(&MysqlCommand::Query(SNAPSHOT));
        }
        let mut replies = pipeline.send(batch);
        let snapshot = if is_mariadb { replies.pop() } else { None };
        for reply in replies {
            reply.await?;
        }
        if let Some(reply) = snapshot {
            match reply.await {
                Err(WireError::Refused { code: code::UNKNOWN_SETTING, .. }) => {}
                reply => drop(reply?),
            }
        }
        Ok(Self { pipeline, options: options.clone(), is_mariadb, thread: handshake.thread_id })
    }

    /// MariaDB, and not MySQL.
    pub(super) fn is_mariadb(&self) -> bool {
        self.is_mariadb
    }

    /// The number by which `KILL` and the list of processes know it.
    pub(super) fn thread(&self) -> u32 {
        self.thread
    }

    pub(super) fn is_closed(&self) -> bool {
        self.pipeline.is_closed()
    }

    /// Sends statements together, with no other between them. Returns a reply for each.
    pub(super) fn send(&self, batch: Batch) -> Vec<PendingResponse> {
        self.pipeline.send(batch)
    }

    /// Sends statements whose replies nobody waits for. Their caller may be gone, so they must succeed: see
    /// [`MysqlCommand::QueryThatMustSucceed`].
    pub(super) fn send_unattended(&self, batch: Batch) {
        self.pipeline.send_unattended(batch);
    }

    /// Prepares a statement. It is sent when this returns, as are the statements below.
    pub(super) fn prepare(&self, text: &str) -> impl Future<Output = WireResult<StatementId>> + Send + use<> {
        self.pipeline.send_one(&MysqlCommand::Prepare(text)).statement_id()
    }

    /// Executes a prepared statement.
    pub(super) fn execute(&self, statement: StatementId, values: &[MysqlParam<'_>]) -> PendingResponse {
        self.pipeline.send_one(&MysqlCommand::Execute(statement, values))
    }

    /// Executes a statement without parameters. It must not contain text of other people.
    pub(super) fn command(&self, text: &str) -> PendingResponse {
        self.pipeline.send_one(&MysqlCommand::Query(text))
    }

    /// Waits for a reply on this connection, and decides what an error means.
    pub(super) async fn answer<T>(&self, reply: impl Future<Output = WireResult<T>>) -> Result<T> {
        let guard = AbandonGuard::retire_if_slow(|| self.pipeline.close());
        let answer = reply.await;
        guard.answered();
        answer.map_err(|wire_error| failed(&wire_error, &self.options))
    }

    /// Adds to a refusal the statements by which an administrator gives this user what it lacks.
    pub(super) async fn with_grants(
        &self,
        error: Error,
        sql: impl FnOnce(&Options, &Account) -> String,
    ) -> Error {
        if error.kind() != ErrorKind::Denied || error.sql().is_some() {
            return error;
        }
        // The server grants to an account, which is not what the user connects from.
        let reply = self.command("SELECT CURRENT_USER()").await;
        let account = reply.ok().and_then(|reply| match reply.rows.first()?.first()? {
            SqlValue::Bytes(text) => Account::parse(str::from_utf8(text).ok()?),
            _ => None,
        });
        match account {
            Some(account) => error.with_sql(sql(&self.options, &account)),
            None => error,
        }
    }

    /// Closes the connection at once. Outstanding statements stay unanswered.
    pub(super) fn close(&self) {
        self.pipeline.close();
    }

    pub(super) fn options(&self) -> &Arc<Options> {
        &self.options
    }
}
