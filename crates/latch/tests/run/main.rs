//! `latch run`, as a user runs it. Every test has a database of its own.

mod at_least;
mod bad_surroundings;
mod elect;
mod engine_selection;
mod exit_codes;
mod flock;
mod keep_fd;
mod loss;
mod nested;
mod notes;
mod processes;
mod pty;
mod support;
mod system;
mod terminal;
mod waiting;
