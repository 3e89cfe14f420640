//! Bad networks: a proxy in front of real servers, and a simulated one under paused time.

pub mod proxy;
pub mod simulated;
