//! Faults of locks that are bound to connections: of their holders, their servers, and the network between.
//!
//! On real servers, each test on both kinds. Measurements are printed.

mod black_hole;
mod dropped;
mod ended;
mod harness;
mod moved;
mod outage;
mod plain_locks;
mod tokens;
mod unfit;
