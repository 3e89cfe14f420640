//! Locks that a database server keeps for a connection: advisory locks, `GET_LOCK`. They end with the
//! connection.
//!
//! A client claims every free lock on one common connection, with a statement that does not wait, and that
//! connection keeps all the locks granted on it. A claim that finds the lock held waits in the server. That
//! blocks a connection, so each waiting claim has a connection of its own, waits there in slices of a third
//! of the ttl, and keeps the lock there once it is granted; a claim of the same client on a lock that the
//! client holds is refused without a request, because the server would grant it again. The server ends a
//! connection that is silent for a ttl. This makes a lease of the connection: all locks on it are valid for a
//! ttl from the time at which the newest answered request was sent, and one heartbeat renews all of them. A
//! connection whose requests stay unanswered is given up and then ended on the server, by its number and its
//! start time, before a claim on it is repeated or reported as released.
//!
//! A connection is driven by the runtime that opened it, and by a thread of the client's own while that
//! runtime is blocked or after it has ended ([`Moving`]). The parts that differ between databases are a
//! [`SessionStore`] and its [`SessionConnection`]. The verbs are in `claim`, `wait`, `renew`, `release` and
//! `inspect`; `session_engine` connects them and opens the common connection, and `session_pool` has the
//! other connections.

mod claim;
mod inspect;
mod key;
mod leased_connection;
mod liveness;
mod moving;
mod release;
mod renew;
mod session_claims;
mod session_engine;
mod session_pool;
mod session_store;
mod socket;
mod sweep;
mod wait;

pub(in crate::engines) use self::key::Key;
pub(in crate::engines) use self::moving::Moving;
pub(in crate::engines) use self::session_engine::{SessionEngine, promises};
pub(in crate::engines) use self::session_store::{
    Backend, Participant, SessionConnection, SessionStore, SessionTerms, TryLock, not_terminated,
};
pub(in crate::engines) use self::socket::Socket;
