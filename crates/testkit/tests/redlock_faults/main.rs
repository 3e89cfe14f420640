//! Faults of masters of a majority, and of the network in front of them, while locks are held and requested.
//!
//! On five real masters. Every hold is recorded, and after the fault the history must show what `Guarantees`
//! promises.

mod clock;
mod contenders;
mod forgetful;
mod harness;
mod minority;
mod neighbours;
mod network;
mod scripts;
mod tokens;
