//! The database: one statement for an uncontended lock, one transaction for a contended one.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::time::Duration;

use nix::fcntl::AtFlags;
use nix::sys::stat::fstatat;
use rusqlite::config::DbConfig;
use rusqlite::{CachedStatement, Connection, OpenFlags, Params};

use super::errors::{explain, is_busy, unusable};
use super::location::Location;
use super::session::chown_to_owner_of;
use super::sweep::{FORGET_AFTER, sweep};
use crate::clock::{Clock, Moment};
use crate::{Error, ErrorKind, Result};

const SCHEMA: &str = include_str!("schema.sql");
const APPLICATION_ID: i64 = 1_281_454_179;
const LAYOUT: i64 = 2;
/// Pages of write-ahead log before a checkpoint. Few, because the first process that opens a database reads
/// the whole log; not fewer, because each checkpoint waits for the disk twice.
const CHECKPOINT_AFTER_PAGES: i64 = 1_000;
/// The longest wait for another program that keeps the database locked, where waiting is allowed.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// The time between two checks whether the files are still in place. A holder's next renewal notices their
/// removal anyway; a check in every call would cost an uncontended lock a tenth of its speed.
const CHECK_FILES_EVERY: Duration = Duration::from_millis(1);

/// Whether the calling thread may sleep in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Blocking {
    No,
    Yes,
}

/// One connection to the database.
pub(super) struct Store {
    location: Location,
    /// Locked around every write: SQLite's own wait for a writer is a series of sleeps, unfair and slow.
    write_lock: File,
    connection: Connection,
    /// Device and inode, to notice that the file was deleted or replaced.
    identity: (u64, u64),
    check_files_at: Moment,
    /// The time of the next sweep, for processes that keep the database open.
    sweep_at: Moment,
}

impl Store {
    /// Opens the database, or creates it. `None` if that would have to wait and `blocking` forbids it.
    pub(super) fn open(location: &Location, blocking: Blocking) -> Result<Option<Self>> {
        let write_lock = open_write_lock(location)?;
        let opened =
            with_write_lock(location, &write_lock, blocking, || Ok(Some(connect(location, &write_lock)?)))?;
        let (location, check_files_at) = (location.clone(), Clock::boottime().now());
        let sweep_at = check_files_at.after(FORGET_AFTER);
        Ok(opened.map(|(connection, identity)| Self {
            location,
            write_lock,
            connection,
            identity,
            check_files_at,
            sweep_at,
        }))
    }

    /// Runs `work` as the only writer. `restore_session` checks the session in its folder, and returns
    /// whether it was removed there. `None` if the call would have to wait and `blocking` forbids it.
    pub(super) fn write<T>(
        &mut self,
        blocking: Blocking,
        restore_session: impl Fn(&File) -> io::Result<bool>,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<Option<T>> {
        let now = Clock::boottime().now();
        if now >= self.check_files_at {
            let is_unchanged = restore_session(&self.write_lock).is_ok_and(|was_removed| !was_removed);
            if !is_unchanged || identity(&self.location, &self.write_lock).ok() != Some(self.identity) {
                // Deleted or replaced: claims in the former file are void, and other processes use the new
                // one.
                let Some(opened) = Self::open(&self.location, blocking)? else { return Ok(None) };
                *self = opened;
                restore_session(&self.write_lock)
                    .map_err(|error| unusable(&self.location.sessions, error))?;
            }
            self.check_files_at = now.after(CHECK_FILES_EVERY);
        }
        let Self { location, write_lock, connection, sweep_at, .. } = self;
        with_write_lock(location, write_lock, blocking, || {
            if now >= *sweep_at {
                *sweep_at = now.after(FORGET_AFTER);
                sweep(location, connection)?;
            }
            let timeout = if blocking == Blocking::Yes { BUSY_TIMEOUT } else { Duration::ZERO };
            match connection.busy_timeout(timeout).and_then(|()| work(connection)) {
                Ok(done) => Ok(Some(done)),
                Err(error) if is_busy(&error) && blocking == Blocking::No => Ok(None),
                Err(error) => Err(explain(location, error)),
            }
        })
    }
}

fn open_write_lock(location: &Location) -> Result<File> {
    location.prepare()?;
    File::open(&location.sessions).map_err(|error| unusable(&location.sessions, error))
}

/// Runs `work` while this connection is the only writer.
fn with_write_lock<T>(
    location: &Location,
    write_lock: &File,
    blocking: Blocking,
    work: impl FnOnce() -> Result<Option<T>>,
) -> Result<Option<T>> {
    match (write_lock.try_lock(), blocking) {
        (Ok(()), _) => {}
        (Err(TryLockError::WouldBlock), Blocking::No) => return Ok(None),
        (Err(_), _) => write_lock.lock().map_err(|error| unusable(&location.sessions, error))?,
    }
    let done = work();
    let _ = write_lock.unlock();
    done
}

/// Runs `work` in one transaction, which is rolled back if it fails.
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

/// The first row of a statement, which is stepped to its end: an unfinished `RETURNING` would keep its
/// transaction open, and the log would never be checkpointed.
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

fn connect(location: &Location, write_lock: &File) -> Result<(Connection, (u64, u64))> {
    create_file(location).map_err(|error| unusable(&location.database, error))?;
    let identity = identity(location, write_lock).map_err(|error| unusable(&location.database, error))?;
    let flags =
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let connection = Connection::open_with_flags(&location.database, flags)
        .and_then(|connection| set_up(&connection).map(|()| connection))
        .map_err(|error| explain(location, error))?;
    check_layout(location, &connection)?;
    sweep(location, &connection)?;
    Ok((connection, identity))
}

fn create_file(location: &Location) -> io::Result<()> {
    let mut options = OpenOptions::new();
    match options.write(true).create_new(true).mode(location.file_mode).open(&location.database) {
        Ok(file) => {
            file.set_permissions(std::fs::Permissions::from_mode(location.file_mode))?;
            chown_to_owner_of(&location.sessions, &location.database)
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

/// Device and inode of the file at the path of the database. Read often, hence relative to the open folder: a
/// walk down the whole path costs several times as much.
fn identity(location: &Location, write_lock: &File) -> io::Result<(u64, u64)> {
    let found = fstatat(write_lock, location.database_from_sessions.as_path(), AtFlags::AT_SYMLINK_NOFOLLOW)?;
    Ok((found.st_dev, found.st_ino))
}

fn set_up(connection: &Connection) -> rusqlite::Result<()> {
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.set_prepared_statement_cache_capacity(64);
    // A checkpoint at close would cost every short command two waits for the disk.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    // No plan depends on bound values here. Without this, SQLite prepares a statement again for other values.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    let schema_version: i64 = connection.query_row("PRAGMA schema_version", [], |row| row.get(0))?;
    if schema_version == 0 {
        connection.execute_batch(SCHEMA)?;
    }
    // Enough, because holders die with the machine, and tokens never fall behind the clock.
    connection.execute_batch("PRAGMA synchronous = NORMAL")?;
    connection.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_AFTER_PAGES)
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
