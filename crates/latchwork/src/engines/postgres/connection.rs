//! One connection: statements that were prepared, and messages that arrive.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::slice;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::AbortHandle;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, private::BytesMut, to_sql_checked};
use tokio_postgres::{AsyncMessage, Client, Row};

use super::Shared;
use super::failure::{failed, not_connected, not_made, refused};
use super::options::{Options, Scheme};
use super::statements::{text, types};
use super::{grants, inserts, statements};
use crate::core::defaults::REQUEST_LIMIT;
use crate::engine::ClaimId;
use crate::engines::cell_subscriptions::{CellSubscriptions, WakesWatchersOnDrop};
use crate::engines::close_flag::{CloseFlag, ClosesOnDrop};
use crate::engines::sql::{Query, QueryResult, Statement, Value};
use crate::engines::waiter_table::Notification;
use crate::net::abandon::AbandonGuard;
use crate::{Error, ErrorKind, Result};

/// How long to try to reach the server. The core bounds every request as well.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);
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
const SESSION: &str = limits!("false");
const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED";
/// Behind a pooler the session belongs to another client the next moment, and session settings would affect
/// that client.
const BEGIN_LIMITED: &str = concat!("BEGIN ISOLATION LEVEL READ COMMITTED; ", limits!("true"));

/// A connection. It never comes back to life: whoever finds it closed opens another.
pub(super) struct Connection {
    client: Client,
    statements: Statements,
    close_flag: Arc<CloseFlag>,
    driver: AbortHandle,
    /// What it said of cells that are watched.
    pub(super) cells: Arc<CellSubscriptions>,
    shared: Arc<Shared>,
}

/// Those of a scheme, in the order of their numbers.
enum Statements {
    /// Known to the server.
    Prepared(Vec<tokio_postgres::Statement>),
    /// Sent whole each time: behind a pooler, nobody knows which server comes next.
    Texts(Vec<String>),
}

/// Closes a connection when dropped.
struct HalfOpen(Option<AbortHandle>);

impl Drop for HalfOpen {
    fn drop(&mut self) {
        self.0.iter().for_each(AbortHandle::abort);
    }
}

/// Lets a connection do its work from now on.
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
                match read_message(message.payload()) {
                    Some((id, token)) => driven.0.waiters.deliver(id, Notification::Granted(token)),
                    None => cells.0.notify(message.channel()),
                }
            }
        }
    });
    (client, driver.abort_handle())
}

impl Connection {
    /// Connects and prepares the statements; makes the tables if they are missing.
    ///
    /// # Errors
    /// What the server says. [`ErrorKind::Denied`] with what would make the tables, if this user may not.
    pub(super) async fn open(shared: Arc<Shared>) -> Result<Self> {
        let options = &shared.options;
        let unreachable =
            |why: &str| Error::new(ErrorKind::Unreachable, format!("postgres at {}: {why}", options.place));
        let close_flag = CloseFlag::new(&shared.waiters);
        let cells = Arc::<CellSubscriptions>::default();
        let driven = (ClosesOnDrop(close_flag.clone()), WakesWatchersOnDrop(cells.clone()));
        let limit = tokio::time::timeout(CONNECT_LIMIT, super::wire::connect(options));
        let connected = limit
            .await
            .map_err(|_| unreachable("no answer to the connection"))?
            .map_err(|wire_error| not_connected(wire_error, options))?;
        let (client, driver) = drive(driven, connected);
        let statements = Statements::Texts(Vec::new());
        // If opening is cancelled, the connection must not stay until every statement sent on it has waited
        // for its locks.
        let mut half_open = HalfOpen(Some(driver.clone()));
        let mut open = Self { client, statements, close_flag, cells, driver, shared: shared.clone() };
        let limit = tokio::time::timeout(REQUEST_LIMIT, open.get_ready());
        limit.await.unwrap_or_else(|_| Err(unreachable("no answer to its first statements")))?;
        half_open.0 = None;
        Ok(open)
    }

    /// Prepares the statements. Creates the tables if they are missing.
    async fn get_ready(&mut self) -> Result<()> {
        let shared = self.shared.clone();
        match self.prepare().await {
            Err(error) if error.code() == Some(&SqlState::UNDEFINED_TABLE) => {
                let sql = grants::of_locks(&shared.options).unwrap_or_default();
                self.make_tables(&self.tables(), sql).await?;
                self.prepare().await.map_err(|error| refused(&error, &shared.options))
            }
            prepared => prepared.map_err(|error| refused(&error, &shared.options)),
        }
    }

    async fn prepare(&mut self) -> std::result::Result<(), tokio_postgres::Error> {
        let (client, table, scheme) = (&self.client, &self.shared.options.table, self.shared.options.scheme);
        let statements = self.statements_used().iter().copied();
        if self.shared.is_pooled(client).await? {
            self.statements =
                Statements::Texts(statements.map(|statement| text(statement, scheme, table)).collect());
            // Nothing is prepared, so this is what finds out whether the tables are there.
            let nothing = Value::Bytes(Vec::new());
            let probe = match scheme {
                Scheme::Insert => Query::new(Statement::Held, [nothing, Value::Int(0)]),
                _ => Query::new(Statement::Find, [nothing.clone(), nothing]),
            };
            return self.ask_between(BEGIN_LIMITED, &[probe], "COMMIT").await.map(drop);
        }
        // Sent first: preparing a statement may have to wait for a lock, too.
        let limited: Preparing<'_> = Box::pin(async { client.batch_execute(SESSION).await.map(|()| None) });
        let preparing = statements.map(|statement| -> Preparing<'_> {
            Box::pin(async move {
                client.prepare_typed(&text(statement, scheme, table), types(statement)).await.map(Some)
            })
        });
        let prepared = all([limited].into_iter().chain(preparing)).await.into_iter();
        let prepared = prepared.collect::<std::result::Result<Vec<_>, _>>()?;
        self.statements = Statements::Prepared(prepared.into_iter().flatten().collect());
        Ok(())
    }

    fn is_pooled(&self) -> bool {
        matches!(self.statements, Statements::Texts(_))
    }

    fn statements_used(&self) -> &'static [Statement] {
        match self.shared.options.scheme {
            Scheme::Row => &Statement::ALL,
            Scheme::Insert => &Statement::OF_INSERT[..7],
            // Nothing but sweeps.
            Scheme::Session => &[],
        }
    }

    /// What makes the tables of its scheme.
    fn tables(&self) -> String {
        let options = &self.shared.options;
        match options.scheme {
            Scheme::Insert => inserts::tables(&options.table),
            _ => statements::tables(&options.table),
        }
    }

    /// # Errors
    /// What the server says. If the user may not make them, with `sql` for an administrator.
    pub(super) async fn make_tables(&self, tables: &str, sql: String) -> Result<()> {
        let options = &self.shared.options;
        for _ in 0..3 {
            // All of it is one transaction.
            match self.client.batch_execute(&format!("{}; {tables}", limits!("true"))).await {
                // Two that make the same table at once: one finds half of what the other has just made.
                Err(error)
                    if matches!(
                        error.code(),
                        Some(
                            &SqlState::UNIQUE_VIOLATION
                                | &SqlState::DUPLICATE_TABLE
                                | &SqlState::DUPLICATE_OBJECT
                        )
                    ) => {}
                Err(error) => return Err(not_made(&error, options, sql)),
                Ok(()) => return Ok(()),
            }
        }
        Ok(())
    }

    /// A statement that was not prepared. `None` if its table is not there.
    ///
    /// # Errors
    /// What the server says.
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
                let asked: [Pin<Box<dyn Future<Output = _> + Send>>; 3] = [
                    Box::pin(command(BEGIN_LIMITED)),
                    Box::pin(self.client.query_typed(text, values)),
                    Box::pin(command("COMMIT")),
                ];
                let answers: std::result::Result<Vec<_>, _> = all(asked).await.into_iter().collect();
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

    /// Ends it at once, whatever is under way on it.
    pub(super) fn close(&self) {
        self.close_flag.close();
        self.driver.abort();
    }

    /// Statements in one round trip, each for itself or all in the open transaction.
    ///
    /// # Errors
    /// The first that failed.
    pub(super) async fn run(&self, queries: &[Query]) -> Result<Vec<QueryResult>> {
        let guard = AbandonGuard::retire_if_slow(|| self.close());
        let answers = all(queries.iter().map(|query| self.ask(query))).await;
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
        let answers = self.ask_between(before, queries, after).await;
        guard.answered();
        answers.map_err(|error| failed(&error, &self.shared.options))
    }

    /// Runs statements in one round trip, between two commands without values.
    async fn ask_between(
        &self,
        before: &str,
        queries: &[Query],
        after: &str,
    ) -> std::result::Result<Vec<QueryResult>, tokio_postgres::Error> {
        let command = |text: String| async move {
            if !text.is_empty() {
                self.client.batch_execute(&text).await?;
            }
            Ok(QueryResult::default())
        };
        let asked: Vec<Pin<Box<dyn Future<Output = Asked> + Send>>> =
            [Box::pin(command(before.to_owned())) as _]
                .into_iter()
                .chain(queries.iter().map(|query| Box::pin(self.ask(query)) as _))
                .chain([Box::pin(command(after.to_owned())) as _])
                .collect();
        let mut read = all(asked).await.into_iter().collect::<std::result::Result<Vec<_>, _>>()?;
        read.remove(0);
        read.truncate(queries.len());
        Ok(read)
    }

    pub(super) async fn command(&self, text: &str) -> Result<()> {
        self.client.batch_execute(text).await.map_err(|error| failed(&error, &self.shared.options))
    }

    async fn ask(&self, query: &Query) -> Asked {
        let values = query.values.iter().map(|value| value as &(dyn ToSql + Sync));
        let number = || query.statement as usize - self.statements_used()[0] as usize;
        let rows = match &self.statements {
            _ if Statement::OF_SWEEP.contains(&query.statement) => {
                let values: Vec<_> = values.zip(types(query.statement).iter().cloned()).collect();
                let Options { scheme, table, .. } = &*self.shared.options;
                self.client.query_typed(&text(query.statement, *scheme, table), &values).await?
            }
            Statements::Prepared(prepared) => {
                let values: Vec<_> = values.collect();
                self.client.query(&prepared[number()], &values).await?
            }
            Statements::Texts(texts) => {
                let values: Vec<_> = values.zip(types(query.statement).iter().cloned()).collect();
                self.client.query_typed(&texts[number()], &values).await?
            }
        };
        let rows = rows.iter().map(read_row).collect::<std::result::Result<Vec<_>, _>>()?;
        Ok(QueryResult { changed: rows.len() as u64, rows })
    }
}

type Asked = std::result::Result<QueryResult, tokio_postgres::Error>;

/// Prepares a statement on the server, or runs another command.
type Preparing<'a> = Pin<
    Box<
        dyn Future<Output = std::result::Result<Option<tokio_postgres::Statement>, tokio_postgres::Error>>
            + Send
            + 'a,
    >,
>;

/// Carries all out, in the order in which they stand here: each sends its request when it is first polled.
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

/// `ID TOKEN`.
fn read_message(text: &str) -> Option<(ClaimId, u64)> {
    let (id, token) = text.split_once(' ')?;
    let id = u128::from_str_radix(id, 16).ok().filter(|_| id.len() == 32)?;
    Some((ClaimId::from_bytes(id.to_be_bytes()), token.parse().ok()?))
}

fn read_row(row: &Row) -> std::result::Result<Vec<Value>, tokio_postgres::Error> {
    (0..row.len()).map(|column| row.try_get(column)).collect()
}

impl<'a> FromSql<'a> for Value {
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

impl ToSql for Value {
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
