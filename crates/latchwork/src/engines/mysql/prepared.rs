//! A connection with the statements of rows prepared on it.
//!
//! In MySQL and MariaDB a failed statement does not end its transaction: statements that were sent behind it
//! are still carried out, and would be committed. So a commit is sent only when all statements before it were
//! answered. And autocommit is off meanwhile: otherwise the statements behind one that ended the transaction
//! (a deadlock) would each be committed by themselves.

use std::sync::Arc;

use tokio::sync::OnceCell;

use super::cells::{self, CellStatement};
use super::connection::Connection;
use super::errors::{code, refused};
use super::grants::{self, Account};
use super::inserts;
use super::options::{Options, Scheme};
use super::statements::{Text, create_tables};
use super::wire::{Batch, MysqlCommand, PendingResponse, Reply, StatementId, WireError, WireResult};
use crate::engines::sql::{Query, QueryResult, SqlValue, Statement, StatementMap};
use crate::{Effect, Error, ErrorKind, Result};

/// Beginning and end of a transaction, on MariaDB and on MySQL. A client that is stopped in a transaction
/// must not block a lock. MariaDB has a setting for that, which the session has set; MySQL has only the
/// timeout of an idle session.
const BEGIN: [&str; 2] = ["SET SESSION autocommit = 0", "SET SESSION autocommit = 0, wait_timeout = 3"];
const END: [&str; 2] = ["SET SESSION autocommit = 1", "SET SESSION autocommit = 1, wait_timeout = DEFAULT"];

/// Room for all but the value in a packet that writes a cell.
const BESIDE_A_VALUE: usize = 1024;

/// A connection on which the statements are prepared.
pub(super) struct PreparedConnection {
    connection: Connection,
    /// The statements of the scheme.
    statements: Statements<Statement>,
    /// Statements of a sweep, each prepared when it is first used. The user may lack the right to delete, and
    /// must be able to lock all the same.
    of_sweep: StatementMap<Statement, OnceCell<(Text, StatementId)>>,
    /// Prepared when a cell is first used.
    of_cells: OnceCell<CellStatements>,
}

type Statements<S> = StatementMap<S, (Text, StatementId)>;

/// Held while the statements are prepared. If that is cancelled, the connection is closed at once. Otherwise
/// it would stay until every statement sent on it had waited for its locks.
struct OpeningGuard<'a>(&'a Connection);

impl Drop for OpeningGuard<'_> {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// The statements on cells.
struct CellStatements {
    statements: Statements<CellStatement>,
    /// The longest packet that the server accepts, in bytes.
    max_allowed_packet: usize,
}

impl PreparedConnection {
    /// Connects and prepares the statements; makes the tables if they are missing.
    ///
    /// # Errors
    /// The error of the server. [`ErrorKind::Denied`] with the statements that make the tables, if this user
    /// may not.
    pub(super) async fn open(options: Arc<Options>) -> Result<Self> {
        let connection = Connection::open(options.clone()).await?;
        let opening = OpeningGuard(&connection);
        let table = &options.table;
        let texts = statements_used(&options)
            .iter()
            .map(|statement| (*statement, Text::of(*statement, options.scheme, table)))
            .collect();
        let tables = match options.scheme {
            Scheme::Row => create_tables(table).to_vec(),
            Scheme::Insert => inserts::create_tables(table).to_vec(),
            // The session that draws a token makes the table.
            Scheme::Session => Vec::new(),
        };
        let statements = prepare_or_make(&connection, texts, &tables, grants::of_locks).await?;
        std::mem::forget(opening);
        let of_sweep =
            Statement::OF_SWEEP.into_iter().map(|statement| (statement, OnceCell::new())).collect();
        Ok(Self { connection, statements, of_sweep, of_cells: OnceCell::new() })
    }

    pub(super) fn is_closed(&self) -> bool {
        self.connection.is_closed()
    }

    pub(super) fn close(&self) {
        self.connection.close();
    }

    /// Refuses a server whose clock stands still while a statement waits: leases would begin before they were
    /// granted.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`], naming the setting.
    pub(super) async fn check_clock(&self) -> Result<()> {
        let query = "SELECT SLEEP(0.002) OR SYSDATE(6) <= NOW(6)";
        let reply = self.connection.answer(self.connection.command(query)).await?;
        match reply.rows.first().and_then(|row| row.first()) {
            Some(SqlValue::Bytes(text)) if text == b"1" => {
                let options = self.connection.options();
                let message = format!(
                    "{} at {}: the server runs with sysdate-is-now, and locks need the time when it is asked for",
                    options.engine, options.shown_as
                );
                Err(Error::new(ErrorKind::Invalid, message))
            }
            _ => Ok(()),
        }
    }

    /// Refuses a shared table on which two clients could hold one lock.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`], with the requirement that it misses.
    pub(super) async fn check_table(&self) -> Result<()> {
        let options = self.connection.options();
        let reply = self.connection.answer(self.connection.command(&inserts::is_fit(&options.table))).await?;
        match reply.rows.first().and_then(|row| row.first()) {
            Some(SqlValue::Bytes(text)) if text == b"1" => Ok(()),
            _ => {
                let message = format!(
                    "{} at {}: the table {} must be of InnoDB and have a unique key on unique_mutex alone; \
                     docs/engines/mysql.md says what it needs",
                    options.engine, options.shown_as, options.table
                );
                Err(Error::new(ErrorKind::Invalid, message))
            }
        }
    }

    /// Runs statements in one round trip, each as a transaction of its own, or all in the open transaction.
    ///
    /// # Errors
    /// The error of the first statement that failed; the statements behind it were carried out all the same.
    pub(super) async fn run(&self, queries: &[Query]) -> Result<Vec<QueryResult>> {
        self.prepare_sweeps(queries).await?;
        let mut batch = Batch::default();
        queries.iter().for_each(|query| self.add(&mut batch, query));
        let replies = self.connection.send(batch);
        self.results(queries, replies).await
    }

    async fn results(
        &self,
        queries: &[Query],
        replies: impl IntoIterator<Item = PendingResponse>,
    ) -> Result<Vec<QueryResult>> {
        let waiting = async {
            let mut results = Vec::with_capacity(queries.len());
            for (query, reply) in queries.iter().zip(replies) {
                results.push(query_result(query.statement, reply.await?));
            }
            Ok(results)
        };
        match self.connection.answer(waiting).await {
            Err(error) => Err(self.connection.with_grants(error, grants::of_locks).await),
            results => results,
        }
    }

    /// Runs a statement on cells.
    ///
    /// # Errors
    /// The error of the server, and [`ErrorKind::Invalid`] for a value that is longer than it accepts. Such a
    /// value would end the connection, on which other tasks wait for replies.
    pub(super) async fn run_on_cells(&self, statement: CellStatement, values: &[SqlValue]) -> Result<Reply> {
        let CellStatements { statements, max_allowed_packet } =
            self.of_cells.get_or_try_init(|| self.prepare_cells()).await?;
        let length = values.iter().map(SqlValue::length).max().unwrap_or_default();
        if length + BESIDE_A_VALUE > *max_allowed_packet {
            let (options, most) =
                (self.connection.options(), max_allowed_packet.saturating_sub(BESIDE_A_VALUE));
            let message = format!(
                "{} at {}: the value is {length} bytes long, and the server takes {most} at most; raise its max_allowed_packet, \
                 which is {max_allowed_packet}",
                options.engine, options.shown_as
            );
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        let (text, prepared) = statements.get(statement).expect("all statements on cells are prepared");
        let asked = self.connection.execute(*prepared, &text.params(values));
        match self.connection.answer(asked).await {
            Err(error) => Err(self.connection.with_grants(error, grants::of_cells).await),
            reply => reply,
        }
    }

    /// The slot of a sweep's statement. `None`: it is not a statement of a sweep.
    fn of_sweep(&self, statement: Statement) -> Option<&OnceCell<(Text, StatementId)>> {
        self.of_sweep.get(statement)
    }

    async fn prepare_sweeps(&self, queries: &[Query]) -> Result<()> {
        for query in queries {
            if let Some(of_sweep) = self.of_sweep(query.statement) {
                of_sweep.get_or_try_init(|| self.prepare_for_sweep(query.statement)).await?;
            }
        }
        Ok(())
    }

    async fn prepare_for_sweep(&self, statement: Statement) -> Result<(Text, StatementId)> {
        let options = self.connection.options();
        let text = Text::of(statement, options.scheme, &options.table);
        let prepared = self.connection.answer(self.connection.prepare(&text.sql)).await?;
        Ok((text, prepared))
    }

    async fn prepare_cells(&self) -> Result<CellStatements> {
        let table = &self.connection.options().table;
        let asked = self.connection.command("SELECT @@max_allowed_packet");
        let made = [cells::create_table(table)];
        let statements = {
            let texts = CellStatement::texts(table);
            prepare_or_make(&self.connection, texts, &made, grants::of_cells).await?
        };
        let reply = self.connection.answer(asked).await.map_err(|error| error.with_effect(Effect::None))?;
        let max_allowed_packet = match reply.rows.first() {
            Some([SqlValue::Bytes(text)]) => str::from_utf8(text).ok().and_then(|text| text.parse().ok()),
            _ => None,
        };
        Ok(CellStatements { statements, max_allowed_packet: max_allowed_packet.unwrap_or(usize::MAX) })
    }

    /// Begins a transaction with these statements.
    pub(super) async fn begin(&self, queries: &[Query]) -> Result<Vec<QueryResult>> {
        self.prepare_sweeps(queries).await.map_err(|error| error.with_effect(Effect::None))?;
        let mut batch = Batch::default();
        batch.add(&MysqlCommand::Query(self.of_server(BEGIN)));
        queries.iter().for_each(|query| self.add(&mut batch, query));
        let mut replies = self.connection.send(batch).into_iter();
        let begun = replies.next().expect("a reply for each statement");
        let results = self.results(queries, replies).await;
        // If it was refused, each of the statements was committed by itself.
        self.connection.answer(begun).await.map_err(|error| error.with_effect(Effect::Unknown))?;
        // Nothing is committed, so nothing was done.
        results.map_err(|error| error.with_effect(Effect::None))
    }

    /// Commits the statements of the transaction, all of which must have been answered.
    pub(super) async fn commit(&self) -> Result<()> {
        self.connection.answer(self.connection.command("COMMIT")).await?;
        // Not sent along with the commit: if that is refused, this would commit as well.
        let mut batch = Batch::default();
        batch.add(&MysqlCommand::QueryThatMustSucceed(self.of_server(END)));
        self.connection.send_unattended(batch);
        Ok(())
    }

    /// Ends the transaction before any later statement.
    pub(super) fn roll_back(&self) {
        let mut batch = Batch::default();
        batch.add(&MysqlCommand::QueryThatMustSucceed("ROLLBACK"));
        batch.add(&MysqlCommand::QueryThatMustSucceed(self.of_server(END)));
        self.connection.send_unattended(batch);
    }

    fn of_server(&self, [mariadb, mysql]: [&'static str; 2]) -> &'static str {
        if self.connection.is_mariadb() { mariadb } else { mysql }
    }

    fn add(&self, batch: &mut Batch, query: &Query) {
        let (text, statement) = match self.of_sweep(query.statement).and_then(OnceCell::get) {
            Some(of_sweep) => of_sweep,
            None => self.statements.get(query.statement).expect("all statements of the scheme are prepared"),
        };
        batch.add(&MysqlCommand::Execute(*statement, &text.params(&query.values)));
    }
}

fn query_result(statement: Statement, reply: Reply) -> QueryResult {
    let rows = match statement {
        // If no row matched, the number is that of an earlier statement.
        Statement::ClaimUncontended if reply.matched > 0 => vec![vec![SqlValue::Int(reply.insert_id as i64)]],
        _ => reply.rows.to_vecs(),
    };
    QueryResult { rows, changed: reply.matched }
}

fn statements_used(options: &Options) -> &'static [Statement] {
    match options.scheme {
        Scheme::Row => &Statement::ALL,
        Scheme::Insert => &Statement::OF_INSERT,
        // Only statements of sweeps, which are prepared later.
        Scheme::Session => &[],
    }
}

/// Prepares statements; makes their tables if they are missing. `sql` is for an administrator, if this user
/// may not.
async fn prepare_or_make<S>(
    connection: &Connection,
    texts: Vec<(S, Text)>,
    tables: &[String],
    sql: fn(&Options, &Account) -> String,
) -> Result<Statements<S>> {
    let prepared = match prepare(connection, &texts).await {
        Err(WireError::Refused { code: code::NO_SUCH_TABLE | code::TABLE_DENIED, .. }) => {
            match make(connection, tables).await {
                Ok(()) => prepare(connection, &texts).await,
                Err(wire_error) => Err(wire_error),
            }
        }
        prepared => prepared,
    };
    match prepared {
        Ok(prepared) => {
            let statements = texts.into_iter().zip(prepared);
            Ok(statements.map(|((statement, text), prepared)| (statement, (text, prepared))).collect())
        }
        Err(wire_error) => Err(connection.with_grants(refused(&wire_error, connection.options()), sql).await),
    }
}

async fn prepare<S>(connection: &Connection, texts: &[(S, Text)]) -> WireResult<Vec<StatementId>> {
    let mut batch = Batch::default();
    texts.iter().for_each(|(_, text)| batch.add(&MysqlCommand::Prepare(&text.sql)));
    let mut prepared = Vec::with_capacity(texts.len());
    for reply in connection.send(batch) {
        prepared.push(reply.statement_id().await?);
    }
    Ok(prepared)
}

async fn make(connection: &Connection, tables: &[String]) -> WireResult<()> {
    for table in tables {
        connection.command(table).await?;
    }
    Ok(())
}
