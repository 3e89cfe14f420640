//! The error of a failed statement: whether the server may have acted, and what the caller can do about it.

use super::grants;
use super::options::Options;
use super::wire::WireError;
use crate::engines::sql::Conflict;
use crate::{Effect, Error, ErrorKind};

/// Error codes of the server.
pub(super) mod code {
    pub(in crate::engines::mysql) const NO_SUCH_TABLE: u16 = 1146;
    pub(in crate::engines::mysql) const TABLE_DENIED: u16 = 1142;
    /// A lock wait timed out. Only the statement was undone, not its transaction.
    pub(super) const WAITED_TOO_LONG: u16 = 1205;
    pub(super) const DEADLOCK: u16 = 1213;
    pub(in crate::engines::mysql) const UNKNOWN_SETTING: u16 = 1193;
    /// The insert lost against a concurrent one.
    pub(super) const DUPLICATE: u16 = 1062;
    pub(super) const READ_ONLY: [u16; 2] = [1290, 1836];
    pub(super) const NO_DATABASE: [u16; 2] = [1046, 1049];
    /// Access denied: to the database, by password, to a table, a column or a command, from this host, or
    /// because the account is locked.
    pub(super) const DENIED: [u16; 9] = [1044, 1045, 1142, 1143, 1227, 1130, 1698, 3118, 4151];
    /// To a database. The server gives the same error for a database that does not exist.
    pub(super) const NOT_GRANTED: u16 = 1044;
    pub(super) const TOO_MANY_CONNECTIONS: [u16; 3] = [1040, 1203, 1226];
    pub(super) const TOO_MANY_STATEMENTS: u16 = 1461;
    pub(super) const NEEDS_ROW_FORMAT: u16 = 1665;
    pub(super) const TOO_LONG: u16 = 1406;
    /// An error during COMMIT: what was written before may be durable.
    pub(super) const DURING_COMMIT: u16 = 1180;
    /// The statement was ended by an operator, or by a limit on its time. Only the statement was undone.
    pub(super) const INTERRUPTED: [u16; 3] = [1317, 1969, 3024];
    /// The connection or the server ends, or has not come up: shutdown, network, killed, idle for too long,
    /// no quorum.
    pub(super) const CONNECTION_ENDS: [u16; 11] =
        [1047, 1053, 1152, 1158, 1159, 1160, 1161, 1184, 1927, 4031, 4169];
}

/// The error of a statement that may have been carried out, unless the server says that it was not.
pub(super) fn failed(wire_error: &WireError, options: &Options) -> Error {
    refused(wire_error, options).with_effect(effect(wire_error))
}

fn effect(wire_error: &WireError) -> Effect {
    match wire_error {
        WireError::Refused { code, .. } if code::CONNECTION_ENDS.contains(code) => Effect::Unknown,
        WireError::Refused { code: code::DURING_COMMIT, .. } | WireError::Ended(_) => Effect::Unknown,
        // The server undoes a statement that it refuses.
        WireError::Refused { .. } | WireError::Unable(_) => Effect::None,
    }
}

/// The error of a connection that was never opened, or of a transaction that was never committed: nothing was
/// done.
pub(super) fn refused(wire_error: &WireError, options: &Options) -> Error {
    let (engine, place, user) = (options.engine, &options.shown_as, &options.login.user);
    let (code, words) = match wire_error {
        WireError::Refused { code, words } => (*code, words),
        WireError::Ended(why) => {
            return why.error(format_args!("{engine} at {place}"));
        }
        WireError::Unable(why) => {
            return Error::new(ErrorKind::Denied, format!("{engine} at {place}, user {user:?}: {why}"));
        }
    };
    let sql = if code == code::NOT_GRANTED { grants::to_enter(options, words) } else { None };
    let (kind, hint) = match code {
        code::DEADLOCK | code::WAITED_TOO_LONG | code::DUPLICATE => {
            let message = format!("{engine} at {place}: {words}");
            let conflict = match code {
                code::WAITED_TOO_LONG => Conflict::Stays,
                _ => Conflict::Passed,
            };
            return Error::new(ErrorKind::Unreachable, message).with_source(conflict);
        }
        1045 | 1698 => (ErrorKind::Denied, "; check user and password in the URL"),
        code::NOT_GRANTED if sql.is_none() => {
            (ErrorKind::Denied, "; docs/engines/mysql.md says which rights this user needs")
        }
        1227 => (ErrorKind::Denied, "; docs/engines/mysql.md says which rights this user needs"),
        code if code::DENIED.contains(&code) => (ErrorKind::Denied, ""),
        code if code::NO_DATABASE.contains(&code) => {
            (ErrorKind::Invalid, "; name a database that exists in the path of the URL")
        }
        code if code::READ_ONLY.contains(&code) => (
            ErrorKind::Unreachable,
            "; the server is a replica, or set to read-only; name the primary in the URL",
        ),
        code if code::TOO_MANY_CONNECTIONS.contains(&code) => {
            (ErrorKind::Unreachable, "; raise max_connections on the server, or run fewer clients")
        }
        code::TOO_MANY_STATEMENTS => {
            (ErrorKind::Unreachable, "; raise max_prepared_stmt_count on the server, or run fewer clients")
        }
        code::TOO_LONG => (ErrorKind::Invalid, "; a column of the table is too short for this name or owner"),
        code::NEEDS_ROW_FORMAT => (ErrorKind::Invalid, "; set binlog_format=ROW or MIXED on the server"),
        code if code::CONNECTION_ENDS.contains(&code) || code::INTERRUPTED.contains(&code) => {
            (ErrorKind::Unreachable, "")
        }
        _ => (ErrorKind::Corrupt, ""),
    };
    let message = match kind {
        ErrorKind::Denied => format!("{engine} at {place} refuses user {user:?}: {words} ({code}){hint}"),
        _ => format!("{engine} at {place}: {words} ({code}){hint}"),
    };
    let error = Error::new(kind, message);
    match sql {
        Some(sql) => error.with_sql(sql),
        None => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_statement_did_nothing_unless_the_server_ends_or_does_not_know() {
        let refused = |code| WireError::Refused { code, words: String::new() };
        for code in [1044, 1045, 1064, 1142, 1146, 1205, 1213, 1290, 1317, 1406] {
            assert_eq!(effect(&refused(code)), Effect::None, "{code}");
        }
        for code in [1053, 1158, 1180, 1927] {
            assert_eq!(effect(&refused(code)), Effect::Unknown, "{code}");
        }
        assert_eq!(effect(&WireError::ended("closed")), Effect::Unknown);
    }
}
