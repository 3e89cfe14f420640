//! Faults of a Redis server, and of the network in front of it, while its locks are held and waited for.
//!
//! On real servers. Every hold is recorded, every holder writes to a store that checks tokens, and after the
//! fault the history must show what `Guarantees` promises.

mod black_hole;
mod clock;
mod evicted;
mod flushed;
mod full;
mod harness;
mod killed;
mod killed_clients;
mod quarantined;
mod replica;
mod replies;
mod secrets;
mod sharing;
mod stopped;
mod tls;
mod urls;
