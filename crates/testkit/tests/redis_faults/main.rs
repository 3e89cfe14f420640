//! What happens to a Redis server, and to the network in front of it, while its locks are held and waited for.
//!
//! On real servers. Every hold is recorded, every holder writes to a store that checks tokens, and when the fault is over
//! the history must show what `Guarantees` promises.

mod clock;
mod cut;
mod dark;
mod dead;
mod evicted;
mod flushed;
mod full;
mod harness;
mod killed;
mod quarantined;
mod replica;
mod secrets;
mod sharing;
mod stopped;
mod tls;
mod urls;
