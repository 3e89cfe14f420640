//! Locks that a database keeps for a connection: advisory locks, `GET_LOCK`. They end with it.
//!
//! One connection of a client takes every lock that is free, and keeps as many as there are. Waiting occupies a connection, so
//! who waits has one of its own, waits in the server in slices, and keeps the lock on it. The server ends a connection that is
//! silent for a ttl: that makes a lease of it, and one statement is the sign of life of all locks on a connection.
//!
//! A connection lives on the runtime that opened it, and is moved by a thread of the client's own when that runtime stands still or
//! has ended ([`Moving`]). What differs between databases is a [`Server`] and its [`Connection`].

mod claims;
mod connection;
mod engine;
mod inspect;
mod key;
mod line;
mod moving;
mod office;
mod socket;
mod sweep;

pub(in crate::engines) use self::connection::{Backend, Connection, Seen, Server, Terms, Tried, still_there};
pub(in crate::engines) use self::engine::{Sessions, promises};
pub(in crate::engines) use self::key::Key;
pub(in crate::engines) use self::moving::Moving;
pub(in crate::engines) use self::socket::Socket;
