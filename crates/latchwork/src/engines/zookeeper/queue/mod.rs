//! `scheme=sequential`: every claim is a sequential ephemeral node, and the least number holds.
//!
//! **The algorithm.** A claim creates its node below the lock's own node and lists the children, in one write
//! (`claim`). The fast path leaves out the listing. If no earlier node blocks it, the claim holds the lock,
//! and the transaction that created its node (czxid) is its fencing token (`position`). Otherwise the claim
//! watches the nearest node that blocks it and its own (`wait`), so that a release wakes one waiter. After an
//! event it lists the children again: a node that is gone means that the position may have changed, and never
//! that the claim holds. A release deletes the node (`release`). If the reply to the creation is lost, the
//! claim finds its node by the id in its name.

mod claim;
mod position;
mod release;
mod wait;

use crate::engine::Mark;
use crate::{Effect, Error};

/// Identifies the nodes that a claim waits for.
fn mark(nearest: &[String]) -> Mark {
    Mark(nearest.join("\n").into_bytes())
}

/// Whatever the failed request did, an earlier one may have created the claim's node.
fn effect_unknown(error: Error) -> Error {
    error.with_effect(Effect::Unknown)
}
