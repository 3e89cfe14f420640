//! `zookeeper://`, `zookeeper+tls://`: a ZooKeeper server or ensemble, on the nodes that Curator and kazoo
//! use.
//!
//! **The algorithm.** A claim is a sequential ephemeral node of its client's session. The least number holds
//! the lock, and every other claim watches the nearest node before it (`queue`; `scheme=single` has one node
//! per lock instead: `single`). Each client has one session, on a thread of its own. Heartbeats keep the
//! session alive, however many locks are held, and a watch reports if a held node is deleted (`renew`). When
//! the session ends, the server deletes its nodes.

mod cell_watches;
mod cells;
mod claim_table;
mod contender_node;
mod endpoint;
mod errors;
mod fast_path;
mod guarantees;
mod inspect;
mod node_data;
mod node_kind;
mod node_watch;
mod options;
mod paths;
mod queue;
mod renew;
mod shared;
mod single;
mod tracked_claim;
mod wire;

use std::sync::Arc;
use std::time::Duration;

use self::options::{Options, Scheme};
use self::shared::Shared;
use crate::clock::Clock;
use crate::engine::{
    Busy, Claim, ClaimId, Engine, EngineUrl, Filter, Lifetime, LockState, Released, Renewal, Revoke, Revoked,
    SharedCells, Verdict, Wake,
};
use crate::{Error, ErrorKind, Guarantees, Result};

/// The ZooKeeper engine: one client's session.
#[derive(Clone)]
pub struct ZooKeeper {
    shared: Arc<Shared>,
}

impl ZooKeeper {
    /// Opens a session with the servers that `url` names. See `docs/engines/zookeeper.md` for the options.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for an unknown option, [`ErrorKind::Unreachable`] if no server can be reached
    /// (or its certificate is not trusted).
    pub async fn connect(url: &EngineUrl) -> Result<Self> {
        let shared = Arc::new(Shared::new(Options::of(url)?)?);
        shared.session().await?;
        Ok(Self { shared })
    }

    /// The guarantees of `scheme=sequential`.
    pub fn promises() -> Guarantees {
        guarantees::guarantees(Scheme::Sequential, Duration::from_secs(20), Vec::new())
    }

    /// The guarantees of `scheme=single`.
    pub fn promises_of_single() -> Guarantees {
        guarantees::guarantees(Scheme::Single, Duration::from_secs(20), Vec::new())
    }
}

impl Engine for ZooKeeper {
    fn guarantees(&self) -> Guarantees {
        let (options, agreed) = (&self.shared.options, self.shared.last_session().timeout());
        let requested = options.session_ttl;
        let differs = (agreed > requested).then(|| {
            format!(
                "the server allows no session shorter than {agreed:?}; session-ttl={requested:?} has no effect"
            )
        });
        guarantees::guarantees(options.scheme, requested.max(agreed), differs.into_iter().collect())
    }

    fn clock(&self) -> Clock {
        Clock::boottime()
    }

    /// A handle of the same session: it lives on a thread of its own, and a second connection would end the
    /// first.
    async fn fork(&self) -> Result<Self> {
        Ok(self.clone())
    }

    async fn claim(&self, claim: &Claim) -> Result<Verdict> {
        if claim.lifetime != Lifetime::Lease {
            return Err(Error::new(ErrorKind::Unsupported, "zookeeper supports only claims with a lease"));
        }
        match self.shared.options.scheme {
            Scheme::Sequential => self.shared.claim_in_queue(claim).await,
            Scheme::Single => self.shared.claim_single(claim).await,
        }
    }

    async fn wait(&self, claim: &Claim, busy: &Busy) -> Result<Wake> {
        match self.shared.options.scheme {
            Scheme::Sequential => self.shared.wait_in_queue(claim, busy).await,
            Scheme::Single => self.shared.wait_single(claim).await,
        }
    }

    async fn renew(&self, claims: &[Arc<Claim>]) -> Vec<Result<Renewal>> {
        self.shared.renew_all(claims).await
    }

    async fn lost_hints(&self) -> Vec<ClaimId> {
        self.shared.claims.loss_hints.take().await
    }

    async fn release(&self, claim: &Claim) -> Result<Released> {
        match self.shared.options.scheme {
            Scheme::Sequential => self.shared.release_in_queue(claim).await,
            Scheme::Single => self.shared.release_single(claim).await,
        }
    }

    async fn inspect(&self, filter: &Filter) -> Result<Vec<LockState>> {
        self.shared.inspect_all(filter).await
    }

    async fn revoke(&self, lock: &LockState, how: Revoke) -> Result<Revoked> {
        self.shared.revoke_holders(lock, how).await
    }

    fn cells(&self) -> Option<SharedCells> {
        Some(SharedCells::new(self.clone()))
    }
}
