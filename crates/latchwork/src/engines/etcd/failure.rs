//! What went wrong, in the words of the core.

use std::fmt;

use tonic::{Code, Status};

use crate::net::connection_error::ConnectionError;
use crate::net::tls_failure::TlsFailure;
use crate::{Effect, Error, ErrorKind};

/// What etcd does not have.
pub(super) fn unsupported(what: &'static str) -> Error {
    Error::new(ErrorKind::Unsupported, what)
}

/// Nothing was sent.
pub(super) fn unreachable(place: &str, why: impl fmt::Display) -> Error {
    Error::new(ErrorKind::Unreachable, format!("etcd at {place}: {why}"))
}

/// The server speaks, but not as expected.
pub(super) fn protocol_error(place: &str) -> Error {
    Error::new(ErrorKind::Unreachable, format!("etcd at {place} sent an unexpected reply"))
        .with_effect(Effect::Unknown)
}

/// Somebody wrote by hand where only permits stand. What is without a lease would stand in the way for ever.
pub(super) fn no_permit() -> Error {
    let message =
        "etcd: a key among the permits of this lock was not written by Latchwork, or has no lease; delete it";
    Error::new(ErrorKind::Corrupt, message)
}

/// The connection broke.
#[derive(Debug)]
pub(super) struct Broken(pub(super) hyper::Error);

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the connection broke: {}", self.0)?;
        let mut cause = std::error::Error::source(&self.0);
        while let Some(error) = cause {
            write!(f, ": {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}

impl std::error::Error for Broken {}

/// Whether the connection broke before anything of the request was sent.
fn is_unsent(status: &Status) -> bool {
    let source = std::error::Error::source(status);
    source.and_then(|source| source.downcast_ref::<Broken>()).is_some_and(|broken| broken.0.is_canceled())
}

const NO_USER: &str = "user name is empty";
const NOT_PERMITTED: &str = "permission denied";

/// Whether the user must prove again who it is: the server forgot, or its proof is too old. Nothing was done.
pub(super) fn is_forgotten(status: &Status) -> bool {
    status.message().contains("invalid auth token")
}

/// Whether the cluster answers only users, and none was named.
pub(super) fn is_no_user(status: &Status) -> bool {
    status.message().contains(NO_USER)
}

/// Whether the user may not ask that.
pub(super) fn is_not_permitted(status: &Status) -> bool {
    status.message().contains(NOT_PERMITTED)
}

/// Whether there is no such lease (any more).
pub(super) fn is_lease_gone(status: &Status) -> bool {
    status.code() == Code::NotFound && status.message().contains("lease not found")
}

/// Whether a lease of this id was granted before.
pub(super) fn is_lease_there(status: &Status) -> bool {
    status.message().contains("lease already exists")
}

/// Whether another member may do better: this one has lost its connection, or the others.
pub(super) fn is_members_fault(status: &Status) -> bool {
    match status.code() {
        Code::Unavailable | Code::Cancelled | Code::DeadlineExceeded | Code::Unknown | Code::Internal => true,
        // The member forgot who this is, and cannot find out.
        Code::Unauthenticated => is_forgotten(status),
        _ => false,
    }
}

fn is_about_the_user(status: &Status) -> bool {
    ["auth", NO_USER].iter().any(|part| status.message().contains(part))
}

/// An answer that is none.
pub(super) fn failed(status: &Status, place: &str) -> Error {
    let (kind, effect) = match status.code() {
        _ if is_unsent(status) => (ErrorKind::Unreachable, Effect::None),
        Code::Unauthenticated | Code::PermissionDenied => (ErrorKind::Denied, Effect::None),
        // A wrong password is an invalid argument, and so is none at all.
        Code::InvalidArgument if is_about_the_user(status) => (ErrorKind::Denied, Effect::None),
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
    let text = format!("etcd at {place}: {}{}", said(status), hint(status));
    Error::new(kind, text).with_effect(effect)
}

/// The first request, which changes nothing, was not answered. `tls` is what is wrong with TLS, if that is why: a
/// server rejects the client's certificate after the handshake.
pub(super) fn not_greeted(status: &Status, place: &str, is_secured: bool, tls: Option<TlsFailure>) -> Error {
    if tls.is_some() {
        return ConnectionError::new(said(status), tls).error(format_args!("etcd at {place}"));
    }
    let hint = match (hint(status), is_secured) {
        ("", true) => "; does the server require a client certificate (cert= and key= in the URL)?",
        ("", false) => "; was the server just stopped, or does this port need TLS (etcd+tls:// in the URL)?",
        (hint, _) => hint,
    };
    match failed(status, place) {
        error if error.kind() == ErrorKind::Unreachable => {
            unreachable(place, format!("{}{hint}", said(status)))
        }
        error => error,
    }
}

fn said(status: &Status) -> String {
    let message = status.message().trim_start_matches("etcdserver: ");
    match message.is_empty() {
        true => format!("{:?}", status.code()).to_lowercase(),
        false => message.to_owned(),
    }
}

fn hint(status: &Status) -> &'static str {
    match status.message() {
        text if text.contains("space exceeded") => {
            "; compact and defragment the cluster, then disarm its alarm"
        }
        text if text.contains("no leader") => "; is a majority of its members running?",
        text if text.contains(NO_USER) => "; the cluster requires a user: write etcd://user:password@host",
        text if text.contains(NOT_PERMITTED) => {
            "; the user needs read and write permission on the keys below namespace= in the URL"
        }
        _ => "",
    }
}
