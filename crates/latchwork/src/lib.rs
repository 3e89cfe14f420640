//! One lock API over every engine people already run, and an embedded default that needs no server.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> latchwork::Result<()> {
//! use std::time::Duration;
//!
//! let client = latchwork::connect("memory:").await?; // or "sqlite:", one file for all processes of this user
//! let guard = client.lock("orders/42").ttl(Duration::from_secs(30)).wait(Duration::from_secs(5)).acquire().await?;
//! println!("my writes carry token {}", guard.token()?); // only grows: the store refuses an older one
//! guard.release().await?; // or drop it: the drop sends the release
//! # Ok(()) }
//! ```
//!
//! # What is promised
//!
//! **Lease exclusion plus fencing**: two guards never both say "certain" at the same instant (within a stated bound on
//! clock rates), and every grant's token is greater than every earlier one. No engine can promise more: a paused former
//! holder can still write to a resource that does not check the token. What holds on which engine under which fault is
//! data: [`Guarantees`].
//!
//! # Where to start
//!
//! [`connect`] opens a [`Client`], [`Client::lock`] describes a [`Lock`], [`Lock::acquire`] returns a [`Guard`].
//! To write an engine, read [`engine`].

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
