//! The errors of this engine.

use std::fmt;

use super::endpoint::Endpoint;
use super::server_stats::WireError;
use super::wire::ProtocolError;
use crate::{Effect, Error, ErrorKind};

/// The engine cannot do this.
pub(super) fn unsupported(what: &'static str) -> Error {
    Error::new(ErrorKind::Unsupported, what)
}

/// Nothing was sent, or nothing that could change a lock.
pub(super) fn unreachable(endpoint: &Endpoint, why: impl fmt::Display) -> Error {
    Error::new(ErrorKind::Unreachable, format!("memcached at {}: {why}", endpoint.shown_as))
}

/// A server whose reply to the first requests is not that of a memcached server that locks can use.
pub(super) fn no_server_stats(wire_error: WireError, endpoint: &Endpoint) -> Error {
    let speaks = match endpoint.tls {
        Some(_) => "does this port speak memcached's protocol?",
        None => "does this port speak memcached's protocol, in plain text?",
    };
    match wire_error {
        WireError::Ended(error) if error.tls().is_some() => {
            error.error(format_args!("memcached at {}", endpoint.shown_as))
        }
        WireError::Ended(error) => unreachable(endpoint, format!("{error}; {speaks}")),
        WireError::ProtocolError(ProtocolError(why)) => {
            unreachable(endpoint, format!("the server sent a reply that is not memcached's: {why}; {speaks}"))
        }
        WireError::Unauthenticated => {
            let message = format!(
                "memcached at {} requires a password (-Y), which is not supported; use a server without one, or one \
                 that requires client certificates",
                endpoint.shown_as
            );
            Error::new(ErrorKind::Denied, message)
        }
    }
}

/// Another client changes the value as fast as it is read.
pub(super) fn changed_meanwhile() -> Error {
    let message = "memcached: another client changed the lock meanwhile";
    Error::new(ErrorKind::Unreachable, message).with_effect(Effect::Unknown)
}

/// A task of this engine ended with its runtime.
pub(super) fn interrupted() -> Error {
    Error::new(ErrorKind::Unreachable, "memcached: the runtime ended").with_effect(Effect::Unknown)
}
