//! A session with ZooKeeper, and its protocol.
//!
//! Written for locks, which need what general clients do not offer: the time when a request that the leader
//! answered was sent (the certainty of a lock counts from it), whether a request was sent at all (no request
//! is queued while there is no connection), and two requests that belong together in one write.
//!
//! `net::pipeline` does not fit: a session outlives its connections, the send time of each request counts,
//! and while the session reconnects, requests must fail as not sent instead of waiting in a backlog.

mod connection;
mod driver;
mod jute;
mod request;
mod session;
mod session_config;
mod session_info;
mod watcher;
mod wire_error;

pub(super) use request::{CreateMode, NodeRequest, Reply, Stat};
pub(super) use session::{ReplyResult, Session, SessionState};
pub(super) use session_config::SessionConfig;
pub(super) use watcher::{EventListener, NodeEvent, Watcher};
pub(super) use wire_error::WireError;
