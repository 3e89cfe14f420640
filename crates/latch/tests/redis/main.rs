//! `latch` with locks on a Redis server: what differs from a database file.

mod daily;
mod first_connection;
mod foreign;
mod nested;
mod secrets;
mod stopped;
#[path = "../run/support.rs"]
#[allow(dead_code, reason = "shared with the tests of latch run, which use all of it")]
mod support;
mod waiting;
