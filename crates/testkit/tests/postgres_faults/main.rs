//! What happens to a PostgreSQL server, and to the network in front of it, while locks are held and asked for.
//!
//! On a real server. Every hold is recorded, and when the fault is over the history must show what `Guarantees` promises.

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
