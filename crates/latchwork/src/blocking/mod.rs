//! Locks for code without async.
//!
//! No runtime is needed. A call blocks its thread, which may also be a thread of a runtime. The connections
//! and timers of the engine run on one thread of this process, started by the first [`connect`]. A free lock
//! is acquired without a switch to that thread.
//!
//! ```
//! use std::time::Duration;
//!
//! # fn main() -> latchwork::Result<()> {
//! let client = latchwork::blocking::connect("memory:")?;
//! let guard = client.lock("orders/42").ttl(Duration::from_secs(30)).wait(Duration::from_secs(5)).acquire()?;
//! println!("my writes carry token {}", guard.token()?);
//! guard.release()?; // or drop it: the drop sends the release
//! client.close()?;
//! # Ok(()) }
//! ```

mod cell;
mod client;
mod drop_in_runtime;
mod election;
mod guard;
mod leadership;
mod lock;
mod multi_lock;
mod runtime_thread;
mod rw_lock;
mod striped_lock;

pub use cell::{Cell, CellWatch};
pub use client::{Client, connect};
pub use election::{Election, Observer};
pub use guard::Guard;
pub use leadership::Leadership;
pub use lock::Lock;
pub use multi_lock::{MultiGuard, MultiLock};
pub use rw_lock::RwLock;
pub use striped_lock::{AnySegment, StripedLock};
