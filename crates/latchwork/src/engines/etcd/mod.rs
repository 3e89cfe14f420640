//! `etcd://`: a cluster that agrees on one order of all changes.
//!
//! **The algorithm.** A claim is one key below the lock's name, attached to a lease of the client. One
//! transaction creates the key and reads the newest contenders before it (`claim`). If none of them blocks
//! it, the claim holds the lock, and the create revision of its key is its fencing token. Otherwise the claim
//! watches the nearest key that blocks it and its own key (`wait`), so that a release wakes one client. After
//! every change it reads its position again: the contender that left may have been a waiter, and the own key
//! may have expired with its lease. A renewal keeps the lease alive, which covers all keys under it, and a
//! watch reports if a held key is deleted (`renew`). A release deletes the key (`release`); the lease's
//! `fence` keeps late requests from creating it again.
//!
//! Keys and order are those of etcd's own lock, so that `etcdctl lock` and Go programs wait in the same
//! queue.

mod cells;
mod claim;
mod claim_key;
mod close_observer;
mod close_signal;
mod connection;
mod contender_key;
mod endpoint;
mod errors;
mod fence;
mod guarantees;
mod inspect;
mod key_pool;
mod key_watch;
mod keys;
mod leaders;
mod lease;
mod lease_pool;
mod options;
mod position;
mod queue;
mod release;
mod renew;
mod shared;
mod transport;
mod wait;
mod watch_stream;
mod wire;

use std::sync::Arc;

use self::leaders::Leaders;
use self::options::Options;
use self::shared::Shared;
use crate::clock::Clock;
use crate::engine::{
    Busy, Claim, ClaimId, Engine, EngineUrl, Filter, LockState, Released, Renewal, Revoke, Revoked,
    SharedCells, Verdict, Wake,
};
use crate::{Guarantees, Result};

/// The etcd engine: one client of one cluster.
#[derive(Clone)]
pub struct Etcd {
    shared: Arc<Shared>,
}

impl Etcd {
    /// Connects to the cluster that `url` names. See `docs/engines/etcd.md` for the options.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for an unknown option,
    /// [`ErrorKind::Unreachable`](crate::ErrorKind::Unreachable) if no member can be reached (or trusted) or
    /// the cluster has no leader, [`ErrorKind::Denied`](crate::ErrorKind::Denied) if it refuses the user.
    pub async fn connect(url: &EngineUrl) -> Result<Self> {
        let shared = Arc::new(Shared::new(Options::of(url)?));
        shared.connection().await?;
        Ok(Self { shared })
    }

    pub(crate) fn promises() -> Guarantees {
        guarantees::guarantees("")
    }

    fn options(&self) -> &Options {
        &self.shared.options
    }
}

impl Engine for Etcd {
    fn guarantees(&self) -> Guarantees {
        guarantees::guarantees(&self.shared.version())
    }

    fn clock(&self) -> Clock {
        Clock::boottime()
    }

    /// A handle of the same client: every runtime has a connection of its own.
    async fn fork(&self) -> Result<Self> {
        Ok(self.clone())
    }

    async fn claim(&self, claim: &Claim) -> Result<Verdict> {
        self.claim_lock(claim).await
    }

    async fn wait(&self, claim: &Claim, busy: &Busy) -> Result<Wake> {
        self.wait_for_change(claim, busy).await
    }

    async fn renew(&self, claims: &[Arc<Claim>]) -> Vec<Result<Renewal>> {
        self.renew_all(claims).await
    }

    async fn lost_hints(&self) -> Vec<ClaimId> {
        self.shared.loss_hints.take().await
    }

    async fn release(&self, claim: &Claim) -> Result<Released> {
        self.release_claim(claim).await
    }

    async fn inspect(&self, filter: &Filter) -> Result<Vec<LockState>> {
        self.inspect_all(filter).await
    }

    async fn revoke(&self, state: &LockState, how: Revoke) -> Result<Revoked> {
        self.revoke_holders(state, how).await
    }

    fn cells(&self) -> Option<SharedCells> {
        Some(SharedCells::new(self.clone()).with_leaders(Leaders(self.clone())))
    }
}
