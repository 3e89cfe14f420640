//! Faults of a PostgreSQL server, and of the network in front of it, while locks are held and requested.
//!
//! On a real server. Every hold is recorded, and after the fault the history must show what `Guarantees`
//! promises.

mod blocked;
mod clocks;
mod contenders;
mod forgotten;
mod harness;
mod killed;
mod lost_replies;
mod names;
mod pooled;
mod rights;
mod shared;
mod sql_harness;
mod tls;
