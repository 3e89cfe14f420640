//! Faults of a MariaDB server, and of the network in front of it, while locks are held and requested.
//!
//! On a real server. Every hold is recorded, and after the fault the history must show what `Guarantees`
//! promises.

mod blocked;
mod cells;
mod clocks;
mod conflicts;
mod contenders;
mod forgotten;
mod harness;
mod killed;
mod lost_replies;
mod names;
mod rights;
mod shared;
mod tls;
mod waiting;
