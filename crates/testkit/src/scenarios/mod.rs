//! Faults that several engines must survive, written once over a harness.

pub mod cluster;
pub mod sql;
