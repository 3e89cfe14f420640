//! The engine contract: the requirements of the core on a lock server (or file), and no others.
//!
//! An engine turns the verbs below into commands of its server, and never retries or delays one. Waiting,
//! renewing, deadlines and cancellation are written once, in the core, for every engine.
//!
//! # The contract
//!
//! Every rule has an id, and every id has a conformance case in `testkit` that runs on every engine. C3 is
//! enforced by clippy (`crates/latchwork/clippy.toml`).
//!
//! | id | rule |
//! |---|---|
//! | C1 | `claim` repeated with the same id has the same result: a claim that holds the lock is `Granted` again, with the same token. |
//! | C2 | `release` is safe at any time, any number of times, and never touches another claim. |
//! | C3 | Engines read no clock but [`Engine::clock`] and never sleep; the core's deadlines bound every verb. Outside its verbs an engine may keep its session alive (heartbeats, idle limits), and it may limit its own exchanges with a server (connecting, handshakes, heartbeats). It may open a lost connection once, before a verb is sent. An engine that asks several servers at once need not wait for all of them, and may repeat a release on those that did not reply. |
//! | C4 | The server judges expiry. [`Valid::For`] counts from before the request was sent; for a grant that came through `wait`, from the send time of the newest answered `claim`. The token of a pushed grant is above [`Busy::floor`]; `wait` skips other grants, and the core refuses them. |
//! | C5 | Every error says whether the server may have acted ([`Effect`](crate::Effect)). |
//! | C6 | `wait` may be dropped at any await, and called again. |
//! | C7 | Two ids never share a grant. |
//! | C8 | `renew` never brings a lost claim back to life. |
//! | C9 | For a name used before: one round trip for an uncontended `claim`, one for its `release`. |
//! | C10 | The core sends no new claim on a name before the release of the client's previous one was answered or given up; unless the two may hold together, or the new one waits behind readers. |
//! | C11 | Every id that was sent ends in a `release` that was answered or given up, also if the claim was lost. There are two exceptions, which leave nothing to release on the server and in the engine: a try (`wait_lease` zero) that was answered `Busy`, and an id whose claims all failed with [`Effect::None`](crate::Effect::None). |
//! | C12 | The core never claims an id again after its release was sent or its loss was reported. |
//! | C13 | A `claim` takes over at once from an exclusive holder with its own owner ([`Claim::takes_over`]), past the queue. It has a greater token, and renewals and releases of the former claim find nothing. |
//! | C14 | `lost_hints` names every held claim about which the server pushed a message between renewals, also if the message arrived between two calls. |
//!
//! Names that nest (`a`, `a/b`, `a/b-lock-0000000000`) are unrelated locks on every engine, and names are
//! compared bytewise.

pub mod cells;
mod erased;
mod foreign;
mod registry;
mod types;
mod url;
#[cfg(feature = "_net")]
pub(crate) mod url_options;

use std::future::Future;
use std::sync::Arc;

pub(crate) use cells::ErasedCells;
pub(crate) use cells::text_of;
pub use cells::{CellState, Cells, SharedCells, Version, Written};
pub(crate) use erased::{Boxed, BoxedVerdict, ErasedEngine, SharedEngine};
pub use foreign::Foreign;
pub(crate) use registry::{CompiledEngine, EngineEntry};
pub use registry::{Registry, connect};
pub use types::{
    Busy, Claim, ClaimId, ClaimState, Filter, Grant, Lifetime, LockState, Mark, Mode, Note, Released,
    Renewal, Revoke, Revoked, Valid, Verdict, Wake,
};
pub use url::EngineUrl;

use crate::clock::Clock;
use crate::{Guarantees, Result};

/// One way to hold locks: a server, a cluster, a file, or the memory of this process.
///
/// The [module documentation](self) states the rules C1 to C14 that the methods below refer to.
pub trait Engine: Send + Sync + Sized + 'static {
    /// The promises of this engine, as data.
    fn guarantees(&self) -> Guarantees;

    /// The clock its leases are counted on (C3). The core uses no other for this engine.
    fn clock(&self) -> Clock;

    /// A second handle on the same session, whose progress does not depend on the runtime of the first. It
    /// has a connection of its own on the calling runtime, or it is a clone if a thread of the client drives
    /// the session. The keeper renews through it, so that neither blocked user code nor a slow reply to a
    /// claim can starve renewals.
    fn fork(&self) -> impl Future<Output = Result<Self>> + Send;

    /// Claims the lock. If it is busy and `claim.wait_lease` is not zero, the claim takes (or keeps) a place
    /// in the queue.
    ///
    /// # Contract
    /// C1, C4, C5, C7, C9, C13.
    fn claim(&self, claim: &Claim) -> impl Future<Output = Result<Verdict>> + Send;

    /// Waits until the claim should be repeated, or until the server hands the lock over.
    ///
    /// Never returns only because time passed: the core limits the wait by [`Busy::again_in`].
    ///
    /// # Contract
    /// C4 for a pushed grant, C6. A notification that arrived between `claim` and `wait` must not be missed.
    /// If one may be lost, the result is [`Wake::Recheck`]. An error means that notifications cannot be
    /// restored, and says nothing about the claim: the core claims again after a pause of at most
    /// [`Busy::again_in`].
    fn wait(&self, claim: &Claim, busy: &Busy) -> impl Future<Output = Result<Wake>> + Send;

    /// Extends the leases of held claims, in one round trip where the server allows it. The results are in
    /// the order of `claims`.
    ///
    /// One claim must not cost the others their leases. If one of several claims has to wait for another
    /// transaction, its result is [`Busy`](crate::ErrorKind::Busy), at once. If its stored data is damaged,
    /// its result is [`Corrupt`](crate::ErrorKind::Corrupt). The core then renews each of these claims in a
    /// request of its own.
    ///
    /// # Contract
    /// C4, C5, C8. May be dropped at any await; whether it acted is then unknown.
    fn renew(&self, claims: &[Arc<Claim>]) -> impl Future<Output = Vec<Result<Renewal>>> + Send;

    /// Waits until the server reports that held claims may be lost (a claim was removed, the session ended),
    /// and returns their ids. The core renews them at once, and `renew` decides. Pending for ever on an
    /// engine whose server pushes no such reports.
    ///
    /// # Contract
    /// C14. May be dropped at any await.
    fn lost_hints(&self) -> impl Future<Output = Vec<ClaimId>> + Send;

    /// Releases the lock, or leaves the queue. The next waiter is handed the lock or woken.
    ///
    /// # Contract
    /// C2, C5, C9.
    fn release(&self, claim: &Claim) -> impl Future<Output = Result<Released>> + Send;

    /// The holders and waiters of the matching locks, in queue order.
    fn inspect(&self, filter: &Filter) -> impl Future<Output = Result<Vec<LockState>>> + Send;

    /// Takes the lock away from exactly the holders in `state`, for an operator.
    ///
    /// # Contract
    /// The engine passes each holder, as stored now, to [`Revoke::check`] before it changes anything. It then
    /// removes exactly the holder that was checked, in one step on the server.
    fn revoke(&self, state: &LockState, how: Revoke) -> impl Future<Output = Result<Revoked>> + Send;

    /// The engine's cells, if [`Guarantees::cells`] promises them, and the values that leaders publish, if
    /// the engine stores those with claims.
    fn cells(&self) -> Option<SharedCells>;
}
