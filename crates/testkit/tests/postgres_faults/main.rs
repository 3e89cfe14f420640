//! What happens to a PostgreSQL server, and to the network in front of it, while locks are held and asked for.
//!
//! On a real server. Every hold is recorded, and when the fault is over the history must show what `Guarantees` promises.

mod as_rows;
mod blocked;
mod clocks;
mod contenders;
mod cut;
mod forgotten;
mod killed;
mod names;
mod pooled;
mod rights;
mod scene;
mod shared;
mod tls;
