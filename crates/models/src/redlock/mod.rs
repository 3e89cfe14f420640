//! Redlock as in the engine: three masters, two clients, and messages that arrive late, in any order, or
//! never.
//!
//! The engine's own files decide on the replies of the masters. [`master`] is a second implementation of the
//! masters' scripts; tests compare it with the real scripts on a real server.

pub mod master;
mod state;
#[allow(dead_code, reason = "the engine needs more of it")]
#[path = "../../../latchwork/src/engines/redis/redlock/tally.rs"]
mod tally;
#[allow(dead_code, reason = "the engine needs more of it")]
#[path = "../../../latchwork/src/engines/redis/redlock/votes.rs"]
mod votes;
mod world;

pub use self::state::State;
pub use self::world::{Action, Fault, Mutant, Proposals, World};
