//! Errors of failed statements: whether the server may have acted, and what the caller can do about it.

use tokio_postgres::error::SqlState;

use super::grants;
use super::options::Options;
use super::wire::WireError;
use crate::engines::sql::Conflict;
use crate::{Effect, Error, ErrorKind};

/// statement_completion_unknown: servers that replicate by consensus return it when they do not know whether
/// a commit was carried out.
const COMPLETION_UNKNOWN: &str = "40003";

/// The error of a statement that may have been carried out, unless the server reports that it was not.
pub(super) fn failed(wire_error: impl Into<WireError>, options: &Options) -> Error {
    let wire_error = wire_error.into();
    let effect = effect(&wire_error);
    refused(wire_error, options).with_effect(effect)
}

fn effect(wire_error: &WireError) -> Effect {
    match wire_error {
        // The server rolls a refused statement back.
        WireError::Refused { code, .. } if !is_shutdown(code) && code != COMPLETION_UNKNOWN => Effect::None,
        _ => Effect::Unknown,
    }
}

/// The error of a failed attempt to connect.
pub(super) fn not_connected(wire_error: impl Into<WireError>, options: &Options) -> Error {
    let wire_error = wire_error.into();
    let lacks_privilege = lacks_privilege(&wire_error);
    let error = refused(wire_error, options);
    if lacks_privilege { error.with_sql(grants::to_connect(options)) } else { error }
}

/// The error of a failed attempt to create tables. `sql` creates them, and grants this user the rights on
/// them.
pub(super) fn not_created(wire_error: impl Into<WireError>, options: &Options, sql: String) -> Error {
    let wire_error = wire_error.into();
    let no_schema = matches!(&wire_error, WireError::Refused { code, .. } if code == SqlState::INVALID_SCHEMA_NAME.code());
    let helps = no_schema || lacks_privilege(&wire_error);
    let error = refused(wire_error, options);
    if helps { error.with_sql(sql) } else { error }
}

/// Whether the user lacks a right that an administrator can grant.
fn lacks_privilege(wire_error: &WireError) -> bool {
    matches!(wire_error, WireError::Refused { code, .. } if code == SqlState::INSUFFICIENT_PRIVILEGE.code())
}

/// The error of a failed attempt to connect, or of a transaction that was not committed: nothing was done.
pub(super) fn refused(wire_error: impl Into<WireError>, options: &Options) -> Error {
    let (shown_as, user) = (&options.shown_as, &options.user);
    let (code, text) = match wire_error.into() {
        WireError::Refused { code, message } => (code, message),
        WireError::Ended(why) => {
            return why.error(format_args!("postgres at {shown_as}"));
        }
    };
    let state = SqlState::from_code(&code);
    let sql = if state == SqlState::INSUFFICIENT_PRIVILEGE { grants::of_locks(options) } else { None };
    if let Some(conflict) = conflict(&state) {
        let message = format!("postgres at {shown_as}: {text}");
        return Error::new(ErrorKind::Unreachable, message).with_source(conflict);
    }
    let (kind, hint) = match state {
        SqlState::INSUFFICIENT_PRIVILEGE if sql.is_some() => (ErrorKind::Denied, ""),
        SqlState::INSUFFICIENT_PRIVILEGE => {
            (ErrorKind::Denied, "; docs/engines/postgres.md lists the rights that this user needs")
        }
        _ if code.starts_with("28") => (ErrorKind::Denied, "; check user and password in the URL"),
        SqlState::INVALID_CATALOG_NAME => {
            (ErrorKind::Invalid, "; create it, or name another database in the path of the URL")
        }
        SqlState::INVALID_SQL_STATEMENT_NAME | SqlState::DUPLICATE_PSTATEMENT => {
            (ErrorKind::Invalid, "; a connection pooler is in between; put pooler=yes in the URL")
        }
        SqlState::STRING_DATA_RIGHT_TRUNCATION => {
            (ErrorKind::Invalid, "; a column of the table is too short for this name or owner")
        }
        SqlState::INVALID_COLUMN_REFERENCE | SqlState::UNDEFINED_COLUMN => {
            (ErrorKind::Invalid, "; docs/engines/postgres.md lists the columns and keys that the table needs")
        }
        SqlState::READ_ONLY_SQL_TRANSACTION => (
            ErrorKind::Unreachable,
            "; the server is a standby, or set to read-only; name the primary in the URL",
        ),
        SqlState::INVALID_SCHEMA_NAME => (ErrorKind::Invalid, ""),
        _ if is_shutdown(&code) || code.starts_with("53") => (ErrorKind::Unreachable, ""),
        _ => (ErrorKind::Corrupt, ""),
    };
    let message = match kind {
        ErrorKind::Denied => format!("postgres at {shown_as} refuses user {user:?}: {text}{hint}"),
        _ => format!("postgres at {shown_as}: {text} ({code}){hint}"),
    };
    let error = Error::new(kind, message);
    match sql {
        Some(sql) => error.with_sql(sql),
        None => error,
    }
}

/// Deadlock, serialization failure, lock timeout.
fn conflict(code: &SqlState) -> Option<Conflict> {
    match code {
        &SqlState::T_R_SERIALIZATION_FAILURE | &SqlState::T_R_DEADLOCK_DETECTED => Some(Conflict::Passed),
        &SqlState::LOCK_NOT_AVAILABLE => Some(Conflict::Stays),
        _ => None,
    }
}

/// Whether the connection or the server ends.
fn is_shutdown(code: &str) -> bool {
    let idle = SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT;
    code.starts_with("57P") || code.starts_with("08") || code == idle.code()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_statement_did_nothing_unless_the_server_ends_or_does_not_know() {
        let refused = |code: &str| WireError::Refused { code: code.to_owned(), message: String::new() };
        for code in ["42P01", "42501", "42601", "25006", "22001", "57014", "40001", "55P03", "53300"] {
            assert_eq!(effect(&refused(code)), Effect::None, "{code}");
        }
        for code in ["57P01", "57P02", "08006", "08007", "25P03", "40003"] {
            assert_eq!(effect(&refused(code)), Effect::Unknown, "{code}");
        }
        assert_eq!(effect(&WireError::Ended("closed".into())), Effect::Unknown);
    }
}
