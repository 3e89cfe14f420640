//! Errors of the file system and of SQLite, as errors of this crate.

use std::io;
use std::path::Path;

use rusqlite::ffi;

use super::location::Location;
use crate::{Effect, Error, ErrorKind};

/// An error about a path that cannot be used.
pub(super) fn unusable(path: &Path, error: io::Error) -> Error {
    let (kind, hint) = match error.kind() {
        io::ErrorKind::NotFound => (ErrorKind::Invalid, "; make its folder first"),
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            (ErrorKind::Denied, "; change its permissions, or use another path")
        }
        io::ErrorKind::StorageFull => (ErrorKind::Unreachable, "; free some space"),
        _ => (ErrorKind::Unreachable, ""),
    };
    Error::new(kind, format!("cannot use {path:?}: {error}{hint}")).with_source(error)
}

/// Whether another program keeps the database locked.
pub(super) fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ffi::ErrorCode::DatabaseBusy | ffi::ErrorCode::DatabaseLocked))
}

/// An error of SQLite, with what an operator can do about it.
pub(super) fn explain(location: &Location, error: rusqlite::Error) -> Error {
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
    // After a failed write the commit may have reached the log; every other failure was rolled back.
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

pub(super) fn shut_down() -> Error {
    Error::new(ErrorKind::Unreachable, "the runtime shut down before the database was free")
}
