//! The engine contract: what a lock server (or file) must do for the core, and nothing more.
//!
//! Engines are passive. An engine turns the verbs below into its server's commands; it owns no timer and no
//! retry (a verb may open a lost connection once, before it sends; one that asks several servers at once does not wait for all,
//! and goes on asking those that were late to let go). Waiting, renewing, deadlines and cancelling are the core's, written once for every engine.
//!
//! # The contract
//!
//! Every rule has an id, and every id has a conformance case in `testkit` that runs on every engine.
//!
//! | id | rule |
//! |---|---|
//! | C1 | `claim` repeated with the same id gives the same answer: already mine means `Granted` with the same token. |
//! | C2 | `release` is safe at any time, any number of times, and never touches another claim. |
//! | C3 | Engines read no clock but [`Engine::clock`], and never sleep. |
//! | C4 | The server judges expiry. [`Valid::For`] counts from before the request was sent; for a grant that came through `wait`, from the send time of the newest answered `claim`. A pushed grant's token is above [`Busy::floor`]; `wait` skips others, and the core refuses them. |
//! | C5 | Every error says whether the server may have acted ([`Effect`](crate::Effect)). |
//! | C6 | `wait` may be dropped at any await, and called again. |
//! | C7 | Two ids never share a grant. |
//! | C8 | `renew` never brings a lost claim back to life. |
//! | C9 | For a name used before: one round trip for an uncontended `claim`, one for its `release`. |
//! | C10 | The core sends no new claim on a name before the release of the client's previous one was answered or given up; unless the two may hold together, or the new one waits behind readers. |
//! | C11 | Every id that was sent ends in a `release` that was answered or given up, lost claims included; only a try (`wait_lease` zero) that was answered `Busy`, and an id whose every claim failed with [`Effect::None`](crate::Effect::None), leave nothing to release, on the server and in the engine. |
//! | C12 | The core never claims an id again whose release was sent or whose loss was told. |
//! | C13 | A `claim` takes over at once from an exclusive holder with its own owner ([`Claim::takes_over`]), past the queue: a greater token, and the former claim's renewals and releases find nothing. |
//! | C14 | What the server says of a held claim between renewals is named by `news`, also if it was said between two calls. |
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
pub use registry::{Registry, connect};
pub use types::{
    Busy, Claim, ClaimId, ClaimState, Filter, Grant, Lifetime, LockState, Mark, Mode, Note, Released,
    Renewal, Revoke, Revoked, Valid, Verdict, Wake,
};
pub use url::EngineUrl;

use crate::clock::Clock;
use crate::{Guarantees, Result};

/// One way to hold locks: a server, a cluster, a file, or this process's memory.
///
/// The [module documentation](self) states the rules C1 to C14 that the methods below refer to.
pub trait Engine: Send + Sync + Sized + 'static {
    /// What this engine promises, as data.
    fn guarantees(&self) -> Guarantees;

    /// The clock its leases are counted on (C3). The core uses no other for this engine.
    fn clock(&self) -> Clock;

    /// A second handle on the same session, whose progress does not depend on the runtime of the first: with
    /// a connection of its own on the runtime it is called on, or as a clone where a thread of the client's
    /// own moves the session. The keeper renews through it, so that neither blocked user code nor a claim
    /// that the server is slow to answer can starve renewals.
    fn fork(&self) -> impl Future<Output = Result<Self>> + Send;

    /// Asks for the lock. If it is busy and `claim.wait_lease` is not zero, the claim takes (or keeps) its place in the queue.
    ///
    /// # Contract
    /// C1, C4, C5, C7, C9, C13.
    fn claim(&self, claim: &Claim) -> impl Future<Output = Result<Verdict>> + Send;

    /// Waits until asking again makes sense, or until the server hands the lock over.
    ///
    /// Never returns only because time passed: the core bounds it by [`Busy::again_in`].
    ///
    /// # Contract
    /// C4 for a pushed grant, C6. News that arrived between `claim` and `wait` must not be missed. Lost news is
    /// [`Wake::Recheck`]; an error says that listening cannot be restored, and nothing about the claim: the core
    /// claims again after a pause of at most [`Busy::again_in`].
    fn wait(&self, claim: &Claim, busy: &Busy) -> impl Future<Output = Result<Wake>> + Send;

    /// Extends held claims, in one round trip where the server allows it. The answers are in the order of
    /// `claims`.
    ///
    /// One claim must not cost the others their leases. If one of several claims has to wait for another
    /// transaction, its answer is [`Busy`](crate::ErrorKind::Busy), at once. If its stored data is damaged,
    /// its answer is [`Corrupt`](crate::ErrorKind::Corrupt). The core then renews each of these claims in a
    /// request of its own.
    ///
    /// # Contract
    /// C4, C5, C8. May be dropped at any await; whether it acted is then unknown.
    fn renew(&self, claims: &[Arc<Claim>]) -> impl Future<Output = Vec<Result<Renewal>>> + Send;

    /// Waits until the server has said something of held claims that cannot wait for their next renewal (a claim was
    /// removed, the session ended), and names them: the core renews them at once, and `renew` says what became of them.
    /// Never ends on an engine that hears nothing between renewals.
    ///
    /// # Contract
    /// C14. May be dropped at any await.
    fn lost_hints(&self) -> impl Future<Output = Vec<ClaimId>> + Send;

    /// Gives the lock back, or leaves the queue; the next waiter is handed the lock or woken.
    ///
    /// # Contract
    /// C2, C5, C9.
    fn release(&self, claim: &Claim) -> impl Future<Output = Result<Released>> + Send;

    /// Who holds and who waits, in queue order.
    fn inspect(&self, filter: &Filter) -> impl Future<Output = Result<Vec<LockState>>> + Send;

    /// An operator takes the lock away from exactly the holders named in `state`.
    ///
    /// # Contract
    /// [`Revoke::check`] is asked about each of them as the engine finds it now, before anything is changed. What
    /// is then removed is what was found, in one step on the server.
    fn revoke(&self, state: &LockState, how: Revoke) -> impl Future<Output = Result<Revoked>> + Send;

    /// The cells beside its locks, if [`Guarantees::cells`] says that it has some; and what holders tell, if it keeps that.
    fn cells(&self) -> Option<SharedCells>;
}
