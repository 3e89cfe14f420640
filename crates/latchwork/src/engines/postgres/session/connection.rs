//! One connection with the locks that the server keeps for it.

use std::sync::{Arc, Mutex, OnceLock};

use tokio_postgres::error::SqlState;

use super::super::failure::{failed, not_connected, not_made, refused};
use super::super::grants;
use super::super::options::Options;
use super::super::statements::{self, NOW};
use super::super::wire::{Kind, Param, Prepared, Reply, Row, Wire, WireError};
use crate::engine::Note;
use crate::engines::sql::Statement;
use crate::engines::sql::session::{Backend, Connection, Key, Moving, Seen, Terms, Tried, still_there};
use crate::poison::lock_ignoring_poison;
use crate::{Effect, Error, ErrorKind, LockName, Result};

/// How long an `end` waits at most until the other connection is gone, in milliseconds.
const END_LIMIT: i64 = 3_000;
/// The longest name of a connection that the server keeps.
const LONGEST_NAME: usize = 63;
/// Before the note, in the name of a connection.
const NAME: &str = "latchwork";

/// A connection.
pub(super) struct Advisory {
    wire: Wire,
    backend: Backend,
    statements: Statements,
    /// In milliseconds.
    end_limit: i64,
    fence: OnceLock<Fence>,
    /// What the server was last told of who this is.
    note: Mutex<Note>,
    options: Arc<Options>,
}

struct Statements {
    try_lock: Prepared,
    wait_lock: Prepared,
    unlock: Prepared,
    is_held: Prepared,
    beat: Prepared,
    end: Prepared,
    seen: Prepared,
    name: Prepared,
}

/// What needs the table of tokens.
struct Fence {
    try_lock: Prepared,
    draw: Prepared,
}

/// A pooler that gives each transaction another connection of the server takes locks for whoever comes next. Two clients at once
/// find out: the second, in a transaction, is given what the first has just used, or the first another than before.
///
/// # Errors
/// [`ErrorKind::Unsupported`] if so; or what the server says.
pub(super) async fn refuse_pooler(options: &Options) -> Result<()> {
    let connected =
        async || Wire::open(options, None).await.map_err(|wire_error| not_connected(wire_error, options));
    let (first, second) = (connected().await?, connected().await?);
    let before = backend_number(&first, "", options).await?;
    let beside = backend_number(&second, "BEGIN; ", options).await?;
    let is_pooled = before == beside || backend_number(&first, "", options).await? != before;
    if is_pooled {
        let message = format!(
            "postgres at {}: a pooler gives out its server connections by transaction, and a session lock would stay with the \
             next client; name the server itself, let the pooler work by session, or leave scheme=session out",
            options.place
        );
        return Err(Error::new(ErrorKind::Unsupported, message));
    }
    Ok(())
}

/// By a simple query: what a pooler does with prepared statements is another matter.
async fn backend_number(wire: &Wire, before: &str, options: &Options) -> Result<String> {
    let answer = wire.query(&format!("{before}SELECT pg_backend_pid()")).await;
    let reply = answer.map_err(|wire_error| refused(wire_error, options))?;
    reply.first().and_then(|row| row.text(0)).map(str::to_owned).ok_or_else(protocol_error)
}

/// What makes a lease of a connection: the server ends one that is silent for a ttl, also while its client waits, and notices
/// one that is gone. Tokens are on disk when they are given out.
fn settings(terms: &Terms) -> String {
    let (ttl, slice) = (terms.ttl.as_millis(), terms.slice().as_millis());
    let (look, seconds) = ((ttl / 4).clamp(50, 1_000), ttl.div_ceil(4_000));
    format!(
        "SET idle_session_timeout = {ttl}; SET lock_timeout = {slice}; SET statement_timeout = 0; \
         SET client_connection_check_interval = {look}; SET tcp_user_timeout = {ttl}; SET tcp_keepalives_idle = {seconds}; \
         SET tcp_keepalives_interval = {seconds}; SET tcp_keepalives_count = 3; \
         SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') IN ('off', 'local')"
    )
}

impl Advisory {
    /// # Errors
    /// What the server says; [`ErrorKind::Unsupported`] if it is a standby, or older than 14.
    pub(super) async fn open(options: Arc<Options>, terms: &Terms, moving: &Arc<Moving>) -> Result<Self> {
        let wire = Wire::open(&options, Some(moving))
            .await
            .map_err(|wire_error| not_connected(wire_error, &options))?;
        let unfit = |why: &str| {
            let message = format!("postgres at {}: {why}", options.place);
            Error::new(ErrorKind::Unsupported, message)
        };
        let (set, preparing) = (wire.query(&settings(terms)), prepare(&wire));
        let me = wire.prepare(include_str!("self.sql"), &[]);
        set.await.map_err(|wire_error| match &wire_error {
            WireError::Refused { code, .. } if *code == *SqlState::UNDEFINED_OBJECT.code() => {
                unfit("scheme=session needs PostgreSQL 14 or newer")
            }
            _ => refused(wire_error, &options),
        })?;
        let asked = async { Ok((preparing.await?, wire.execute(me.await?, &[]).await?)) };
        let (statements, me) = asked.await.map_err(|wire_error: WireError| refused(wire_error, &options))?;
        let row = me.first().ok_or_else(protocol_error)?;
        if row.bool(2).ok_or_else(protocol_error)? {
            return Err(unfit("it is a standby, and its locks are not the primary's; name the primary"));
        }
        let backend = backend(&row)?;
        // A connection on which nothing is heard for longer is given up.
        let end_limit = END_LIMIT.min(terms.ttl.as_millis() as i64 / 4);
        let (fence, note) = (OnceLock::new(), Mutex::default());
        Ok(Self { wire, backend, statements, end_limit, fence, note, options })
    }

    fn failed(&self, wire_error: WireError) -> Error {
        failed(wire_error, &self.options)
    }

    /// The statements that draw tokens. Two may prepare them at once: nobody waits for another, who may stand still.
    async fn fence(&self) -> Result<&Fence> {
        match self.fence.get() {
            Some(fence) => Ok(fence),
            None => {
                let prepared = self.prepare_fence().await?;
                Ok(self.fence.get_or_init(|| prepared))
            }
        }
    }

    /// A token that was not drawn. The lock itself needs no right.
    fn not_drawn(&self, wire_error: WireError) -> Error {
        let denied = self.failed(wire_error);
        match denied.kind() {
            ErrorKind::Denied => denied.with_sql(grants::of_tokens(&self.options)),
            _ => denied,
        }
    }

    /// Makes the table of tokens if it is missing.
    async fn prepare_fence(&self) -> Result<Fence> {
        let table = format!("{}_fence", self.options.table);
        match fence(&self.wire, &table).await {
            Err(WireError::Refused { code, .. }) if code == *SqlState::UNDEFINED_TABLE.code() => {
                // Two that make it at once: one of them fails, and finds it.
                let made = self.wire.query(&self::table(&table)).await;
                fence(&self.wire, &table).await.map_err(|wire_error| {
                    let sql = grants::of_tokens(&self.options);
                    not_made(made.err().unwrap_or(wire_error), &self.options, sql)
                })
            }
            fence => fence
                .map_err(|wire_error| not_made(wire_error, &self.options, grants::of_tokens(&self.options))),
        }
    }

    /// Tells the server who this is, if it was told otherwise. Nobody waits for an answer: it is for people to read.
    fn tell(&self, note: &Note) {
        let is_known = std::mem::replace(&mut *lock_ignoring_poison(&self.note), note.clone()) == *note;
        if !is_known {
            drop(self.wire.execute(self.statements.name, &[Param::Bytes(name_of(note).as_bytes())]));
        }
    }

    async fn yes(&self, statement: Prepared, key: Key) -> Result<bool> {
        let reply = self.wire.execute(statement, &[Param::Int(key.number())]).await;
        yes(&reply.map_err(|wire_error| self.failed(wire_error))?)
    }
}

/// The statement that makes the table of tokens.
pub(in super::super) fn table(name: &str) -> String {
    format!("CREATE TABLE IF NOT EXISTS {name} (name bytea PRIMARY KEY, token bigint NOT NULL);")
}

/// All of it is on its way when this returns.
fn prepare(wire: &Wire) -> impl Future<Output = std::result::Result<Statements, WireError>> + Send + use<> {
    let int = [Kind::Int; 3];
    let try_lock = wire.prepare("SELECT pg_try_advisory_lock($1)", &int[..1]);
    let wait_lock = wire.prepare("SELECT pg_advisory_lock($1)", &int[..1]);
    let unlock = wire.prepare("SELECT pg_advisory_unlock($1)", &int[..1]);
    let is_held = wire.prepare(include_str!("is_held.sql"), &int[..1]);
    let beat = wire.prepare("SELECT true", &[]);
    let end = wire.prepare(include_str!("end.sql"), &int);
    let seen = wire.prepare(include_str!("seen.sql"), &int[..1]);
    let name = wire.prepare("SELECT set_config('application_name', $1, false)", &[Kind::Text]);
    async {
        Ok(Statements {
            try_lock: try_lock.await?,
            wait_lock: wait_lock.await?,
            unlock: unlock.await?,
            is_held: is_held.await?,
            beat: beat.await?,
            end: end.await?,
            seen: seen.await?,
            name: name.await?,
        })
    }
}

async fn fence(wire: &Wire, table: &str) -> std::result::Result<Fence, WireError> {
    let text = |text: &str| text.replace("{fence}", table).replace("{now}", NOW);
    let try_lock = wire.prepare(&text(include_str!("try_fenced.sql")), &[Kind::Int, Kind::Bytes]);
    let draw = wire.prepare(&text(include_str!("draw.sql")), &[Kind::Bytes]);
    Ok(Fence { try_lock: try_lock.await?, draw: draw.await? })
}

/// The server cuts what is longer, and shows what is not ASCII as question marks.
fn name_of(note: &Note) -> String {
    let mut name = format!("{NAME} {}", note.as_str());
    name.truncate(name.floor_char_boundary(LONGEST_NAME));
    name
}

/// The note of a connection of this name; and the name, if the connection is not one of ours.
fn read_name(name: &str) -> (Note, Option<String>) {
    match name.strip_prefix(NAME).filter(|rest| rest.is_empty() || rest.starts_with(' ')) {
        Some(note) => (Note::new(note.trim_start()), None),
        None => (Note::new(&format!("a client that is not latchwork: {name}")), Some(name.to_owned())),
    }
}

impl Connection for Advisory {
    fn backend(&self) -> Backend {
        self.backend
    }

    fn is_closed(&self) -> bool {
        self.wire.is_closed()
    }

    async fn try_lock(&self, key: Key, fenced: Option<&LockName>, note: &Note) -> Result<Tried> {
        let key = Param::Int(key.number());
        // The lock does not go with the statement that took it.
        let unsure = |wire_error| self.failed(wire_error).with_effect(Effect::Unknown);
        let Some(name) = fenced else {
            let trying = self.wire.execute(self.statements.try_lock, &[key]);
            self.tell(note);
            let is_held = yes(&trying.await.map_err(unsure)?)?;
            return Ok(if is_held { Tried::Held(None) } else { Tried::Busy });
        };
        let fence = Box::pin(self.fence()).await?;
        let trying = self.wire.execute(fence.try_lock, &[key, Param::Bytes(name.as_str().as_bytes())]);
        self.tell(note);
        let unsure = |wire_error| self.not_drawn(wire_error).with_effect(Effect::Unknown);
        match trying.await.map_err(unsure)?.first() {
            Some(row) => Ok(Tried::Held(Some(token(&row)?))),
            None => Ok(Tried::Busy),
        }
    }

    async fn wait_lock(&self, key: Key, note: &Note) -> Result<bool> {
        self.tell(note);
        let waited = self.wire.execute(self.statements.wait_lock, &[Param::Int(key.number())]).await;
        match waited {
            Ok(_) => Ok(true),
            // A grant may have crossed with the end of the slice, and would stay.
            Err(WireError::Refused { code, .. })
                if [SqlState::LOCK_NOT_AVAILABLE, SqlState::QUERY_CANCELED]
                    .iter()
                    .any(|state| code == *state.code()) =>
            {
                self.yes(self.statements.is_held, key).await
            }
            Err(wire_error) => Err(self.failed(wire_error)),
        }
    }

    async fn draw_token(&self, name: &LockName) -> Result<u64> {
        let draw = self.fence().await?.draw;
        let drawn = self.wire.execute(draw, &[Param::Bytes(name.as_str().as_bytes())]).await;
        token(&drawn.map_err(|wire_error| self.not_drawn(wire_error))?.first().ok_or_else(protocol_error)?)
    }

    async fn is_sweep_due(&self) -> Result<bool> {
        let text = statements::text(Statement::SweepDue, self.options.scheme, &self.options.table);
        let reply = self.wire.query(&text).await.map_err(|wire_error| self.failed(wire_error))?;
        Ok(reply.first().is_some())
    }

    async fn unlock(&self, key: Key) -> Result<bool> {
        self.yes(self.statements.unlock, key).await
    }

    async fn beat(&self) -> Result<()> {
        let beaten = self.wire.execute(self.statements.beat, &[]).await;
        beaten.map(drop).map_err(|wire_error| self.failed(wire_error))
    }

    async fn end(&self, Backend { number, since }: Backend) -> Result<bool> {
        let values = [number, since, self.end_limit].map(Param::Int);
        let reply = self.wire.execute(self.statements.end, &values).await;
        match reply.map_err(|wire_error| self.failed(wire_error))?.first() {
            None => Ok(false),
            Some(row) if row.bool(0).ok_or_else(protocol_error)? => Ok(true),
            Some(_) => Err(still_there("postgres-session", &self.options.place, number)),
        }
    }

    async fn seen(&self, key: Key) -> Result<Vec<Seen>> {
        let reply = self.wire.execute(self.statements.seen, &[Param::Int(key.number())]).await;
        let reply = reply.map_err(|wire_error| self.failed(wire_error))?;
        let read = reply.rows().map(|row| {
            let (is_held, name) =
                (row.bool(2).ok_or_else(protocol_error)?, row.text(3).ok_or_else(protocol_error)?);
            let (note, stranger) = read_name(name);
            Ok(Seen { backend: backend(&row)?, is_held, stranger, note })
        });
        read.collect()
    }
}

fn yes(reply: &Reply) -> Result<bool> {
    reply.first().and_then(|row| row.bool(0)).ok_or_else(protocol_error)
}

fn backend(row: &Row<'_>) -> Result<Backend> {
    let (number, since) = (row.int(0).ok_or_else(protocol_error)?, row.int(1).ok_or_else(protocol_error)?);
    Ok(Backend { number, since })
}

/// What a server that says anything may have answered: it may have acted as well.
fn protocol_error() -> Error {
    let message = "postgres: unexpected reply to a request";
    Error::new(ErrorKind::Corrupt, message).with_effect(Effect::Unknown)
}

fn token(row: &Row<'_>) -> Result<u64> {
    let number = row.int(0).ok_or_else(protocol_error)?;
    u64::try_from(number).ok().filter(|token| *token < 1 << 55).ok_or_else(|| {
        let message = format!("postgres: {number} cannot be a token; it must be below 2^55");
        // It holds by now.
        Error::new(ErrorKind::Corrupt, message).with_effect(Effect::Unknown)
    })
}
