//! The client protocol of MySQL and MariaDB, as far as locks need it. Messages, constants and basic types
//! have the names of the manual ("MySQL Client/Server Protocol").
//!
//! | file | what |
//! |---|---|
//! | `pipeline` | a connection on which many tasks send commands |
//! | `connection_phase` | handshake, TLS, authentication |
//! | `handshake_v10`, `handshake_response_41`, `capabilities`, `auth` | the messages of that phase |
//! | `codec`, `response` | which packets make up the response to a command |
//! | `com_*` | commands |
//! | `ok_packet`, `err_packet`, `eof_packet`, `column_definition`, `resultset_row` | packets of responses |
//! | `packet`, `packet_reader` | packets on a stream, and the basic types in them |
//! | `reply` | the reply to a command, as engines see it |

mod auth;
mod capabilities;
mod codec;
mod column_definition;
mod com_query;
mod com_quit;
mod com_stmt_execute;
mod com_stmt_prepare;
mod connection_phase;
mod eof_packet;
mod err_packet;
mod handshake_response_41;
mod handshake_v10;
mod ok_packet;
mod packet;
mod packet_reader;
mod pipeline;
mod reply;
mod response;
mod resultset_row;

pub(super) use self::com_stmt_execute::MysqlParam;
pub(super) use self::com_stmt_prepare::StatementId;
pub(super) use self::connection_phase::ConnectOptions;
pub(super) use self::pipeline::{Batch, MysqlCommand, MysqlPipeline, PendingResponse};
pub(super) use self::reply::Reply;
use crate::net::connection_error::ConnectionError;

/// The result of a command, before anything was decided about its meaning.
pub(super) type WireResult<T> = Result<T, WireError>;

/// Why a command failed.
#[derive(Clone, Debug)]
pub(super) enum WireError {
    /// The server refused it.
    Refused { code: u16, words: String },
    /// The connection ended, or cannot be used any more.
    Ended(ConnectionError),
    /// Client and server have no way in common. Nothing was sent.
    Unable(String),
}

impl WireError {
    pub(super) fn ended(why: &str) -> Self {
        Self::Ended(why.into())
    }
}

impl From<std::io::Error> for WireError {
    fn from(error: std::io::Error) -> Self {
        Self::Ended(error.into())
    }
}

impl From<ConnectionError> for WireError {
    fn from(error: ConnectionError) -> Self {
        Self::Ended(error)
    }
}
