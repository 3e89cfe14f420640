//! Recipes: abstractions on top of locks and cells, written once for all engines.
//!
//! [`Guarantees`](crate::Guarantees) tells which recipes an engine supports. For others, the call fails
//! before anything is sent.

mod cell;
mod cell_watch;
mod election;
mod join;
mod leadership;
mod multi_guard;
mod multi_lock;
mod observer;
mod optimistic;
mod rw_lock;
mod semaphore;
mod striped_lock;

pub use cell::Cell;
pub use cell_watch::CellWatch;
pub use election::{Election, Leader};
pub use leadership::Leadership;
pub use multi_guard::{MultiGuard, MultiHeld};
pub use multi_lock::MultiLock;
pub use observer::Observer;
pub use optimistic::optimistic;
pub use rw_lock::RwLock;
pub use striped_lock::{AnySegment, StripedLock};
