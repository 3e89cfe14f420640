//! `zookeeper://`, `zookeeper+tls://`: a ZooKeeper server or ensemble, on the nodes that Curator and kazoo use.
//!
//! A claim is a numbered node that ends with its client's session; the least number holds, and each waits for the one just
//! ahead. One session per client, on a thread of its own: it is what is kept alive, however many locks are held.

mod cell_watches;
mod cells;
mod claims;
mod data;
mod failure;
mod fast_path;
mod inspect;
mod names;
mod node;
mod options;
mod queue;
mod renew;
mod shared;
mod single;
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
use crate::{Error, ErrorKind, Faults, Guarantees, Promise, Result};

/// The ZooKeeper engine: one client's session.
#[derive(Clone)]
pub struct ZooKeeper {
    shared: Arc<Shared>,
}

impl ZooKeeper {
    /// Opens a session with the servers that `url` names. See `docs/engines/zookeeper.md` for the options.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for an option it does not know, [`ErrorKind::Unreachable`] if no server can be reached (or
    /// its certificate not trusted).
    pub async fn connect(url: &EngineUrl) -> Result<Self> {
        let shared = Arc::new(Shared::new(Options::of(url)?)?);
        shared.session().await?;
        Ok(Self { shared })
    }

    /// What `scheme=sequential` promises.
    pub fn promises() -> Guarantees {
        promises(Scheme::Sequential, Duration::from_secs(20), Vec::new())
    }

    /// What `scheme=single` promises.
    pub fn promises_of_single() -> Guarantees {
        promises(Scheme::Single, Duration::from_secs(20), Vec::new())
    }
}

fn promises(scheme: Scheme, min_ttl: Duration, warnings: Vec<String>) -> Guarantees {
    let is_queue = scheme == Scheme::Sequential;
    Guarantees {
        engine: if is_queue { "zookeeper" } else { "zookeeper-single" },
        tokens: Some("czxid"),
        tokens_survive_data_loss: false,
        fair: is_queue,
        lists_waiters: is_queue,
        pushes: true,
        tells_losses: true,
        tells_revocations: true,
        lives_with_session: true,
        read_write: is_queue,
        permits: is_queue,
        cells: true,
        watchers_told: "at once",
        takes_over: false,
        survives_blocked_runtime: true,
        outlives_wrapper: false,
        min_ttl,
        max_ttl: Duration::from_secs(24 * 60 * 60),
        ttl_option: Some("session-ttl"),
        dead_holder: "the session's ttl and a tick; again after a change of leader",
        faults: Faults {
            holder_crash: Promise::Exclusive,
            holder_pause: Promise::FencedOnly,
            restart: Promise::Exclusive,
            failover: Promise::Exclusive,
            partition: Promise::Exclusive,
            clock_step: Promise::Exclusive,
            data_deleted: Promise::FencedOnly,
        },
        beware: "fenced only with a session-ttl below three of the server's ticks, and while a leader has not noticed \
                 that its followers left it",
        warnings,
    }
}

impl Engine for ZooKeeper {
    fn guarantees(&self) -> Guarantees {
        let (options, agreed) = (&self.shared.options, self.shared.last_session().timeout());
        let asked = options.session_ttl;
        let differs = (agreed > asked).then(|| {
            format!(
                "the server allows no session shorter than {agreed:?}; session-ttl={asked:?} has no effect"
            )
        });
        promises(options.scheme, asked.max(agreed), differs.into_iter().collect())
    }

    fn clock(&self) -> Clock {
        Clock::boottime()
    }

    /// The same session: it lives on a thread of its own, and a second connection would end the first.
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
        self.shared.look_at(filter).await
    }

    async fn revoke(&self, lock: &LockState, how: Revoke) -> Result<Revoked> {
        self.shared.take_away(lock, how).await
    }

    fn cells(&self) -> Option<SharedCells> {
        Some(SharedCells::new(self.clone()))
    }
}
