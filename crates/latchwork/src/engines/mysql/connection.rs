//! One connection with its session set up: statements with their values, many under way at once.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use super::failure::{code, failed, refused};
use super::grants::Account;
use super::options::{Options, Scheme};
use super::wire::{Param, Prepared, Reply, Wire, WireError};
use crate::engines::sql::SqlValue as Value;
use crate::engines::sql::session::Moving;
use crate::net::abandon::AbandonGuard;
use crate::{Error, ErrorKind, Result};

/// How long to try to reach the server. The core bounds every request as well.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);
/// The settings of every session, whatever the server's own settings are. A statement is a transaction unless
/// it is in one. The database's clock shows UTC. A value that does not fit is an error. A statement waits at
/// most 3 s for a locked row or a locked table. That limit also ends a statement whose client is gone:
/// neither server checks for that while it waits.
const SESSION: &str = "SET SESSION autocommit = 1, time_zone = '+00:00', sql_mode = 'STRICT_ALL_TABLES', \
                       innodb_lock_wait_timeout = 3, lock_wait_timeout = 3";
/// A table that is shared has the times of those who share it.
const THEIR_TIME: &str = "SET SESSION time_zone = @@GLOBAL.time_zone";
const ISOLATION: &str = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED";
/// A client that is stopped in the middle of a transaction must not block a lock for longer than this.
const IDLE: &str = "SET SESSION idle_transaction_timeout = 3";
/// From MariaDB 11.6.2 on, this is on by default: a statement that waited for a row fails if the row was
/// changed meanwhile. A claim that waits for another must read the row as it is then. Older servers do not
/// have the setting.
const SNAPSHOT: &str = "SET SESSION innodb_snapshot_isolation = OFF";

/// A connection. It never comes back to life: whoever finds it closed opens another. Dropped, it ends when what was asked is
/// carried out.
pub(super) struct Connection {
    wire: Wire,
    options: Arc<Options>,
    is_mariadb: bool,
    thread: u32,
}

impl Connection {
    /// Connects, logs in and sets up the session. It moves on the runtime that this is called on, and ends with it.
    ///
    /// # Errors
    /// What the server says. Nothing was done.
    pub(super) async fn open(options: Arc<Options>) -> Result<Self> {
        Self::set_up(options, None).await
    }

    /// The same for one that other runtimes can move as well.
    pub(super) async fn open_moved(options: Arc<Options>, moving: &Arc<Moving>) -> Result<Self> {
        Self::set_up(options, Some(moving)).await
    }

    async fn set_up(options: Arc<Options>, moving: Option<&Arc<Moving>>) -> Result<Self> {
        let unreachable = |why: &str| {
            let message = format!("{} at {}: {why}", options.engine, options.shown_as);
            Error::new(ErrorKind::Unreachable, message)
        };
        let opening = async {
            let (wire, greeting) = Wire::open(&options.login, moving).await?;
            let is_mariadb = greeting.version.contains("MariaDB");
            let their_time = (options.scheme == Scheme::Insert).then_some(THEIR_TIME);
            let settings = [Some(SESSION), Some(ISOLATION), is_mariadb.then_some(IDLE), their_time];
            let settings: Vec<_> =
                settings.into_iter().flatten().map(|setting| wire.query(setting)).collect();
            let snapshot = is_mariadb.then(|| wire.query(SNAPSHOT));
            for set in settings {
                set.await?;
            }
            if let Some(set) = snapshot {
                match set.await {
                    Err(WireError::Refused { code: code::UNKNOWN_SETTING, .. }) => {}
                    answer => drop(answer?),
                }
            }
            Ok((wire, is_mariadb, greeting.thread))
        };
        let opened = match moving {
            // Whoever moves it keeps the time as well.
            Some(_) => opening.await,
            None => {
                let opened = tokio::time::timeout(CONNECT_LIMIT, opening).await;
                opened.map_err(|_| unreachable("no answer to the connection"))?
            }
        };
        let (wire, is_mariadb, thread) = opened.map_err(|wire_error| refused(&wire_error, &options))?;
        Ok(Self { wire, options, is_mariadb, thread })
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
        self.wire.is_closed()
    }

    /// Makes a statement known to the server. Several can be under way at once: each is sent when this is called.
    pub(super) fn prepare(&self, text: &str) -> impl Future<Output = Asked<Prepared>> + Send + use<> {
        self.wire.prepare(text)
    }

    /// Sends a statement with its values. It is on its way when this returns, and is carried out whether or not anybody waits for
    /// the answer.
    pub(super) fn execute(
        &self,
        statement: Prepared,
        values: &[Param<'_>],
    ) -> impl Future<Output = Asked<Reply>> + Send + use<> {
        self.wire.execute(statement, values)
    }

    /// The same for a command without values, in which nothing may stand that somebody else wrote.
    pub(super) fn command(&self, text: &str) -> impl Future<Output = Asked<Reply>> + Send + use<> {
        self.wire.query(text)
    }

    /// Sends a command that must succeed: if it is refused, the connection ends before anything behind it is answered.
    pub(super) fn demand(&self, text: &str) {
        self.wire.demand(text);
    }

    /// Waits for an answer that was asked for here, and says what a bad one means.
    pub(super) async fn answer<T>(&self, asked: impl Future<Output = Asked<T>>) -> Result<T> {
        let guard = AbandonGuard::retire_if_slow(|| self.wire.hang_up());
        let answer = asked.await;
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
            Value::Bytes(text) => Account::parse(str::from_utf8(text).ok()?),
            _ => None,
        });
        match account {
            Some(account) => error.with_sql(sql(&self.options, &account)),
            None => error,
        }
    }

    /// Ends it at once, even with a request in flight.
    pub(super) fn hang_up(&self) {
        self.wire.hang_up();
    }

    pub(super) fn options(&self) -> &Arc<Options> {
        &self.options
    }
}

/// What the server answered, before anybody thought about what it means.
pub(super) type Asked<T> = std::result::Result<T, WireError>;
