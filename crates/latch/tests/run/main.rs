//! `latch run`, as a user meets it. Every test has a database of its own.

mod at_least;
mod elect;
mod exit_codes;
mod flock;
mod keep_fd;
mod loss;
mod nested;
mod notes;
mod places;
mod processes;
mod pty;
mod support;
mod system;
mod terminal;
mod trouble;
mod waiting;
