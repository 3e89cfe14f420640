//! The same locks for code without async.
//!
//! Nothing here needs a runtime, and nothing minds one: a call blocks its thread, also a thread of somebody's runtime.
//! What the engine and its timers need runs on one thread of this process, started by the first [`connect`]; a free
//! lock is taken without a hop to it.
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
