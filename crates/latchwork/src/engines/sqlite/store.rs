//! The database: one statement on the quiet path, one transaction on the contended one.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::time::Duration;

use nix::fcntl::AtFlags;
use nix::sys::stat::fstatat;
use rusqlite::config::DbConfig;
use rusqlite::{CachedStatement, Connection, OpenFlags, Params, ffi};

use super::location::{Location, unusable};
use super::queue::{Queue, ring};
use super::session::share_with_the_owner_of;
use crate::clock::{self, Clock, Moment};
use crate::{Effect, Error, ErrorKind, Result};

const SCHEMA: &str = include_str!("schema.sql");
const APPLICATION_ID: i64 = 1_281_454_179;
const LAYOUT: i64 = 2;
/// Pages of write-ahead log after which it is folded back into the database. Short, because the first to open a
/// database reads all of it; not shorter, because each fold waits for the disk twice.
const FOLD_AFTER_PAGES: i64 = 1_000;
/// How long to wait for a foreign program that holds the database, where waiting is allowed.
const FOREIGN_WRITER: Duration = Duration::from_secs(5);
/// How often to look whether the files are still where they were. Deleting them under a holder is noticed at its next
/// renewal anyway; looking at every call would cost a free lock a tenth of its speed.
const LOOK_EVERY: Duration = Duration::from_millis(1);
/// A lock nobody used for this long is forgotten; the floor of tokens remembers how far its tokens went.
const FORGET_AFTER: Duration = Duration::from_secs(24 * 60 * 60);

/// Whether the calling thread may sleep in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Blocking {
    No,
    Yes,
}

/// One connection to the database.
pub(super) struct Store {
    location: Location,
    /// Locked around every write: SQLite's own wait for a writer is a sleep in steps, unfair and slow.
    turn: File,
    connection: Connection,
    /// Device and inode, to notice that the file was deleted or replaced.
    identity: (u64, u64),
    /// When to look next whether the files are still there.
    look_at: Moment,
    /// When to clear up next, for those who never close.
    clear_up_at: Moment,
}

impl Store {
    /// Opens the database, or makes it. `None` if that would have to wait and `blocking` forbids it.
    pub(super) fn open(location: &Location, blocking: Blocking) -> Result<Option<Self>> {
        let turn = open_turn(location)?;
        let opened = in_turn(location, &turn, blocking, || Ok(Some(connect(location, &turn)?)))?;
        let (location, look_at) = (location.clone(), Clock::boottime().now());
        let clear_up_at = look_at.after(FORGET_AFTER);
        Ok(opened.map(|(connection, identity)| Self {
            location,
            turn,
            connection,
            identity,
            look_at,
            clear_up_at,
        }))
    }

    /// Does `work` as the only writer. `prepare` looks after the session in its folder, and says whether something had
    /// changed there. `None` if that would have to wait and `blocking` forbids it.
    pub(super) fn write<T>(
        &mut self,
        blocking: Blocking,
        prepare: impl Fn(&File) -> io::Result<bool>,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<Option<T>> {
        let now = Clock::boottime().now();
        if now >= self.look_at {
            let unchanged = prepare(&self.turn).is_ok_and(|changed| !changed);
            if !unchanged || identity(&self.location, &self.turn).ok() != Some(self.identity) {
                // Deleted or replaced: whatever we held there is void, and others use what is there now.
                let Some(anew) = Self::open(&self.location, blocking)? else { return Ok(None) };
                *self = anew;
                prepare(&self.turn).map_err(|error| unusable(&self.location.sessions, error))?;
            }
            self.look_at = now.after(LOOK_EVERY);
        }
        let Self { location, turn, connection, clear_up_at, .. } = self;
        in_turn(location, turn, blocking, || {
            if now >= *clear_up_at {
                *clear_up_at = now.after(FORGET_AFTER);
                clear_up(location, connection).map_err(|error| explain(location, error))?;
            }
            let patience = if blocking == Blocking::Yes { FOREIGN_WRITER } else { Duration::ZERO };
            match connection.busy_timeout(patience).and_then(|()| work(connection)) {
                Ok(done) => Ok(Some(done)),
                Err(error) if is_busy(&error) && blocking == Blocking::No => Ok(None),
                Err(error) => Err(explain(location, error)),
            }
        })
    }
}

fn open_turn(location: &Location) -> Result<File> {
    location.prepare()?;
    File::open(&location.sessions).map_err(|error| unusable(&location.sessions, error))
}

/// Does `work` when it is this process's turn to write.
fn in_turn<T>(
    location: &Location,
    turn: &File,
    blocking: Blocking,
    work: impl FnOnce() -> Result<Option<T>>,
) -> Result<Option<T>> {
    match (turn.try_lock(), blocking) {
        (Ok(()), _) => {}
        (Err(TryLockError::WouldBlock), Blocking::No) => return Ok(None),
        (Err(_), _) => turn.lock().map_err(|error| unusable(&location.sessions, error))?,
    }
    let done = work();
    let _ = turn.unlock();
    done
}

/// Does `work` in one transaction, which is undone if it fails.
pub(super) fn transaction<T>(
    connection: &Connection,
    work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
) -> rusqlite::Result<T> {
    connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
    let done =
        work(connection).and_then(|done| connection.prepare_cached("COMMIT")?.execute([]).map(|_| done));
    if done.is_err() && !connection.is_autocommit() {
        connection.prepare_cached("ROLLBACK")?.execute([])?;
    }
    done
}

/// The first row of a statement, which is stepped to its end: an unfinished `RETURNING` would keep its transaction
/// open, and the log would never be folded back.
pub(super) fn first<T>(
    mut statement: CachedStatement<'_>,
    params: impl Params,
    read: impl Fn(&rusqlite::Row<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<Option<T>> {
    let mut rows = statement.query(params)?;
    let first = rows.next()?.map(read).transpose()?;
    while rows.next()?.is_some() {}
    Ok(first)
}

fn connect(location: &Location, turn: &File) -> Result<(Connection, (u64, u64))> {
    create_file(location).map_err(|error| unusable(&location.database, error))?;
    let identity = identity(location, turn).map_err(|error| unusable(&location.database, error))?;
    let flags =
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let connection = Connection::open_with_flags(&location.database, flags)
        .and_then(|connection| set_up(&connection).map(|()| connection))
        .map_err(|error| explain(location, error))?;
    check_layout(location, &connection)?;
    clear_up(location, &connection).map_err(|error| explain(location, error))?;
    Ok((connection, identity))
}

fn create_file(location: &Location) -> io::Result<()> {
    let mut options = OpenOptions::new();
    match options.write(true).create_new(true).mode(location.file_mode).open(&location.database) {
        Ok(file) => {
            file.set_permissions(std::fs::Permissions::from_mode(location.file_mode))?;
            share_with_the_owner_of(&location.sessions, &location.database)
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

/// Device and inode of what the database's path leads to now. Asked often, hence from the open folder: a walk down the
/// whole path costs several times as much.
fn identity(location: &Location, turn: &File) -> io::Result<(u64, u64)> {
    let found = fstatat(turn, location.database_from_sessions.as_path(), AtFlags::AT_SYMLINK_NOFOLLOW)?;
    Ok((found.st_dev, found.st_ino))
}

fn set_up(connection: &Connection) -> rusqlite::Result<()> {
    connection.busy_timeout(FOREIGN_WRITER)?;
    connection.set_prepared_statement_cache_capacity(64);
    // A fold at close would cost every short command two waits for the disk.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    // Plans do not depend on bound values here; without this, SQLite prepares statements anew for other values.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    let empty: i64 = connection.query_row("PRAGMA schema_version", [], |row| row.get(0))?;
    if empty == 0 {
        connection.execute_batch(SCHEMA)?;
    }
    // Enough: holders die with the machine, and tokens never fall behind the clock.
    connection.execute_batch("PRAGMA synchronous = NORMAL")?;
    connection.pragma_update(None, "wal_autocheckpoint", FOLD_AFTER_PAGES)
}

fn check_layout(location: &Location, connection: &Connection) -> Result<()> {
    let pragma = |name: &str| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let (application, layout) = pragma("application_id")
        .and_then(|application| Ok((application, pragma("user_version")?)))
        .map_err(|error| explain(location, error))?;
    let path = &location.database;
    if application != APPLICATION_ID {
        let message = format!("{path:?} is a database of another program; choose another path");
        return Err(Error::new(ErrorKind::Invalid, message));
    }
    if layout != LAYOUT {
        let message = format!(
            "{path:?} has layout {layout}, and this version reads layout {LAYOUT}; use one version for all processes, \
             or, when no holder runs, move the file away: a new one is made, and tokens go on rising"
        );
        return Err(Error::new(ErrorKind::Unsupported, message));
    }
    Ok(())
}

const VOID_CLAIMS: &str = "UPDATE lock SET id = NULL, contended = 0, \
     token = max(token, coalesce((SELECT max(token) FROM claim WHERE claim.name = lock.name), 0))";

/// Voids the claims of an earlier boot, and forgets locks that nobody used for long. Tokens stay.
fn clear_up(location: &Location, connection: &Connection) -> rusqlite::Result<()> {
    // To guess here would be to void every living holder's claim.
    let boot = clock::boot_id().map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?;
    let (boot, wall) = (boot.as_str(), clock::wall_micros() as i64);
    let (known, swept) = connection.query_row("SELECT boot, swept FROM meta", [], |row| {
        Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?))
    })?;
    let old = wall - FORGET_AFTER.as_micros() as i64;
    if known == boot && swept > old {
        return Ok(());
    }
    let mut queue = Queue::new(connection, 0, &location.sessions);
    transaction(connection, |connection| {
        if known != boot {
            connection.execute(VOID_CLAIMS, [])?;
            connection.execute("DELETE FROM claim", [])?;
        }
        forget_idle(connection, &mut queue, old)?;
        connection.execute("UPDATE meta SET boot = ?1, swept = ?2", (boot, wall)).map(drop)
    })?;
    ring(queue.rings);
    Ok(())
}

/// Forgets locks whose newest token is older than `old`, and remembers how far the tokens of the forgotten went.
fn forget_idle(connection: &Connection, queue: &mut Queue<'_>, old: i64) -> rusqlite::Result<()> {
    let idle = "SELECT name FROM lock WHERE contended = 1 AND token < ?1";
    let names = connection
        .prepare(idle)?
        .query_map([old], |row| row.get(0))?
        .collect::<rusqlite::Result<Vec<String>>>()?;
    for name in names {
        queue.tidy(&name)?;
    }
    connection.execute("UPDATE lock SET id = NULL WHERE contended = 0 AND expires <= ?1", [queue.now])?;
    // Words for holders that ended without having read them.
    connection.execute("DELETE FROM claim WHERE revoked AND expires = 0 AND token < ?1", [old])?;
    connection.execute(REMEMBER_FORGOTTEN, [old])?;
    connection.execute("DELETE FROM lock WHERE id IS NULL AND contended = 0 AND token < ?1", [old]).map(drop)
}

const REMEMBER_FORGOTTEN: &str = "UPDATE meta SET floor = max(floor, \
     (SELECT coalesce(max(token), 0) FROM lock WHERE id IS NULL AND contended = 0 AND token < ?1))";

fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ffi::ErrorCode::DatabaseBusy | ffi::ErrorCode::DatabaseLocked))
}

fn explain(location: &Location, error: rusqlite::Error) -> Error {
    use ffi::ErrorCode as Code;
    let (kind, hint) = match error.sqlite_error_code() {
        Some(Code::NotADatabase | Code::DatabaseCorrupt) => (
            ErrorKind::Corrupt,
            "; when no holder runs, move it away with its -wal and -shm: a new one is made, and tokens go on rising",
        ),
        Some(Code::DiskFull) => (ErrorKind::Unreachable, "; free some space"),
        Some(Code::ReadOnly | Code::PermissionDenied | Code::AuthorizationForStatementDenied) => {
            (ErrorKind::Denied, "; this user must be able to write the file and its folder")
        }
        Some(Code::CannotOpen) => {
            (ErrorKind::Denied, "; it must be a plain file that this user can read and write")
        }
        Some(Code::DatabaseBusy | Code::DatabaseLocked) => {
            (ErrorKind::Unreachable, "; another program keeps it locked")
        }
        _ => (ErrorKind::Unreachable, ""),
    };
    // Only a failed write leaves open whether the commit reached the log; everything else was rolled back.
    let io_failed = error.sqlite_error_code() == Some(Code::SystemIoFailure);
    if let rusqlite::Error::ToSqlConversionFailure(source) = error {
        let source = match source.downcast::<Error>() {
            Ok(ours) => return *ours,
            Err(source) => source,
        };
        return Error::new(ErrorKind::Unreachable, format!("{:?}: {source}", location.sessions))
            .with_source(source);
    }
    Error::new(kind, format!("{:?}: {error}{hint}", location.database))
        .with_effect(if io_failed { Effect::Unknown } else { Effect::None })
        .with_source(error)
}
