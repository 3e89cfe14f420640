//! What happens to masters of a majority, and to the network in front of them, while locks are held and asked for.
//!
//! On five real masters. Every hold is recorded, and when the fault is over the history must show what `Guarantees` promises.

mod clock;
mod contenders;
mod forgetful;
mod harness;
mod minority;
mod neighbours;
mod network;
mod scripts;
mod tokens;
