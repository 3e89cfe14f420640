//! Faults of etcd servers, of their clients' leases and of the network in front of them, while locks are held
//! and waited for.
//!
//! On real servers. Every hold is recorded, every holder writes to a store that checks tokens, and after the
//! fault the history must show what `Guarantees` promises.

mod beside_etcdctl;
mod black_hole;
mod elections;
mod harness;
mod hung;
mod late;
mod majority;
mod members;
mod names;
mod permits;
mod replies;
mod restarted;
mod revoked;
mod secrets;
mod soak;
mod tls;
