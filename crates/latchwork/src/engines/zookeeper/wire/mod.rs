//! A session with ZooKeeper, from the first byte on.
//!
//! Written for locks, because they need to know what general clients do not tell: when exactly a request that the leader
//! answered went out (certainty is counted from there), whether one was sent at all (nothing is queued while there is no
//! connection), and that two requests which belong together leave in one write.

mod connection;
mod driver;
mod jute;
mod request;
mod session;

pub(super) use connection::Place;
pub(super) use request::{Create, Reply, Request, Stat};
pub(super) use session::{Answer, Event, Listen, Session, State, Watcher, WireError};
