//! One connection with the locks that the server keeps for it.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex, OnceLock};
use std::task::Poll;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio_postgres::error::SqlState;
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::types::{FromSql, ToSql, Type};
use tokio_postgres::{Client, NoTls, Row, SimpleQueryMessage, Statement};

use super::super::failure::{failed, refused};
use super::super::options::Options;
use super::super::texts::NOW;
use crate::engine::Note;
use crate::engines::sql::session::{
    Backend, Connection, Key, Moving, Seen, Socket, Terms, Tried, still_there,
};
use crate::locked::locked;
use crate::{Effect, Error, ErrorKind, LockName, Result};

/// How long an `end` waits at most until the other connection is gone, in milliseconds.
const END_LIMIT: i64 = 3_000;
/// The longest name of a connection that the server keeps.
const LONGEST_NAME: usize = 63;
/// Before the note, in the name of a connection.
const NAME: &str = "latchwork";

/// A connection.
pub(super) struct Advisory {
    client: Client,
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
    try_lock: Statement,
    wait_lock: Statement,
    unlock: Statement,
    is_held: Statement,
    beat: Statement,
    end: Statement,
    seen: Statement,
    name: Statement,
}

/// What needs the table of tokens.
struct Fence {
    try_lock: Statement,
    draw: Statement,
}

/// What moves a connection.
type Driving = Pin<Box<dyn Future<Output = ()> + Send>>;

async fn connect(options: &Options) -> Result<(Client, Driving)> {
    let unreachable = |why: String| {
        let message = format!("postgres at {}: {why}", options.place);
        Error::new(ErrorKind::Unreachable, message)
    };
    let (host, port) = &options.address;
    let socket = Socket::connect(host, *port).await.map_err(|error| unreachable(error.to_string()))?;
    let connected = match &options.tls {
        Some(tls) => {
            let tls = MakeTlsConnect::<Socket>::make_tls_connect(&mut tls.clone(), host);
            let tls = tls.map_err(|error| unreachable(error.to_string()))?;
            options.config.connect_raw(socket, tls).await.map(drive)
        }
        None => options.config.connect_raw(socket, NoTls).await.map(drive),
    };
    connected.map_err(|error| refused(&error, options))
}

/// Until it ends. What it was asked is answered by its drop.
fn drive<T>((client, mut connection): (Client, tokio_postgres::Connection<Socket, T>)) -> (Client, Driving)
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let driving = poll_fn(move |context| {
        loop {
            match connection.poll_message(context) {
                Poll::Ready(Some(Ok(_))) => {}
                Poll::Ready(_) => return Poll::Ready(()),
                Poll::Pending => return Poll::Pending,
            }
        }
    });
    (client, Box::pin(driving))
}

/// A pooler that gives each transaction another connection of the server takes locks for whoever comes next. Two clients at once
/// find out: the second, in a transaction, is given what the first has just used, or the first another than before.
///
/// # Errors
/// [`ErrorKind::Unsupported`] if so; or what the server says.
pub(super) async fn refuse_pooler(options: &Options) -> Result<()> {
    let connected = async || {
        let (client, driving) = connect(options).await?;
        tokio::spawn(driving);
        Ok::<_, Error>(client)
    };
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
async fn backend_number(client: &Client, before: &str, options: &Options) -> Result<String> {
    let answer = client.simple_query(&format!("{before}SELECT pg_backend_pid()")).await;
    let rows = answer.map_err(|error| refused(&error, options))?;
    let number = rows.iter().find_map(|row| match row {
        SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
        _ => None,
    });
    number.ok_or_else(|| Error::new(ErrorKind::Corrupt, "postgres: an answer does not fit its request"))
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
        let (client, driving) = connect(&options).await?;
        moving.start(driving);
        let unfit = |why: &str| {
            let message = format!("postgres at {}: {why}", options.place);
            Error::new(ErrorKind::Unsupported, message)
        };
        client.batch_execute(&settings(terms)).await.map_err(|error| match error.code() {
            Some(&SqlState::UNDEFINED_OBJECT) => unfit("scheme=session needs PostgreSQL 14 or newer"),
            _ => refused(&error, &options),
        })?;
        let statements = prepare(&client).await.map_err(|error| refused(&error, &options))?;
        let asked = client.query_one(
            "SELECT pid::bigint, (extract(epoch FROM backend_start) * 1000000)::bigint, pg_is_in_recovery() \
             FROM pg_stat_activity WHERE pid = pg_backend_pid()",
            &[],
        );
        let row = asked.await.map_err(|error| refused(&error, &options))?;
        if column(&row, 2)? {
            return Err(unfit("it is a standby, and its locks are not the primary's; name the primary"));
        }
        let backend = Backend { number: column(&row, 0)?, since: column(&row, 1)? };
        // A connection on which nothing is heard for longer is given up.
        let end_limit = END_LIMIT.min(terms.ttl.as_millis() as i64 / 4);
        let (fence, note) = (OnceLock::new(), Mutex::default());
        Ok(Self { client, backend, statements, end_limit, fence, note, options })
    }

    fn failed(&self, error: &tokio_postgres::Error) -> Error {
        failed(error, &self.options)
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

    /// Makes the table of tokens if it is missing.
    async fn prepare_fence(&self) -> Result<Fence> {
        let table = format!("{}_fence", self.options.table);
        match fence(&self.client, &table).await {
            Err(error) if error.code() == Some(&SqlState::UNDEFINED_TABLE) => {
                let make = format!(
                    "CREATE TABLE IF NOT EXISTS {table} (name bytea PRIMARY KEY, token bigint NOT NULL)"
                );
                // Two that make it at once: one of them fails, and finds it.
                let made = self.client.batch_execute(&make).await;
                fence(&self.client, &table).await.map_err(|error| {
                    let why = refused(made.as_ref().err().unwrap_or(&error), &self.options);
                    let message =
                        format!("{why}\nthe table of tokens is missing; let an owner run:\n{make};");
                    Error::new(why.kind(), message)
                })
            }
            fence => fence.map_err(|error| refused(&error, &self.options)),
        }
    }

    /// Tells the server who this is, if it was told otherwise. On its way before the request behind it, and in the same round trip.
    async fn tell(&self, note: &Note) {
        let is_known = std::mem::replace(&mut *locked(&self.note), note.clone()) == *note;
        if !is_known {
            // For people to read: that it could not be told does no harm. Boxed, because it is rare.
            let _ = Box::pin(self.client.query(&self.statements.name, &[&name_of(note)])).await;
        }
    }

    async fn yes(&self, statement: &Statement, key: Key) -> Result<bool> {
        let row = self.client.query_one(statement, &[&key.number()]).await;
        row.map_err(|error| self.failed(&error)).and_then(|row| column(&row, 0))
    }
}

async fn prepare(client: &Client) -> std::result::Result<Statements, tokio_postgres::Error> {
    let one = |text: &'static str, types: &'static [Type]| client.prepare_typed(text, types);
    let (try_lock, wait_lock, unlock, is_held, beat, end, seen, name) = tokio::try_join!(
        one("SELECT pg_try_advisory_lock($1)", &[Type::INT8]),
        one("SELECT pg_advisory_lock($1)", &[Type::INT8]),
        one("SELECT pg_advisory_unlock($1)", &[Type::INT8]),
        one(include_str!("is_held.sql"), &[Type::INT8]),
        one("SELECT true", &[]),
        one(include_str!("end.sql"), &[Type::INT8, Type::INT8, Type::INT8]),
        one(include_str!("seen.sql"), &[Type::INT8]),
        one("SELECT set_config('application_name', $1, false)", &[Type::TEXT]),
    )?;
    Ok(Statements { try_lock, wait_lock, unlock, is_held, beat, end, seen, name })
}

async fn fence(client: &Client, table: &str) -> std::result::Result<Fence, tokio_postgres::Error> {
    let text = |text: &str| text.replace("{fence}", table).replace("{now}", NOW);
    let (try_lock, draw) = (text(include_str!("try_fenced.sql")), text(include_str!("draw.sql")));
    let try_lock = client.prepare_typed(&try_lock, &[Type::INT8, Type::BYTEA]);
    let draw = client.prepare_typed(&draw, &[Type::BYTEA]);
    let (try_lock, draw) = tokio::try_join!(try_lock, draw)?;
    Ok(Fence { try_lock, draw })
}

/// The server cuts what is longer, and shows what is not ASCII as question marks.
fn name_of(note: &Note) -> String {
    let mut name = format!("{NAME} {}", note.as_str());
    name.truncate(name.floor_char_boundary(LONGEST_NAME));
    name
}

fn note_of(name: &str) -> Note {
    match name.strip_prefix(NAME) {
        Some(note) => Note::new(note.trim_start()),
        None => Note::new(&format!("another client's: {name}")),
    }
}

impl Connection for Advisory {
    fn backend(&self) -> Backend {
        self.backend
    }

    fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    async fn try_lock(&self, key: Key, fenced: Option<&LockName>, note: &Note) -> Result<Tried> {
        let Some(name) = fenced else {
            let number = key.number();
            let values: [&(dyn ToSql + Sync); 1] = [&number];
            let (row, ()) =
                tokio::join!(self.client.query_one(&self.statements.try_lock, &values), self.tell(note));
            return match row {
                Ok(row) => Ok(if column(&row, 0)? { Tried::Held(None) } else { Tried::Busy }),
                // The lock does not go with the statement that took it.
                Err(error) if error.code().is_some() => Err(self.failed(&error).with_effect(Effect::Unknown)),
                Err(error) => Err(self.failed(&error)),
            };
        };
        let fence = Box::pin(self.fence()).await?;
        let (name, key) = (name.as_str().as_bytes(), key.number());
        let values: [&(dyn ToSql + Sync); 2] = [&key, &name];
        let (row, ()) = tokio::join!(self.client.query_opt(&fence.try_lock, &values), self.tell(note));
        match row {
            Ok(Some(row)) => Ok(Tried::Held(Some(token(&row)?))),
            Ok(None) => Ok(Tried::Busy),
            // The lock does not go with the statement that took it.
            Err(error) => Err(self.failed(&error).with_effect(Effect::Unknown)),
        }
    }

    async fn wait_lock(&self, key: Key, note: &Note) -> Result<bool> {
        let number = key.number();
        let values: [&(dyn ToSql + Sync); 1] = [&number];
        let ((), waited) = tokio::join!(
            biased;
            self.tell(note),
            self.client.query(&self.statements.wait_lock, &values),
        );
        match waited {
            Ok(_) => Ok(true),
            // A grant may have crossed with the end of the slice, and would stay.
            Err(error)
                if matches!(
                    error.code(),
                    Some(&SqlState::LOCK_NOT_AVAILABLE | &SqlState::QUERY_CANCELED)
                ) =>
            {
                self.yes(&self.statements.is_held, key).await
            }
            Err(error) => Err(self.failed(&error)),
        }
    }

    async fn draw_token(&self, name: &LockName) -> Result<u64> {
        let row = self.client.query_one(&self.fence().await?.draw, &[&name.as_str().as_bytes()]).await;
        token(&row.map_err(|error| self.failed(&error))?)
    }

    async fn unlock(&self, key: Key) -> Result<bool> {
        self.yes(&self.statements.unlock, key).await
    }

    async fn beat(&self) -> Result<()> {
        let beaten = self.client.query_one(&self.statements.beat, &[]).await;
        beaten.map(drop).map_err(|error| self.failed(&error))
    }

    async fn end(&self, backend: Backend) -> Result<bool> {
        let Backend { number, since } = backend;
        let rows = self.client.query(&self.statements.end, &[&number, &since, &self.end_limit]).await;
        let rows = rows.map_err(|error| self.failed(&error))?;
        match rows.first().map(|row| column(row, 0)).transpose()? {
            None => Ok(false),
            Some(true) => Ok(true),
            Some(false) => Err(still_there("postgres-session", &self.options.place, number)),
        }
    }

    async fn seen(&self, key: Key) -> Result<Vec<Seen>> {
        let rows = self.client.query(&self.statements.seen, &[&key.number()]).await;
        let rows = rows.map_err(|error| self.failed(&error))?;
        let read = rows.iter().map(|row| {
            Ok(Seen {
                backend: Backend { number: column(row, 0)?, since: column(row, 1)? },
                is_held: column(row, 2)?,
                note: note_of(column(row, 3)?),
            })
        });
        read.collect()
    }
}

/// What a server that says anything may have answered: it may have acted as well.
fn column<'a, T: FromSql<'a>>(row: &'a Row, at: usize) -> Result<T> {
    row.try_get(at).map_err(|error| {
        let message = format!("postgres: an answer does not fit its request: {error}");
        Error::new(ErrorKind::Corrupt, message).with_effect(Effect::Unknown)
    })
}

fn token(row: &Row) -> Result<u64> {
    let number: i64 = column(row, 0)?;
    u64::try_from(number).ok().filter(|token| *token < 1 << 55).ok_or_else(|| {
        let message = format!("postgres: {number} cannot be a token; it must be below 2^55");
        // It holds by now.
        Error::new(ErrorKind::Corrupt, message).with_effect(Effect::Unknown)
    })
}
