//! `redlock://`: several Redis masters without replication between them, of which a majority decides.
//!
//! # The algorithm
//!
//! A claim sends `SET NX PX` with one value to all masters at once, as other Redlock clients do, and with it
//! a token that is above every token this client knows. Each master that sets the key returns the token that
//! it wrote to its fence: the proposal, or one above its last. A majority that returns the same token grants
//! the lock for the ttl, counted from before the requests were sent. If a majority sets the key with
//! different tokens, these masters are raised to the greatest, and counted again. Without a majority the
//! claim is undone on every master that may have acted, and sent again after a random pause, with a new
//! value: there is no queue. A renewal extends the key on all masters, and keeps the lock if a majority still
//! had it; the others are healed, and counted from the next renewal on. A release deletes the key on all
//! masters, and succeeds with a majority. A master that has just started may have forgotten locks, and is
//! sent no claims until `max-ttl` has passed.

mod attempts;
mod claim;
mod distinct_masters;
mod guarantees;
mod inspect;
mod master;
mod options;
mod release;
mod renew;
mod replies;
mod revoke;
mod round;
mod send_gate;
mod tally;
mod topology;
mod votes;

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use self::attempts::Attempts;
use self::guarantees::guarantees;
use self::master::{Master, MasterRequest};
use self::options::Options;
use self::replies::Replies;
use self::round::Round;
use self::topology::Topology;
use super::record;
use super::wire::Reply;
use crate::clock::{Clock, Moment};
use crate::engine::{
    Busy, Claim, ClaimId, Engine, EngineUrl, Filter, LockState, Released, Renewal, Revoke, Revoked,
    SharedCells, Verdict, Wake,
};
use crate::{ErrorKind, Guarantees, Result};

pub(in crate::engines::redis) use self::distinct_masters::DistinctMasters;

/// The time limit for a majority, except of claims and renewals.
const MAJORITY_LIMIT: Duration = Duration::from_secs(2);

/// The Redlock engine: one client's sessions with several masters.
#[derive(Clone)]
pub struct Redlock {
    shared: Arc<Shared>,
}

struct Shared {
    topology: Topology,
    options: Options,
    attempts: Attempts,
    /// The greatest token that this client was granted.
    newest_token: AtomicU64,
}

impl Redlock {
    /// Connects to the masters that `url` names. See `docs/engines/redlock.md` for the options.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for an unknown option, too few masters, or a master that is named twice;
    /// [`ErrorKind::Unreachable`] if there is no majority.
    pub async fn connect(url: &EngineUrl) -> Result<Self> {
        let (masters, options) = Options::of(url)?;
        let shared = Shared {
            topology: Topology::new(masters),
            options,
            attempts: Attempts::default(),
            newest_token: AtomicU64::new(0),
        };
        let engine = Self { shared: Arc::new(shared) };
        engine.connect_all().await?;
        Ok(engine)
    }

    pub(crate) fn promises() -> Guarantees {
        guarantees(Duration::from_secs(60), true, Vec::new())
    }

    async fn connect_all(&self) -> Result<()> {
        let connect = |master: Master| async move { master.connect().await };
        let mut round = Round::begin(self.topology().all(), self.deadline(MAJORITY_LIMIT), connect);
        let (mut connected, mut replies) = (0, Replies::default());
        while let Some((_, answer)) = round.next().await {
            match answer {
                Ok(()) => connected += 1,
                Err(error) if matches!(error.kind(), ErrorKind::Invalid | ErrorKind::Unsupported) => {
                    return Err(error);
                }
                Err(error) => replies.failed(&error),
            }
        }
        match connected >= self.topology().quorum() {
            true => Ok(()),
            false => Err(replies.no_majority(connected, self.topology().len())),
        }
    }

    fn topology(&self) -> &Topology {
        &self.shared.topology
    }

    fn deadline(&self, limit: Duration) -> Moment {
        self.clock().now().after(limit)
    }

    /// Sends a request about one lock to the masters with these numbers.
    fn send(
        &self,
        masters: impl Iterator<Item = usize>,
        time_limit: Duration,
        request: MasterRequest,
    ) -> Round<Reply> {
        let request = Arc::new(request);
        Round::begin(self.topology().numbered(masters), self.deadline(time_limit), |master| {
            let request = request.clone();
            async move { master.send(&request).await }
        })
    }

    /// The member of a claim, as it is in the fence of the masters.
    fn member(&self, claim: &Claim) -> Vec<u8> {
        let tail = record::Tail(claim, self.topology().channel_id()).bytes();
        [&record::encode_id(claim.id)[..], &tail].concat()
    }
}

impl Engine for Redlock {
    fn guarantees(&self) -> Guarantees {
        let options = &self.shared.options;
        guarantees(options.max_ttl, options.is_strict, self.topology().warnings())
    }

    fn clock(&self) -> Clock {
        Clock::boottime()
    }

    /// A handle on the same sessions, which have a connection for each runtime.
    async fn fork(&self) -> Result<Self> {
        Ok(self.clone())
    }

    fn claim(&self, claim: &Claim) -> impl Future<Output = Result<Verdict>> + Send {
        self.claim_on_majority(claim)
    }

    /// Masters push nothing: the core claims again.
    async fn wait(&self, _claim: &Claim, _busy: &Busy) -> Result<Wake> {
        std::future::pending().await
    }

    fn renew(&self, claims: &[Arc<Claim>]) -> impl Future<Output = Vec<Result<Renewal>>> + Send {
        self.renew_on_majority(claims)
    }

    /// Masters push nothing about held claims.
    async fn lost_hints(&self) -> Vec<ClaimId> {
        std::future::pending().await
    }

    fn release(&self, claim: &Claim) -> impl Future<Output = Result<Released>> + Send {
        self.release_on_majority(claim)
    }

    fn inspect(&self, filter: &Filter) -> impl Future<Output = Result<Vec<LockState>>> + Send {
        self.inspect_majority(filter)
    }

    fn revoke(&self, lock: &LockState, how: Revoke) -> impl Future<Output = Result<Revoked>> + Send {
        self.revoke_on_majority(lock, how)
    }

    fn cells(&self) -> Option<SharedCells> {
        None
    }
}
