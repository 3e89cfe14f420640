//! Small worlds in which every order of events is tried, for the algorithms that are ours alone: no server decides them for us,
//! and no test on real servers meets every order.

pub mod redlock;
