//! gRPC statuses and broken connections as errors of the library.

use std::fmt;

use tonic::{Code, Status};

use super::transport::TransportError;
use crate::net::connection_error::ConnectionError;
use crate::net::tls_failure::TlsFailure;
use crate::{Effect, Error, ErrorKind};

/// A feature that etcd does not have.
pub(super) fn unsupported(message: &'static str) -> Error {
    Error::new(ErrorKind::Unsupported, message)
}

/// The member cannot be reached. Nothing was sent.
pub(super) fn unreachable(shown_as: &str, why: impl fmt::Display) -> Error {
    Error::new(ErrorKind::Unreachable, format!("etcd at {shown_as}: {why}"))
}

/// The server replied, but not as its protocol demands.
pub(super) fn protocol_error(shown_as: &str) -> Error {
    Error::new(ErrorKind::Unreachable, format!("etcd at {shown_as} sent an unexpected reply"))
        .with_effect(Effect::Unknown)
}

/// A key that was written by hand lies in the range of a lock's permits. A key without a lease would block
/// every claim forever.
pub(super) fn foreign_key_among_permits() -> Error {
    let message =
        "etcd: a key among the permits of this lock was not written by Latchwork, or has no lease; delete it";
    Error::new(ErrorKind::Corrupt, message)
}

/// Whether the connection broke before any part of the request was sent.
fn is_unsent(status: &Status) -> bool {
    let source = std::error::Error::source(status);
    source.and_then(|source| source.downcast_ref::<TransportError>()).is_some_and(TransportError::is_unsent)
}

const USER_EMPTY: &str = "user name is empty";
const PERMISSION_DENIED: &str = "permission denied";

/// Whether the member no longer knows the authentication token, or the token is too old. Nothing was done.
pub(super) fn is_token_invalid(status: &Status) -> bool {
    status.message().contains("invalid auth token")
}

/// Whether the cluster requires a user, and the request had no token.
pub(super) fn is_user_missing(status: &Status) -> bool {
    status.message().contains(USER_EMPTY)
}

/// Whether the user lacks the permission for this request.
pub(super) fn is_permission_denied(status: &Status) -> bool {
    status.message().contains(PERMISSION_DENIED)
}

/// Whether the lease does not exist, or no longer exists.
pub(super) fn is_lease_not_found(status: &Status) -> bool {
    status.code() == Code::NotFound && status.message().contains("lease not found")
}

/// Whether a lease of this id was granted before.
pub(super) fn is_lease_already_granted(status: &Status) -> bool {
    status.message().contains("lease already exists")
}

/// Whether another member may be able to serve the request: this one has lost its connection, or its peers.
pub(super) fn is_member_failure(status: &Status) -> bool {
    match status.code() {
        Code::Unavailable | Code::Cancelled | Code::DeadlineExceeded | Code::Unknown | Code::Internal => true,
        // The token was replaced once already, and the member still does not accept it.
        Code::Unauthenticated => is_token_invalid(status),
        _ => false,
    }
}

fn is_authentication_failure(status: &Status) -> bool {
    ["auth", USER_EMPTY].iter().any(|part| status.message().contains(part))
}

/// The error for a status other than `OK`.
pub(super) fn request_failed(status: &Status, shown_as: &str) -> Error {
    let (kind, effect) = match status.code() {
        _ if is_unsent(status) => (ErrorKind::Unreachable, Effect::None),
        Code::Unauthenticated | Code::PermissionDenied => (ErrorKind::Denied, Effect::None),
        // etcd reports a wrong password and a missing user as invalid arguments.
        Code::InvalidArgument if is_authentication_failure(status) => (ErrorKind::Denied, Effect::None),
        // This client refused to read the reply. A reply came, so the server may have acted.
        Code::OutOfRange if status.message().contains("decoded message length") => {
            (ErrorKind::Unreachable, Effect::Unknown)
        }
        Code::InvalidArgument | Code::OutOfRange => (ErrorKind::Invalid, Effect::None),
        Code::FailedPrecondition | Code::NotFound | Code::Unimplemented => {
            (ErrorKind::Unreachable, Effect::None)
        }
        Code::ResourceExhausted => (ErrorKind::Unreachable, Effect::None),
        Code::Unavailable if status.message().contains("no leader") => (ErrorKind::Unreachable, Effect::None),
        _ => (ErrorKind::Unreachable, Effect::Unknown),
    };
    let text = format!("etcd at {shown_as}: {}{}", message(status), hint(status));
    Error::new(kind, text).with_effect(effect)
}

/// The error for a failed first request of a connection. That request changes nothing. A server rejects the
/// client's certificate after the handshake; `tls_failure` is then the reason.
pub(super) fn connect_failed(
    status: &Status,
    shown_as: &str,
    uses_tls: bool,
    tls_failure: Option<TlsFailure>,
) -> Error {
    if tls_failure.is_some() {
        return ConnectionError::new(message(status), tls_failure).error(format_args!("etcd at {shown_as}"));
    }
    let hint = match (hint(status), uses_tls) {
        ("", true) => "; does the server require a client certificate (cert= and key= in the URL)?",
        ("", false) => "; was the server just stopped, or does this port need TLS (etcd+tls:// in the URL)?",
        (hint, _) => hint,
    };
    match request_failed(status, shown_as) {
        error if error.kind() == ErrorKind::Unreachable => {
            unreachable(shown_as, format!("{}{hint}", message(status)))
        }
        error => error,
    }
}

fn message(status: &Status) -> String {
    let message = status.message().trim_start_matches("etcdserver: ");
    match message.is_empty() {
        true => format!("{:?}", status.code()).to_lowercase(),
        false => message.to_owned(),
    }
}

/// Advice for the user.
fn hint(status: &Status) -> &'static str {
    match status.message() {
        text if text.contains("space exceeded") => {
            "; compact and defragment the cluster, then disarm its alarm"
        }
        text if text.contains("no leader") => "; is a majority of its members running?",
        text if text.contains(USER_EMPTY) => "; the cluster requires a user: write etcd://user:password@host",
        text if text.contains(PERMISSION_DENIED) => {
            "; the user needs read and write permission on the keys below namespace= in the URL"
        }
        _ => "",
    }
}
