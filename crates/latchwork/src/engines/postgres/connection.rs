//! One connection: its prepared statements, and the notifications that arrive on it.

use std::borrow::Cow;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::slice;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::AbortHandle;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, private::BytesMut, to_sql_checked};
use tokio_postgres::{AsyncMessage, Client, Row};

use super::errors::{failed, not_connected, not_created, refused};
use super::options::{Options, Scheme};
use super::rows::Shared;
use super::statements::{text, types};
use super::{grants, inserts, statements};
use crate::core::defaults::REQUEST_LIMIT;
use crate::engine::ClaimId;
use crate::engines::cell_subscriptions::{CellSubscriptions, WakesWatchersOnDrop};
use crate::engines::close_flag::{CloseFlag, ClosesOnDrop};
use crate::engines::sql::{Query, QueryResult, SqlValue, Statement, StatementMap};
use crate::engines::waiter_table::Notification;
use crate::net::abandon::AbandonGuard;
use crate::net::deadline;
use crate::{Error, ErrorKind, Result};

/// How long a statement waits for another transaction's lock, how long a client that stops in the middle of a
/// transaction blocks others, and how soon the server ends a statement whose client is gone. The last needs
/// PostgreSQL 14, and an operating system that reports closed connections.
macro_rules! limits {
    ($is_local:literal) => {
        concat!(
            "SELECT set_config('lock_timeout', '3s', ",
            $is_local,
            "), set_config('idle_in_transaction_session_timeout', '3s', ",
            $is_local,
            "); SELECT set_config('client_connection_check_interval', '500ms', ",
            $is_local,
            ") WHERE current_setting('client_connection_check_interval', true) IS NOT NULL AND version() LIKE '%linux%'"
        )
    };
}
const SET_LIMITS: &str = limits!("false");
const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED";
/// Behind a pooler the session may belong to another client after the transaction, and session settings would
/// affect that client.
const BEGIN_LIMITED: &str = concat!("BEGIN ISOLATION LEVEL READ COMMITTED; ", limits!("true"));

/// A connection. Once closed it stays closed; its users open another.
pub(super) struct Connection {
    client: Client,
    statements: Statements,
    close_flag: Arc<CloseFlag>,
    driver: AbortHandle,
    /// The subscriptions to watched cells.
    pub(super) cells: Arc<CellSubscriptions>,
    shared: Arc<Shared>,
}

/// The statements of a scheme.
enum Statements {
    /// Prepared on the server.
    Prepared(StatementMap<Statement, tokio_postgres::Statement>),
    /// Sent as text each time: behind a pooler, each may run on another server connection.
    Texts(StatementMap<Statement, String>),
}

/// Aborts the driver task when dropped.
struct DriverGuard(Option<AbortHandle>);

impl Drop for DriverGuard {
    fn drop(&mut self) {
        self.0.iter().for_each(AbortHandle::abort);
    }
}

/// Starts the task that drives the connection and delivers its notifications.
fn drive<S, T>(
    (driven, cells): (ClosesOnDrop, WakesWatchersOnDrop),
    (client, mut connection): (Client, tokio_postgres::Connection<S, T>),
) -> (Client, AbortHandle)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let driver = tokio::spawn(async move {
        while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
            if let AsyncMessage::Notification(message) = message {
                match read_notification(message.payload()) {
                    Some((id, token)) => driven.0.waiters.deliver(id, Notification::Granted(token)),
                    None => cells.0.notify(message.channel()),
                }
            }
        }
    });
    (client, driver.abort_handle())
}

impl Connection {
    /// Connects and prepares the statements. Creates the tables if they are missing.
    ///
    /// # Errors
    /// The error of the server. [`ErrorKind::Denied`] with the SQL that creates the tables, if this user may
    /// not.
    pub(super) async fn open(shared: Arc<Shared>) -> Result<Self> {
        let options = &shared.options;
        let unreachable = |why: &str| {
            Error::new(ErrorKind::Unreachable, format!("postgres at {}: {why}", options.shown_as))
        };
        let close_flag = CloseFlag::new(&shared.waiters);
        let cells = Arc::<CellSubscriptions>::default();
        let driven = (ClosesOnDrop(close_flag.clone()), WakesWatchersOnDrop(cells.clone()));
        let limit = tokio::time::timeout(deadline::CONNECT, super::wire::connect(options));
        let connected = limit
            .await
            .map_err(|_| unreachable("no answer to the connection"))?
            .map_err(|wire_error| not_connected(wire_error, options))?;
        let (client, driver) = drive(driven, connected);
        let statements = Statements::Texts(StatementMap::default());
        // If opening is cancelled, the connection must not stay until every statement sent on it has waited
        // for its locks.
        let mut driver_guard = DriverGuard(Some(driver.clone()));
        let mut open = Self { client, statements, close_flag, cells, driver, shared: shared.clone() };
        let limit = tokio::time::timeout(REQUEST_LIMIT, open.set_up());
        limit.await.unwrap_or_else(|_| Err(unreachable("no answer to its first statements")))?;
        driver_guard.0 = None;
        Ok(open)
    }

    /// Prepares the statements. Creates the tables if they are missing.
    async fn set_up(&mut self) -> Result<()> {
        let shared = self.shared.clone();
        match self.prepare().await {
            Err(error) if error.code() == Some(&SqlState::UNDEFINED_TABLE) => {
                let sql = grants::of_locks(&shared.options).unwrap_or_default();
                self.create_tables(&self.table_statements(), sql).await?;
                self.prepare().await.map_err(|error| refused(&error, &shared.options))
            }
            prepared => prepared.map_err(|error| refused(&error, &shared.options)),
        }
    }

    async fn prepare(&mut self) -> PostgresResult<()> {
        let (client, table, scheme) = (&self.client, &self.shared.options.table, self.shared.options.scheme);
        let statements = self.statements_used().iter().copied();
        if self.shared.is_pooled(client).await? {
            let texts = statements.map(|statement| (statement, text(statement, scheme, table)));
            self.statements = Statements::Texts(texts.collect());
            // Nothing is prepared, so this query finds out whether the tables exist.
            let empty = SqlValue::Bytes(Vec::new());
            let probe = match scheme {
                Scheme::Insert => Query::new(Statement::ReadInserted, [empty, SqlValue::Int(0)]),
                _ => Query::new(Statement::FindEntry, [empty.clone(), empty]),
            };
            return self.run_between_on_server(BEGIN_LIMITED, &[probe], "COMMIT").await.map(drop);
        }
        // Sent first: preparing a statement may have to wait for a lock, too.
        let limited: Preparing<'_> =
            Box::pin(async { client.batch_execute(SET_LIMITS).await.map(|()| None) });
        let preparing = statements.map(|statement| -> Preparing<'_> {
            Box::pin(async move {
                let prepared =
                    client.prepare_typed(&text(statement, scheme, table), types(statement)).await?;
                Ok(Some((statement, prepared)))
            })
        });
        let prepared = all([limited].into_iter().chain(preparing)).await.into_iter();
        let prepared = prepared.collect::<PostgresResult<Vec<_>>>()?;
        self.statements = Statements::Prepared(prepared.into_iter().flatten().collect());
        Ok(())
    }

    fn is_pooled(&self) -> bool {
        matches!(self.statements, Statements::Texts(_))
    }

    fn statements_used(&self) -> &'static [Statement] {
        match self.shared.options.scheme {
            Scheme::Row => &Statement::ALL,
            Scheme::Insert => &inserts::USED,
            // Only the statements of sweeps, which are not prepared.
            Scheme::Session => &[],
        }
    }

    /// The statements that create the tables of its scheme.
    fn table_statements(&self) -> String {
        let options = &self.shared.options;
        match options.scheme {
            Scheme::Insert => inserts::create_tables(&options.table),
            _ => statements::create_tables(&options.table),
        }
    }

    /// # Errors
    /// The error of the server. If the user may not create them, with `sql` for an administrator.
    pub(super) async fn create_tables(&self, tables: &str, sql: String) -> Result<()> {
        let options = &self.shared.options;
        for _ in 0..3 {
            // All of it is one transaction.
            match self.client.batch_execute(&format!("{}; {tables}", limits!("true"))).await {
                // Two clients create the same table at once: one of them finds a part of what the other has
                // just created.
                Err(error)
                    if matches!(
                        error.code(),
                        Some(
                            &SqlState::UNIQUE_VIOLATION
                                | &SqlState::DUPLICATE_TABLE
                                | &SqlState::DUPLICATE_OBJECT
                        )
                    ) => {}
                Err(error) => return Err(not_created(&error, options, sql)),
                Ok(()) => return Ok(()),
            }
        }
        Ok(())
    }

    /// Runs a statement that is not prepared. `None` if its table does not exist.
    ///
    /// # Errors
    /// The error of the server.
    pub(super) async fn query(
        &self,
        text: &str,
        values: &[(&(dyn ToSql + Sync), Type)],
    ) -> Result<Option<Vec<Row>>> {
        let guard = AbandonGuard::retire_if_slow(|| self.close());
        let answer = match self.is_pooled() {
            false => self.client.query_typed(text, values).await,
            true => {
                let command = async |text| self.client.batch_execute(text).await.map(|()| Vec::new());
                let requests: [Pin<Box<dyn Future<Output = _> + Send>>; 3] = [
                    Box::pin(command(BEGIN_LIMITED)),
                    Box::pin(self.client.query_typed(text, values)),
                    Box::pin(command("COMMIT")),
                ];
                let answers: PostgresResult<Vec<_>> = all(requests).await.into_iter().collect();
                answers.map(|answers| answers.concat())
            }
        };
        guard.answered();
        match answer {
            Ok(rows) => Ok(Some(rows)),
            Err(error) if error.code() == Some(&SqlState::UNDEFINED_TABLE) => Ok(None),
            Err(error) => Err(failed(&error, &self.shared.options)),
        }
    }

    pub(super) fn is_closed(&self) -> bool {
        self.close_flag.is_closed() || self.client.is_closed()
    }

    /// Ends it at once, even with requests under way.
    pub(super) fn close(&self) {
        self.close_flag.close();
        self.driver.abort();
    }

    /// Runs statements in one round trip, each by itself or all in the open transaction.
    ///
    /// # Errors
    /// The first error.
    pub(super) async fn run(&self, queries: &[Query]) -> Result<Vec<QueryResult>> {
        let guard = AbandonGuard::retire_if_slow(|| self.close());
        let answers = all(queries.iter().map(|query| self.run_on_server(query))).await;
        guard.answered();
        answers
            .into_iter()
            .map(|answer| answer.map_err(|error| failed(&error, &self.shared.options)))
            .collect()
    }

    /// Runs a single statement, with limits of its own behind a pooler.
    pub(super) async fn run_limited(&self, query: &Query) -> Result<Vec<QueryResult>> {
        self.run_between(BEGIN_LIMITED, slice::from_ref(query), "COMMIT").await
    }

    /// Begins a transaction with these statements.
    pub(super) async fn begin(&self, queries: &[Query]) -> Result<Vec<QueryResult>> {
        self.run_between(if self.is_pooled() { BEGIN_LIMITED } else { BEGIN }, queries, "").await
    }

    /// Runs these statements and commits.
    pub(super) async fn commit(&self, queries: &[Query]) -> Result<Vec<QueryResult>> {
        self.run_between("", queries, "COMMIT").await
    }

    async fn run_between(&self, before: &str, queries: &[Query], after: &str) -> Result<Vec<QueryResult>> {
        let guard = AbandonGuard::retire_if_slow(|| self.close());
        let answers = self.run_between_on_server(before, queries, after).await;
        guard.answered();
        answers.map_err(|error| failed(&error, &self.shared.options))
    }

    /// Runs statements in one round trip, between two commands without values.
    async fn run_between_on_server(
        &self,
        before: &str,
        queries: &[Query],
        after: &str,
    ) -> PostgresResult<Vec<QueryResult>> {
        let command = |text: String| async move {
            if !text.is_empty() {
                self.client.batch_execute(&text).await?;
            }
            Ok(QueryResult::default())
        };
        let requests: Vec<Pin<Box<dyn Future<Output = PostgresResult<QueryResult>> + Send>>> =
            [Box::pin(command(before.to_owned())) as _]
                .into_iter()
                .chain(queries.iter().map(|query| Box::pin(self.run_on_server(query)) as _))
                .chain([Box::pin(command(after.to_owned())) as _])
                .collect();
        let mut results = all(requests).await.into_iter().collect::<PostgresResult<Vec<_>>>()?;
        results.remove(0);
        results.truncate(queries.len());
        Ok(results)
    }

    pub(super) async fn command(&self, text: &str) -> Result<()> {
        self.client.batch_execute(text).await.map_err(|error| failed(&error, &self.shared.options))
    }

    async fn run_on_server(&self, query: &Query) -> PostgresResult<QueryResult> {
        let values = query.values.iter().map(|value| value as &(dyn ToSql + Sync));
        let (prepared, known_text) = match &self.statements {
            Statements::Prepared(prepared) => (prepared.get(query.statement), None),
            Statements::Texts(texts) => (None, texts.get(query.statement)),
        };
        let rows = match prepared {
            Some(prepared) => self.client.query(prepared, &values.collect::<Vec<_>>()).await?,
            None => {
                let Options { scheme, table, .. } = &*self.shared.options;
                // The statements of sweeps are rare, and neither prepared nor kept.
                let text = known_text.map_or_else(
                    || Cow::Owned(text(query.statement, *scheme, table)),
                    |text| Cow::Borrowed(&**text),
                );
                let values: Vec<_> = values.zip(types(query.statement).iter().cloned()).collect();
                self.client.query_typed(&text, &values).await?
            }
        };
        let rows = rows.iter().map(read_row).collect::<PostgresResult<Vec<_>>>()?;
        Ok(QueryResult { changed: rows.len() as u64, rows })
    }
}

type PostgresResult<T> = std::result::Result<T, tokio_postgres::Error>;

/// Prepares a statement on the server, or runs another command.
type Preparing<'a> =
    Pin<Box<dyn Future<Output = PostgresResult<Option<(Statement, tokio_postgres::Statement)>>> + Send + 'a>>;

/// Runs all of them. The requests are sent in this order, each when its future is first polled.
async fn all<F: Future>(futures: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    let mut running: Vec<_> = futures.into_iter().map(|future| (Box::pin(future), None)).collect();
    poll_fn(|context: &mut Context<'_>| {
        let mut is_pending = false;
        for (future, output) in running.iter_mut().filter(|(_, output)| output.is_none()) {
            match future.as_mut().poll(context) {
                Poll::Ready(done) => *output = Some(done),
                Poll::Pending => is_pending = true,
            }
        }
        if is_pending { Poll::Pending } else { Poll::Ready(()) }
    })
    .await;
    running.into_iter().filter_map(|(_, output)| output).collect()
}

/// The payload of a notification: `ID TOKEN`.
fn read_notification(text: &str) -> Option<(ClaimId, u64)> {
    let (id, token) = text.split_once(' ')?;
    let id = u128::from_str_radix(id, 16).ok().filter(|_| id.len() == 32)?;
    Some((ClaimId::from_bytes(id.to_be_bytes()), token.parse().ok()?))
}

fn read_row(row: &Row) -> PostgresResult<Vec<SqlValue>> {
    (0..row.len()).map(|column| row.try_get(column)).collect()
}

impl<'a> FromSql<'a> for SqlValue {
    fn from_sql(
        kind: &Type,
        raw: &'a [u8],
    ) -> std::result::Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        Ok(match *kind {
            Type::INT8 => Self::Int(i64::from_sql(kind, raw)?),
            Type::BOOL => Self::Int(bool::from_sql(kind, raw)?.into()),
            _ => Self::Bytes(raw.to_vec()),
        })
    }

    fn from_sql_null(_: &Type) -> std::result::Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        Ok(Self::Null)
    }

    fn accepts(kind: &Type) -> bool {
        matches!(*kind, Type::INT8 | Type::BYTEA | Type::BOOL)
    }
}

impl ToSql for SqlValue {
    fn to_sql(
        &self,
        kind: &Type,
        out: &mut BytesMut,
    ) -> std::result::Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        match self {
            Self::Null => Ok(IsNull::Yes),
            Self::Int(number) => number.to_sql(kind, out),
            Self::Bytes(bytes) => bytes.as_slice().to_sql(kind, out),
            Self::Text(text) => text.as_bytes().to_sql(kind, out),
        }
    }

    fn accepts(kind: &Type) -> bool {
        matches!(*kind, Type::INT8 | Type::BYTEA)
    }

    to_sql_checked!();
}
