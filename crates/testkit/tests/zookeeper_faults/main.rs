//! Faults of ZooKeeper servers, of their clients' sessions and of the network in front of them, while locks
//! are held and waited for; and other clients beside ours.
//!
//! On real servers. Every hold is recorded, every holder writes to a store that checks tokens, and after the
//! fault the history must show what `Guarantees` promises.

mod beside_kazoo;
mod black_hole;
mod curator;
mod ended;
mod foreign;
mod harness;
mod kazoo;
mod majority;
mod members;
mod mixed_queue;
mod our_claims;
mod partition;
mod removed;
mod replies;
mod restarted;
mod tls;
mod waiting;
