//! Clients that use locks again and again while faults are injected.

pub mod contenders;
pub mod mixed;
pub mod processes;
pub mod queue;
