//! Why a request has no reply.

use crate::net::connection_error::ConnectionError;

/// Why a request has no reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) enum WireError {
    /// The request was not sent.
    NotSent(ConnectionError),
    /// The request was sent, and the connection broke before the reply.
    Unanswered(ConnectionError),
    /// The server refused the request, and did nothing. With its error code.
    Refused(i32),
}

/// Codes of `KeeperException`.
impl WireError {
    pub(in super::super) const UNIMPLEMENTED: Self = Self::Refused(-6);
    pub(in super::super) const NO_NODE: Self = Self::Refused(-101);
    pub(in super::super) const NO_AUTH: Self = Self::Refused(-102);
    pub(in super::super) const BAD_VERSION: Self = Self::Refused(-103);
    pub(in super::super) const NO_CHILDREN_FOR_EPHEMERALS: Self = Self::Refused(-108);
    pub(in super::super) const NODE_EXISTS: Self = Self::Refused(-110);
    pub(in super::super) const NOT_READ_ONLY: Self = Self::Refused(-119);
    pub(in super::super) const QUOTA_EXCEEDED: Self = Self::Refused(-125);
    pub(in super::super) const THROTTLED_OP: Self = Self::Refused(-127);
}
