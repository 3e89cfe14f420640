//! `latch` with locks on a Redis server: the differences to a database file.

mod daily_warning;
mod first_connection;
mod foreign;
mod nested;
mod secrets;
mod stopped_server;
#[path = "../run/support.rs"]
#[allow(dead_code, reason = "shared with the tests of latch run, which use all of it")]
mod support;
mod waiting;
