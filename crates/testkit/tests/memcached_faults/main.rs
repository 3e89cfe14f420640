//! What happens to memcached servers, and to the network in front of them, while their locks are held and waited for.
//!
//! On real servers. What is promised is checked; what is not is shown, so that `Guarantees` says no less than the truth.

mod dark;
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
