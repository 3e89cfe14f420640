//! What happens to locks that are connections: to their holders, their servers, and the network between.
//!
//! On real servers, each test on both kinds. What is measured is printed.

mod dark;
mod dropped;
mod ended;
mod harness;
mod moved;
mod outage;
mod plain_locks;
mod tokens;
mod unfit;
