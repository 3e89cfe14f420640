//! One lock API over the engines people already run, and an embedded default that needs no server.
//!
//! ```no_run
//! use std::time::Duration;
//!
//! #[tokio::main]
//! async fn main() -> latchwork::Result<()> {
//!     let client = latchwork::connect("redis://localhost").await?; // feature "redis"
//!     let lock = client.lock("orders/42").ttl(Duration::from_secs(30)).wait(Duration::from_secs(5));
//!     let guard = lock.acquire().await?; // renewed in the background while the guard lives
//!     println!("every write carries token {}", guard.token()?);
//!     guard.release().await // or drop it: the drop sends the release
//! }
//! ```
//!
//! Without a server, the processes of one machine share a file. Work that must not outlive its lock is
//! dropped when the lock is lost:
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let url = format!("sqlite:{}", folder.path().join("locks.db").display());
//! # /*
//! let url = "sqlite:/var/lib/app/locks.db"; // "sqlite:" alone: a file in the home of this user
//! # */
//! let client = latchwork::connect(&url).await?;
//! let report = client
//!     .lock("report")
//!     .run(async |held| Ok::<_, latchwork::Error>(format!("written with token {}", held.token()?)))
//!     .await?;
//! assert!(report.starts_with("written with token"));
//! # Ok(()) }
//! ```
//!
//! # Engines
//!
#![doc = include_str!("engines/table.txt")]
//!
//! Each URL has options, on the page of its engine in `docs/engines/`. The feature `all-engines` turns on
//! every engine, and `telemetry` (default) spans and events for `tracing` and counters for `metrics`.
//!
//! # Guarantees
//!
//! **Lease exclusion plus fencing**: two guards never both report a certain hold at the same instant (within
//! a stated bound on clock rates), and the token of every grant is greater than all earlier ones. No engine
//! can promise more, because a paused former holder can still write to a resource that does not check the
//! token. [`Guarantees`] tells what holds on which engine under which fault.
//!
//! # Where to start
//!
//! [`connect`] opens a [`Client`], [`Client::lock`] describes a [`Lock`], and [`Lock::acquire`] returns a
//! [`Guard`]. A client also has [readers and writers](Client::rw_lock), [permits](Client::semaphore),
//! [several locks at once](Client::multi_lock), [segments](Client::striped_lock), [cells](Client::cell) and
//! [elections](Client::election). [`blocking`] is the same API without async. To write an engine, read
//! [`engine`].

#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests count their own time")
)]

pub mod blocking;
mod client;
pub mod clock;
#[allow(clippy::disallowed_methods, reason = "the core waits, for every engine")]
mod core;
pub mod engine;
pub mod engines;
mod error;
mod fenced;
mod forward_options;
mod guarantees;
mod guard;
mod held;
mod lock;
mod loss;
mod names;
#[cfg(feature = "_net")]
mod net;
mod owner;
mod poison;
#[allow(clippy::disallowed_methods, reason = "recipes wait, as the core does")]
mod recipes;
mod token;
mod waiting;

pub use client::Client;
pub use engine::connect;
pub use engine::{CellState, Version, Written};
pub use error::{Effect, Error, ErrorKind, Result};
pub use fenced::{FENCED_SET, Fenced};
pub use guarantees::{Faults, Guarantees, Promise};
pub use guard::Guard;
pub use held::Held;
pub use lock::{Lock, Wait};
pub use loss::Loss;
pub use names::LockName;
pub use owner::OwnerId;
pub use recipes::{
    AnySegment, Cell, CellWatch, Election, Leader, Leadership, MultiGuard, MultiHeld, MultiLock, Observer,
    RwLock, StripedLock, optimistic,
};
pub use token::Token;
pub use waiting::{Outage, Quarantine, Waiting};
