//! What happens to ZooKeeper servers, to their clients' sessions and to the network in front of them, while locks are held
//! and waited for; and other clients beside ours.
//!
//! On real servers. Every hold is recorded, every holder writes to a store that checks tokens, and when the fault is over
//! the history must show what `Guarantees` promises.

mod beside_kazoo;
mod curator;
mod cut;
mod dark;
mod ended;
mod foreign;
mod harness;
mod kazoo;
mod majority;
mod members;
mod ours;
mod removed;
mod replies;
mod restarted;
mod row;
mod tls;
mod waiting;
