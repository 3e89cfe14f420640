//! Faults of memcached servers, and of the network in front of them, while their locks are held and waited
//! for.
//!
//! On real servers. Guarantees are checked; anything that is not guaranteed is demonstrated, so that
//! `Guarantees` says no less than the truth.

mod black_hole;
mod forgotten;
mod harness;
mod hostile;
mod leases;
mod names;
mod refused;
mod replies;
mod restarted;
mod revoked;
mod several;
mod tls;
