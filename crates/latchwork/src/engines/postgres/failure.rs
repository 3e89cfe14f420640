//! What a failed statement means: whether the server may have acted, and what the caller can do about it.

use tokio_postgres::error::SqlState;

use super::grants;
use super::options::Options;
use super::wire::WireError;
use crate::engines::sql::Conflict;
use crate::{Effect, Error, ErrorKind};

/// statement_completion_unknown: servers that replicate by consensus say so when they do not know whether a
/// commit was carried out.
const UNKNOWN: &str = "40003";

/// A statement that may have been carried out, unless the server says that it was not.
pub(super) fn failed(wire_error: impl Into<WireError>, options: &Options) -> Error {
    let wire_error = wire_error.into();
    let effect = effect(&wire_error);
    refused(wire_error, options).with_effect(effect)
}

fn effect(wire_error: &WireError) -> Effect {
    match wire_error {
        // What the server itself refuses, it rolls back.
        WireError::Refused { code, .. } if !is_the_end(code) && code != UNKNOWN => Effect::None,
        _ => Effect::Unknown,
    }
}

/// A connection that was never made.
pub(super) fn not_connected(wire_error: impl Into<WireError>, options: &Options) -> Error {
    let wire_error = wire_error.into();
    let lacks_the_right = is_privilege(&wire_error);
    let error = refused(wire_error, options);
    if lacks_the_right { error.with_sql(grants::to_connect(options)) } else { error }
}

/// Tables that could not be made. `sql` makes them, and lets this user use them.
pub(super) fn not_made(wire_error: impl Into<WireError>, options: &Options, sql: String) -> Error {
    let wire_error = wire_error.into();
    let no_schema = matches!(&wire_error, WireError::Refused { code, .. } if code == SqlState::INVALID_SCHEMA_NAME.code());
    let helps = no_schema || is_privilege(&wire_error);
    let error = refused(wire_error, options);
    if helps { error.with_sql(sql) } else { error }
}

/// A right that an administrator can grant is missing.
fn is_privilege(wire_error: &WireError) -> bool {
    matches!(wire_error, WireError::Refused { code, .. } if code == SqlState::INSUFFICIENT_PRIVILEGE.code())
}

/// A connection that was never made, or a transaction that never ended: nothing was done.
pub(super) fn refused(wire_error: impl Into<WireError>, options: &Options) -> Error {
    let (place, user) = (&options.place, &options.user);
    let (code, words) = match wire_error.into() {
        WireError::Refused { code, words } => (code, words),
        WireError::Ended(why) => {
            return why.error(format_args!("postgres at {place}"));
        }
    };
    let state = SqlState::from_code(&code);
    let sql = if state == SqlState::INSUFFICIENT_PRIVILEGE { grants::of_locks(options) } else { None };
    if let Some(conflict) = conflict(&state) {
        let message = format!("postgres at {place}: {words}");
        return Error::new(ErrorKind::Unreachable, message).with_source(conflict);
    }
    let (kind, hint) = match state {
        SqlState::INSUFFICIENT_PRIVILEGE if sql.is_some() => (ErrorKind::Denied, ""),
        SqlState::INSUFFICIENT_PRIVILEGE => {
            (ErrorKind::Denied, "; docs/engines/postgres.md says which rights this user needs")
        }
        _ if code.starts_with("28") => (ErrorKind::Denied, "; check user and password in the URL"),
        SqlState::INVALID_CATALOG_NAME => {
            (ErrorKind::Invalid, "; create it, or name another database in the path of the URL")
        }
        SqlState::INVALID_SQL_STATEMENT_NAME | SqlState::DUPLICATE_PSTATEMENT => {
            (ErrorKind::Invalid, "; a connection pooler stands in between; put pooler=yes in the URL")
        }
        SqlState::STRING_DATA_RIGHT_TRUNCATION => {
            (ErrorKind::Invalid, "; a column of the table is too short for this name or owner")
        }
        SqlState::INVALID_COLUMN_REFERENCE | SqlState::UNDEFINED_COLUMN => {
            (ErrorKind::Invalid, "; docs/engines/postgres.md says what the table must have")
        }
        SqlState::READ_ONLY_SQL_TRANSACTION => (
            ErrorKind::Unreachable,
            "; the server is a standby, or set to read-only; name the primary in the URL",
        ),
        SqlState::INVALID_SCHEMA_NAME => (ErrorKind::Invalid, ""),
        _ if is_the_end(&code) || code.starts_with("53") => (ErrorKind::Unreachable, ""),
        _ => (ErrorKind::Corrupt, ""),
    };
    let message = match kind {
        ErrorKind::Denied => format!("postgres at {place} refuses user {user:?}: {words}{hint}"),
        _ => format!("postgres at {place}: {words} ({code}){hint}"),
    };
    let error = Error::new(kind, message);
    match sql {
        Some(sql) => error.with_sql(sql),
        None => error,
    }
}

/// Deadlock, serialization, a lock that was waited for too long.
fn conflict(code: &SqlState) -> Option<Conflict> {
    match code {
        &SqlState::T_R_SERIALIZATION_FAILURE | &SqlState::T_R_DEADLOCK_DETECTED => Some(Conflict::Passed),
        &SqlState::LOCK_NOT_AVAILABLE => Some(Conflict::Stays),
        _ => None,
    }
}

/// The connection or the server ends.
fn is_the_end(code: &str) -> bool {
    let idle = SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT;
    code.starts_with("57P") || code.starts_with("08") || code == idle.code()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_statement_did_nothing_unless_the_server_ends_or_does_not_know() {
        let refused = |code: &str| WireError::Refused { code: code.to_owned(), words: String::new() };
        for code in ["42P01", "42501", "42601", "25006", "22001", "57014", "40001", "55P03", "53300"] {
            assert_eq!(effect(&refused(code)), Effect::None, "{code}");
        }
        for code in ["57P01", "57P02", "08006", "08007", "25P03", "40003"] {
            assert_eq!(effect(&refused(code)), Effect::Unknown, "{code}");
        }
        assert_eq!(effect(&WireError::Ended("closed".into())), Effect::Unknown);
    }
}
