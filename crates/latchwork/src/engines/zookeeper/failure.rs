//! What a failed request means: whether the server may have acted, and what the caller can do about it.

use super::options::Options;
use super::wire::{Request, WireError};
use crate::net::connection_error::ConnectionError;
use crate::{Effect, Error, ErrorKind};

/// A request that was not carried out, or whose answer is missing.
pub(super) fn failed(wire_error: &WireError, request: &Request, options: &Options) -> Error {
    let effect = match wire_error {
        WireError::Unanswered(_) if request.changes_something() => Effect::Unknown,
        _ => Effect::None,
    };
    told(wire_error, options).with_effect(effect)
}

/// The same for a claim of which something is on the server already.
pub(super) fn half_done(wire_error: &WireError, options: &Options) -> Error {
    told(wire_error, options).with_effect(Effect::Unknown)
}

/// No server could be reached, so nothing was sent.
pub(super) fn unreachable(why: impl Into<ConnectionError>, options: &Options) -> Error {
    told(&WireError::NotSent(why.into()), options)
}

fn told(wire_error: &WireError, options: &Options) -> Error {
    let place = &options.place_shown;
    let user = options.user.as_deref().unwrap_or("anyone");
    let (kind, message) = match wire_error {
        WireError::NotSent(why) | WireError::Unanswered(why) => {
            return why.error(format_args!("zookeeper at {place}"));
        }
        wire_error if *wire_error == WireError::NO_AUTH => {
            let message = format!(
                "zookeeper at {place} refuses user {user:?}; it needs all permissions (cdrwa) on {:?}, \
                 see docs/engines/zookeeper.md",
                options.chroot_shown()
            );
            (ErrorKind::Denied, message)
        }
        wire_error if *wire_error == WireError::EPHEMERAL_PARENT => {
            let message = format!(
                "zookeeper at {place}: a node on the path of this lock is ephemeral, and cannot have locks below it; is it \
                 a lock of scheme=single?"
            );
            (ErrorKind::Corrupt, message)
        }
        WireError::Refused(code @ (-119 | -127 | -125)) => (
            ErrorKind::Unreachable,
            format!("zookeeper at {place} cannot serve this request now (error {code})"),
        ),
        WireError::Refused(-6) => {
            (ErrorKind::Unsupported, format!("zookeeper at {place} is too old; it must be 3.5 or newer"))
        }
        WireError::Refused(code) => {
            (ErrorKind::Corrupt, format!("zookeeper at {place} answers with error {code}"))
        }
    };
    Error::new(kind, message)
}
