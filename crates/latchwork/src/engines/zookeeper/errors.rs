//! Failed requests as errors of the library: whether the server may have acted, and what the user can do.

use super::options::Options;
use super::wire::{NodeRequest, WireError};
use crate::{Effect, Error, ErrorKind};

/// The error for a request that was not carried out, or has no reply.
pub(super) fn request_failed(wire_error: &WireError, request: &NodeRequest, options: &Options) -> Error {
    let effect = match wire_error {
        WireError::Unanswered(_) if request.is_write() => Effect::Unknown,
        _ => Effect::None,
    };
    error(wire_error, options).with_effect(effect)
}

/// The error for a failed request of a claim that has, or may have, a node already.
pub(super) fn claim_failed(wire_error: &WireError, options: &Options) -> Error {
    error(wire_error, options).with_effect(Effect::Unknown)
}

/// No server could be reached. Nothing was sent.
pub(super) fn unreachable(why: &str, options: &Options) -> Error {
    error(&WireError::NotSent(why.into()), options)
}

/// The server's reply does not belong to the request.
pub(super) fn protocol_error() -> Error {
    Error::new(ErrorKind::Corrupt, "zookeeper: unexpected reply to a request")
}

fn error(wire_error: &WireError, options: &Options) -> Error {
    let shown_as = &options.shown_as;
    let user = options.user.as_deref().unwrap_or("anyone");
    let (kind, message) = match wire_error {
        WireError::NotSent(why) | WireError::Unanswered(why) => {
            (ErrorKind::Unreachable, format!("zookeeper at {shown_as}: {why}{}", tls_hint(why)))
        }
        wire_error if *wire_error == WireError::NO_AUTH => {
            let message = format!(
                "zookeeper at {shown_as} refuses user {user:?}; it needs all permissions (cdrwa) on {:?}, \
                 see docs/engines/zookeeper.md",
                options.chroot_shown()
            );
            (ErrorKind::Denied, message)
        }
        wire_error if *wire_error == WireError::NO_CHILDREN_FOR_EPHEMERALS => {
            let message = format!(
                "zookeeper at {shown_as}: a node on the path of this lock is ephemeral, and cannot have locks below it; is it \
                 a lock of scheme=single?"
            );
            (ErrorKind::Corrupt, message)
        }
        WireError::Refused(code) if is_temporary(wire_error) => (
            ErrorKind::Unreachable,
            format!("zookeeper at {shown_as} cannot serve this request now (error {code})"),
        ),
        wire_error if *wire_error == WireError::UNIMPLEMENTED => {
            (ErrorKind::Unsupported, format!("zookeeper at {shown_as} is too old; it must be 3.5 or newer"))
        }
        WireError::Refused(code) => {
            (ErrorKind::Corrupt, format!("zookeeper at {shown_as} answers with error {code}"))
        }
    };
    Error::new(kind, message)
}

/// Whether the server may serve the request later.
fn is_temporary(wire_error: &WireError) -> bool {
    [WireError::NOT_READ_ONLY, WireError::QUOTA_EXCEEDED, WireError::THROTTLED_OP].contains(wire_error)
}

/// Advice for the user after a failed TLS handshake. rustls gives only the reason.
fn tls_hint(why: &str) -> &'static str {
    match why {
        why if why.contains("UnknownIssuer") => "; name the authority to trust with ca= in the URL",
        why if why.contains("CertificateRequired") => {
            "; the server requires a client certificate: set cert= and key= in the URL"
        }
        why if why.contains("InvalidContentType") => "; does this port speak TLS?",
        _ => "",
    }
}
