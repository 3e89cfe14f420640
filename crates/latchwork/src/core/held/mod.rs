//! Held claims: the guard's side of a lock, its lease, and the keeper that renews it.
//!
//! This room uses `queue` and `background`, and never `acquire`.

mod alarm;
mod claim;
mod keeper;
mod lease;
mod state;

pub(crate) use self::claim::HeldClaim;
pub(super) use self::claim::SharedHandle;
pub(super) use self::keeper::Keeper;
pub(super) use self::lease::LocalLease;
pub(crate) use self::state::LeaseState;
