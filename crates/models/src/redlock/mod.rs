//! Redlock as the engine does it: three masters, two clients, messages that come late, in any order, or never.
//!
//! What follows from the masters' answers is decided by the engine's own files. The masters' scripts are written again in
//! [`master`]; the tests compare them with the real scripts on a real server.

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
pub use self::world::{Act, Fault, Mutant, Proposals, World};
