//! The effects of a machine on processes that hold locks: it stops them, forks them, sleeps, starves and ends
//! them.
//!
//! On real processes and a real lock database.

mod dropped;
mod forked;
mod harness;
mod slept;
mod starved;
mod stopped;
