//! One connection, for which the server keeps advisory locks.

use std::sync::{Arc, Mutex, OnceLock};

use tokio_postgres::error::SqlState;

use super::super::errors::{failed, not_connected, not_created, refused};
use super::super::grants;
use super::super::options::Options;
use super::super::statements::{self, NOW};
use super::super::wire::{
    AdvisoryWire, ParamType, Reply, ReplyRow, StatementName, StatementParam, WireError,
};
use crate::engine::Note;
use crate::engines::sql::Statement;
use crate::engines::sql::session::{
    Backend, Key, Moving, Participant, SessionConnection, SessionTerms, TryLock, not_terminated,
};
use crate::poison::lock_ignoring_poison;
use crate::{Effect, Error, ErrorKind, LockName, Result};

/// How long `terminate` waits at most until the other connection is gone, in milliseconds.
const TERMINATE_LIMIT: i64 = 3_000;
/// The longest `application_name` that the server stores.
const MAX_NAME_LENGTH: usize = 63;
/// The beginning of the `application_name`, before the note.
const NAME_PREFIX: &str = "latchwork";

/// The columns of the statements.
mod columns {
    /// The only column of a statement that returns one value.
    pub(super) const RESULT: usize = 0;
    /// In `self.sql` and `participants.sql`.
    pub(super) const BACKEND_NUMBER: usize = 0;
    pub(super) const BACKEND_SINCE: usize = 1;
    /// In `self.sql`.
    pub(super) const IS_STANDBY: usize = 2;
    /// In `participants.sql`.
    pub(super) const IS_HOLDER: usize = 2;
    pub(super) const APPLICATION_NAME: usize = 3;
}

/// A connection.
pub(super) struct PostgresAdvisoryConnection {
    wire: AdvisoryWire,
    backend: Backend,
    statements: AdvisoryStatements,
    /// In milliseconds.
    terminate_limit: i64,
    token_statements: OnceLock<TokenStatements>,
    /// The note in the `application_name` on the server.
    note: Mutex<Note>,
    options: Arc<Options>,
}

struct AdvisoryStatements {
    try_lock: StatementName,
    wait_lock: StatementName,
    unlock: StatementName,
    is_held: StatementName,
    heartbeat: StatementName,
    terminate: StatementName,
    participants: StatementName,
    set_name: StatementName,
}

/// The statements that need the table of tokens.
struct TokenStatements {
    try_lock: StatementName,
    draw_token: StatementName,
}

/// Refuses a pooler that assigns a server connection to each transaction: a lock would stay with the next
/// client. Two clients detect it. While the second has a transaction, the first asks again; after that
/// transaction, the second asks again:
///
/// - A pooler that assigns the connection that was used last gives the second client the one of the first.
/// - A pooler that assigns the connection that was idle for longest gives the first client another one than before. If it
///   has only two, the first gets its own, because the other is in the transaction; the second then gets the first's.
///
/// # Errors
/// [`ErrorKind::Unsupported`] if there is such a pooler, or the error of the server.
pub(super) async fn refuse_pooler(options: &Options) -> Result<()> {
    let connected = async || {
        AdvisoryWire::open(options, None).await.map_err(|wire_error| not_connected(wire_error, options))
    };
    let (first, second) = (connected().await?, connected().await?);
    let before = backend_number(&first, "", options).await?;
    let beside = backend_number(&second, "BEGIN; ", options).await?;
    let is_pooled = before == beside || backend_number(&first, "", options).await? != before || {
        // A message of its own: the pooler assigns a connection to each message outside of a transaction.
        second.query("COMMIT").await.map_err(|wire_error| refused(wire_error, options))?;
        backend_number(&second, "", options).await? != beside
    };
    if is_pooled {
        let message = format!(
            "postgres at {}: a pooler assigns its server connections by transaction, and a session lock would stay with the \
             next client; name the server itself, set the pooler to session pooling, or leave scheme=session out",
            options.shown_as
        );
        return Err(Error::new(ErrorKind::Unsupported, message));
    }
    Ok(())
}

/// The number of the backend, by a simple query: some poolers handle prepared statements in another way.
async fn backend_number(wire: &AdvisoryWire, before: &str, options: &Options) -> Result<String> {
    let answer = wire.query(&format!("{before}SELECT pg_backend_pid()")).await;
    let reply = answer.map_err(|wire_error| refused(wire_error, options))?;
    reply
        .first()
        .and_then(|row| row.text(columns::BACKEND_NUMBER))
        .map(str::to_owned)
        .ok_or_else(protocol_error)
}

/// The settings of a session. They make a lease of the connection: the server ends it when it is silent for a
/// ttl, also during a wait, and detects that the client is gone. Tokens are durable before the server returns
/// them.
fn settings(terms: &SessionTerms) -> String {
    let (ttl, slice) = (terms.ttl.as_millis(), terms.slice().as_millis());
    let (check_interval, keepalive) = ((ttl / 4).clamp(50, 1_000), ttl.div_ceil(4_000));
    format!(
        "SET idle_session_timeout = {ttl}; SET lock_timeout = {slice}; SET statement_timeout = 0; \
         SET client_connection_check_interval = {check_interval}; SET tcp_user_timeout = {ttl}; SET tcp_keepalives_idle = {keepalive}; \
         SET tcp_keepalives_interval = {keepalive}; SET tcp_keepalives_count = 3; \
         SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') IN ('off', 'local')"
    )
}

impl PostgresAdvisoryConnection {
    /// # Errors
    /// The error of the server; [`ErrorKind::Unsupported`] if it is a standby, or older than 14.
    pub(super) async fn open(
        options: Arc<Options>,
        terms: &SessionTerms,
        moving: &Arc<Moving>,
    ) -> Result<Self> {
        let wire = AdvisoryWire::open(&options, Some(moving))
            .await
            .map_err(|wire_error| not_connected(wire_error, &options))?;
        let unfit = |why: &str| {
            let message = format!("postgres at {}: {why}", options.shown_as);
            Error::new(ErrorKind::Unsupported, message)
        };
        let (set, preparing) = (wire.query(&settings(terms)), prepare(&wire));
        let own_backend = wire.prepare(include_str!("self.sql"), &[]);
        set.await.map_err(|wire_error| match &wire_error {
            WireError::Refused { code, .. } if *code == *SqlState::UNDEFINED_OBJECT.code() => {
                unfit("scheme=session needs PostgreSQL 14 or newer")
            }
            _ => refused(wire_error, &options),
        })?;
        let prepared = async { Ok((preparing.await?, wire.execute(own_backend.await?, &[]).await?)) };
        let (statements, own_backend) =
            prepared.await.map_err(|wire_error: WireError| refused(wire_error, &options))?;
        let row = own_backend.first().ok_or_else(protocol_error)?;
        if row.bool(columns::IS_STANDBY).ok_or_else(protocol_error)? {
            return Err(unfit("it is a standby, and its locks are not the primary's; name the primary"));
        }
        let backend = backend(&row)?;
        // This connection is itself given up when it is unanswered for longer.
        let terminate_limit = TERMINATE_LIMIT.min(terms.ttl.as_millis() as i64 / 4);
        let (token_statements, note) = (OnceLock::new(), Mutex::default());
        Ok(Self { wire, backend, statements, terminate_limit, token_statements, note, options })
    }

    fn failed(&self, wire_error: WireError) -> Error {
        failed(wire_error, &self.options)
    }

    /// The statements that draw tokens. Two tasks may prepare them at once: a task must not wait for another
    /// one, whose runtime may be blocked.
    async fn token_statements(&self) -> Result<&TokenStatements> {
        match self.token_statements.get() {
            Some(statements) => Ok(statements),
            None => {
                let prepared = self.prepare_token_statements().await?;
                Ok(self.token_statements.get_or_init(|| prepared))
            }
        }
    }

    /// The error for a token that could not be drawn. The lock itself needs no right.
    fn not_drawn(&self, wire_error: WireError) -> Error {
        let denied = self.failed(wire_error);
        match denied.kind() {
            ErrorKind::Denied => denied.with_sql(grants::of_tokens(&self.options)),
            _ => denied,
        }
    }

    /// Creates the table of tokens if it is missing.
    async fn prepare_token_statements(&self) -> Result<TokenStatements> {
        let table = format!("{}_fence", self.options.table);
        match prepare_token_statements(&self.wire, &table).await {
            Err(WireError::Refused { code, .. }) if code == *SqlState::UNDEFINED_TABLE.code() => {
                // Two clients create it at once: one of them fails, and then finds it.
                let created = self.wire.query(&create_table(&table)).await;
                prepare_token_statements(&self.wire, &table).await.map_err(|wire_error| {
                    let sql = grants::of_tokens(&self.options);
                    not_created(created.err().unwrap_or(wire_error), &self.options, sql)
                })
            }
            prepared => prepared.map_err(|wire_error| {
                not_created(wire_error, &self.options, grants::of_tokens(&self.options))
            }),
        }
    }

    /// Sets the `application_name` to the note, unless it is set already. The reply is not awaited: the name
    /// is only for people to read.
    fn set_name(&self, note: &Note) {
        let is_known = std::mem::replace(&mut *lock_ignoring_poison(&self.note), note.clone()) == *note;
        if !is_known {
            drop(
                self.wire
                    .execute(self.statements.set_name, &[StatementParam::Bytes(name_of(note).as_bytes())]),
            );
        }
    }

    async fn returns_true(&self, statement: StatementName, key: Key) -> Result<bool> {
        let reply = self.wire.execute(statement, &[StatementParam::Int(key.number())]).await;
        is_true(&reply.map_err(|wire_error| self.failed(wire_error))?)
    }
}

/// The statement that creates the table of tokens.
pub(in super::super) fn create_table(name: &str) -> String {
    format!("CREATE TABLE IF NOT EXISTS {name} (name bytea PRIMARY KEY, token bigint NOT NULL);")
}

/// All requests are sent when this returns.
fn prepare(
    wire: &AdvisoryWire,
) -> impl Future<Output = std::result::Result<AdvisoryStatements, WireError>> + Send + use<> {
    let int = [ParamType::Int; 3];
    let try_lock = wire.prepare("SELECT pg_try_advisory_lock($1)", &int[..1]);
    let wait_lock = wire.prepare("SELECT pg_advisory_lock($1)", &int[..1]);
    let unlock = wire.prepare("SELECT pg_advisory_unlock($1)", &int[..1]);
    let is_held = wire.prepare(include_str!("is_held.sql"), &int[..1]);
    let heartbeat = wire.prepare("SELECT true", &[]);
    let terminate = wire.prepare(include_str!("terminate.sql"), &int);
    let participants = wire.prepare(include_str!("participants.sql"), &int[..1]);
    let set_name = wire.prepare("SELECT set_config('application_name', $1, false)", &[ParamType::Text]);
    async {
        Ok(AdvisoryStatements {
            try_lock: try_lock.await?,
            wait_lock: wait_lock.await?,
            unlock: unlock.await?,
            is_held: is_held.await?,
            heartbeat: heartbeat.await?,
            terminate: terminate.await?,
            participants: participants.await?,
            set_name: set_name.await?,
        })
    }
}

async fn prepare_token_statements(
    wire: &AdvisoryWire,
    table: &str,
) -> std::result::Result<TokenStatements, WireError> {
    let text = |text: &str| text.replace("{fence}", table).replace("{now}", NOW);
    let try_lock = wire.prepare(&text(include_str!("try_fenced.sql")), &[ParamType::Int, ParamType::Bytes]);
    let draw_token = wire.prepare(&text(include_str!("draw.sql")), &[ParamType::Bytes]);
    Ok(TokenStatements { try_lock: try_lock.await?, draw_token: draw_token.await? })
}

/// The `application_name` for a note. The server truncates longer names, and shows question marks for all
/// characters that are not ASCII.
fn name_of(note: &Note) -> String {
    let mut name = format!("{NAME_PREFIX} {}", note.as_str());
    name.truncate(name.floor_char_boundary(MAX_NAME_LENGTH));
    name
}

/// The note of a connection with this name; and the name, if it is another program's connection.
fn read_name(name: &str) -> (Note, Option<String>) {
    match name.strip_prefix(NAME_PREFIX).filter(|rest| rest.is_empty() || rest.starts_with(' ')) {
        Some(note) => (Note::new(note.trim_start()), None),
        None => (Note::new(&format!("a client that is not latchwork: {name}")), Some(name.to_owned())),
    }
}

impl SessionConnection for PostgresAdvisoryConnection {
    fn backend(&self) -> Backend {
        self.backend
    }

    fn is_closed(&self) -> bool {
        self.wire.is_closed()
    }

    async fn try_lock(&self, key: Key, fenced: Option<&LockName>, note: &Note) -> Result<TryLock> {
        let key = StatementParam::Int(key.number());
        // A failed statement does not release a lock that it took.
        let unsure = |wire_error| self.failed(wire_error).with_effect(Effect::Unknown);
        let Some(name) = fenced else {
            let trying = self.wire.execute(self.statements.try_lock, &[key]);
            self.set_name(note);
            let is_held = is_true(&trying.await.map_err(unsure)?)?;
            return Ok(if is_held { TryLock::Held(None) } else { TryLock::Busy });
        };
        let statements = Box::pin(self.token_statements()).await?;
        let trying =
            self.wire.execute(statements.try_lock, &[key, StatementParam::Bytes(name.as_str().as_bytes())]);
        self.set_name(note);
        let unsure = |wire_error| self.not_drawn(wire_error).with_effect(Effect::Unknown);
        match trying.await.map_err(unsure)?.first() {
            Some(row) => Ok(TryLock::Held(Some(token(&row)?))),
            None => Ok(TryLock::Busy),
        }
    }

    async fn wait_lock(&self, key: Key, note: &Note) -> Result<bool> {
        self.set_name(note);
        let waited = self.wire.execute(self.statements.wait_lock, &[StatementParam::Int(key.number())]).await;
        match waited {
            Ok(_) => Ok(true),
            // The lock may have been granted at the end of the slice, and would then stay held.
            Err(WireError::Refused { code, .. })
                if [SqlState::LOCK_NOT_AVAILABLE, SqlState::QUERY_CANCELED]
                    .iter()
                    .any(|state| code == *state.code()) =>
            {
                self.returns_true(self.statements.is_held, key).await
            }
            Err(wire_error) => Err(self.failed(wire_error)),
        }
    }

    async fn draw_token(&self, name: &LockName) -> Result<u64> {
        let draw_token = self.token_statements().await?.draw_token;
        let drawn = self.wire.execute(draw_token, &[StatementParam::Bytes(name.as_str().as_bytes())]).await;
        token(&drawn.map_err(|wire_error| self.not_drawn(wire_error))?.first().ok_or_else(protocol_error)?)
    }

    async fn is_sweep_due(&self) -> Result<bool> {
        let text = statements::text(Statement::SweepDue, self.options.scheme, &self.options.table);
        let reply = self.wire.query(&text).await.map_err(|wire_error| self.failed(wire_error))?;
        Ok(reply.first().is_some())
    }

    async fn unlock(&self, key: Key) -> Result<bool> {
        self.returns_true(self.statements.unlock, key).await
    }

    async fn heartbeat(&self) -> Result<()> {
        let reply = self.wire.execute(self.statements.heartbeat, &[]).await;
        reply.map(drop).map_err(|wire_error| self.failed(wire_error))
    }

    async fn terminate(&self, Backend { number, since }: Backend) -> Result<bool> {
        let values = [number, since, self.terminate_limit].map(StatementParam::Int);
        let reply = self.wire.execute(self.statements.terminate, &values).await;
        match reply.map_err(|wire_error| self.failed(wire_error))?.first() {
            None => Ok(false),
            Some(row) if row.bool(columns::RESULT).ok_or_else(protocol_error)? => Ok(true),
            Some(_) => Err(not_terminated("postgres-session", &self.options.shown_as, number)),
        }
    }

    async fn participants(&self, key: Key) -> Result<Vec<Participant>> {
        let reply =
            self.wire.execute(self.statements.participants, &[StatementParam::Int(key.number())]).await;
        let reply = reply.map_err(|wire_error| self.failed(wire_error))?;
        let read = reply.rows().map(|row| {
            let is_holder = row.bool(columns::IS_HOLDER).ok_or_else(protocol_error)?;
            let name = row.text(columns::APPLICATION_NAME).ok_or_else(protocol_error)?;
            let (note, foreign) = read_name(name);
            Ok(Participant { backend: backend(&row)?, is_holder, foreign, note })
        });
        read.collect()
    }
}

fn is_true(reply: &Reply) -> Result<bool> {
    reply.first().and_then(|row| row.bool(columns::RESULT)).ok_or_else(protocol_error)
}

fn backend(row: &ReplyRow<'_>) -> Result<Backend> {
    let number = row.int(columns::BACKEND_NUMBER).ok_or_else(protocol_error)?;
    let since = row.int(columns::BACKEND_SINCE).ok_or_else(protocol_error)?;
    Ok(Backend { number, since })
}

/// The error for an unexpected reply. The server may have carried out the request.
fn protocol_error() -> Error {
    let message = "postgres: unexpected reply to a request";
    Error::new(ErrorKind::Corrupt, message).with_effect(Effect::Unknown)
}

fn token(row: &ReplyRow<'_>) -> Result<u64> {
    let number = row.int(columns::RESULT).ok_or_else(protocol_error)?;
    u64::try_from(number).ok().filter(|token| *token < 1 << 55).ok_or_else(|| {
        let message = format!("postgres: {number} cannot be a token; it must be below 2^55");
        // The lock is held by now.
        Error::new(ErrorKind::Corrupt, message).with_effect(Effect::Unknown)
    })
}
