//! What happens to a MariaDB server, and to the network in front of it, while locks are held and asked for.
//!
//! On a real server. Every hold is recorded, and when the fault is over the history must show what `Guarantees` promises.

mod blocked;
mod cells;
mod clocks;
mod contenders;
mod forgotten;
mod harness;
mod in_the_way;
mod killed;
mod lost_replies;
mod names;
mod rights;
mod shared;
mod tls;
mod waiting;
