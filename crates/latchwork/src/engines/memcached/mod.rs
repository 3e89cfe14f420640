//! `memcached://`: an advisory lock on servers that forget.
//!
//! The algorithm: a lock is one key, and its value is the id of the claim that holds it. A claim *adds* its
//! value: of all clients that add, the server lets one succeed. The value expires with the ttl. To renew is
//! to store the value again, and to release is to delete it; both name the CAS id that the server gave to the
//! value, so no client touches what another one stored. A claim that finds its own value there (the reply to
//! an earlier request was lost) stores it again in the same way. A claim that finds another value is busy:
//! nothing notifies waiters, so the core asks again after a pause, and then the claim looks before it adds.
//!
//! CAS ids begin at 1 again with every start of a server. So each server is given a random *life* when a
//! client first meets it, and a CAS id is used only on connections to the life in which it was learned.
//! Otherwise the value is read first. There are no tokens, no queue and no notifications; a server that is
//! restarted, flushed or out of memory loses locks.
//!
//! | file | what |
//! |---|---|
//! | `claim`, `renew`, `release`, `inspect` | the verbs (`inspect` has revoking, too) |
//! | `keys` | the key of a lock, and which of several servers has it |
//! | `value` | what is stored at a key |
//! | `session` | one server: its connections, and what is known about it |
//! | `connection`, `wire` | requests of many tasks on one connection, and their bytes |
//! | `server_stats` | what a server says about itself when a connection opens |
//! | `options`, `endpoint` | the URL, and the address of a server |

mod claim;
mod connection;
mod endpoint;
mod errors;
mod inspect;
mod keys;
mod options;
mod release;
mod renew;
mod server_stats;
mod session;
mod value;
mod wire;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::task::JoinSet;

use self::connection::Connection;
use self::options::Options;
use self::session::Session;
use self::wire::{Item, Reply, Requests};
use crate::clock::Clock;
use crate::engine::{
    Busy, Claim, ClaimId, Engine, EngineUrl, Filter, LockState, Released, Renewal, Revoke, Revoked,
    SharedCells, Verdict, Wake,
};
use crate::engines::quarantine::QuarantinePolicy;
use crate::names::BuildIdentityHasher;
use crate::poison::lock_ignoring_poison;
use crate::{Effect, ErrorKind, Faults, Guarantees, LockName, Promise, Result};

/// The memcached engine: one client's sessions with its servers.
#[derive(Clone)]
pub struct Memcached {
    shared: Arc<Shared>,
}

struct Shared {
    /// In the order of the URL.
    sessions: Vec<Arc<Session>>,
    prefix: String,
    quarantine: (QuarantinePolicy, Duration),
    /// Not hashed again: the ids are random.
    claims: Mutex<HashMap<ClaimId, KnownClaim, BuildIdentityHasher>>,
}

/// The client's record of a claim.
#[derive(Clone, Copy, Default)]
struct KnownClaim {
    /// The CAS id of its value, and the life of the server in which it was learned.
    cas: Option<(ClaimId, u64)>,
    /// How often the lock was busy.
    failed_attempts: u32,
}

impl Shared {
    fn key(&self, name: &LockName) -> String {
        keys::key_of(&self.prefix, name)
    }

    /// The index of the server that has this key.
    fn server_of(&self, key: &str) -> usize {
        keys::server_of(self.sessions.iter().map(|session| session.endpoint.shown_as.as_str()), key)
    }

    /// The CAS id of a claim, if it is valid on this connection.
    fn cas(&self, id: ClaimId, connection: &Connection) -> Option<u64> {
        let (life, cas) = lock_ignoring_poison(&self.claims).get(&id)?.cas?;
        (life == connection.life).then_some(cas)
    }

    /// The value of the claim was stored. A claim that was released is not remembered again.
    fn learned_cas(&self, id: ClaimId, connection: &Connection, cas: u64) {
        if let Some(claim) = lock_ignoring_poison(&self.claims).get_mut(&id) {
            claim.cas = Some((connection.life, cas));
        }
    }

    fn failed_attempts(&self, id: ClaimId) -> u32 {
        lock_ignoring_poison(&self.claims).get(&id).map_or(0, |claim| claim.failed_attempts)
    }
}

impl Memcached {
    /// Connects to the servers that `url` names. See `docs/engines/memcached.md` for the options.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for an unknown option, [`ErrorKind::Unreachable`] if no server can be reached
    /// (or its certificate is not trusted), [`ErrorKind::Unsupported`] or [`ErrorKind::Denied`] if a server
    /// cannot be used.
    pub async fn connect(url: &EngineUrl) -> Result<Self> {
        let Options { endpoints, prefix, quarantine, max_ttl } = Options::of(url)?;
        let quarantine = (quarantine, max_ttl);
        let session = |endpoint| Arc::new(Session::new(endpoint, quarantine));
        let sessions = endpoints.into_iter().map(session).collect();
        let engine =
            Self { shared: Arc::new(Shared { sessions, prefix, quarantine, claims: Mutex::default() }) };
        engine.connect_to_all().await?;
        Ok(engine)
    }

    /// Connects to all servers. Servers that cannot be reached now may be reached later; their locks wait
    /// until then.
    async fn connect_to_all(&self) -> Result<()> {
        let mut connecting = JoinSet::new();
        for session in &self.shared.sessions {
            let session = session.clone();
            connecting.spawn(async move { session.connection().await.map(drop) });
        }
        let (mut connected, mut unreachable) = (0, None);
        while let Some(result) = connecting.join_next().await {
            match result.unwrap_or_else(|_| Err(errors::interrupted())) {
                Ok(()) => connected += 1,
                Err(error) if error.kind() == ErrorKind::Unreachable => unreachable = Some(error),
                Err(error) => return Err(error),
            }
        }
        unreachable.filter(|_| connected == 0).map_or(Ok(()), Err)
    }

    pub(crate) fn promises() -> Guarantees {
        promises((QuarantinePolicy::Auto, Duration::from_secs(60)), Vec::new())
    }

    /// The key of a lock, the session with the server that has it, and a connection to that.
    async fn locate(&self, name: &LockName) -> Result<(String, &Session, Arc<Connection>)> {
        let key = self.shared.key(name);
        let session = &*self.shared.sessions[self.shared.server_of(&key)];
        let connection = session.connection().await?;
        Ok((key, session, connection))
    }

    /// The item at a key. Reading it changes nothing.
    async fn read(&self, connection: &Connection, key: &str) -> Result<Option<Item>> {
        item(connection, connection.ask(Requests::read_one(key)).await)
    }
}

/// The item in the reply to a read. A read changes nothing, whatever went wrong.
fn item(connection: &Connection, reply: Result<Reply>) -> Result<Option<Item>> {
    match reply.map_err(|error| error.with_effect(Effect::None))? {
        Reply::Item(item) => Ok(Some(item)),
        Reply::Missing => Ok(None),
        reply => Err(connection.unexpected_reply(&reply).with_effect(Effect::None)),
    }
}

fn promises((quarantine, max_ttl): (QuarantinePolicy, Duration), warnings: Vec<String>) -> Guarantees {
    Guarantees {
        engine: "memcached",
        tokens: None,
        tokens_survive_data_loss: false,
        fair: false,
        lists_waiters: false,
        pushes: false,
        tells_losses: false,
        tells_revocations: false,
        lives_with_session: false,
        read_write: false,
        permits: false,
        cells: false,
        watchers_told: "-",
        takes_over: false,
        survives_blocked_runtime: true,
        outlives_wrapper: false,
        min_ttl: Duration::from_millis(100),
        max_ttl,
        ttl_option: Some("max-ttl"),
        dead_holder: "the ttl in whole seconds, and up to 2 s more",
        faults: Faults {
            holder_crash: Promise::Exclusive,
            holder_pause: Promise::Breaks,
            restart: match quarantine {
                QuarantinePolicy::Strict => Promise::Exclusive,
                QuarantinePolicy::Auto | QuarantinePolicy::Off => Promise::Breaks,
            },
            failover: Promise::Breaks,
            partition: Promise::Exclusive,
            clock_step: Promise::Exclusive,
            data_deleted: Promise::Breaks,
        },
        beware: "advisory: no tokens; a server evicts locks when its memory is full, and one that stood still may grant \
                 leases that are short by that time; clients with different lists of servers do not exclude each other; \
                 quarantine=strict makes a restart exclusive; waiting clients ask again and again, in no order",
        warnings,
    }
}

impl Engine for Memcached {
    fn guarantees(&self) -> Guarantees {
        let warnings = self.shared.sessions.iter().flat_map(|session| session.warnings());
        promises(self.shared.quarantine, warnings.collect())
    }

    fn clock(&self) -> Clock {
        Clock::boottime()
    }

    /// A handle on the same sessions: each runtime has connections of its own.
    async fn fork(&self) -> Result<Self> {
        Ok(self.clone())
    }

    async fn claim(&self, claim: &Claim) -> Result<Verdict> {
        self.claim_lock(claim).await
    }

    /// The server notifies nobody: the core claims again after the pause in `Busy`.
    async fn wait(&self, _: &Claim, _: &Busy) -> Result<Wake> {
        std::future::pending().await
    }

    async fn renew(&self, claims: &[Arc<Claim>]) -> Vec<Result<Renewal>> {
        if let [session] = &self.shared.sessions[..] {
            return self.renew_on(session, claims).await;
        }
        self.renew_on_all(claims).await
    }

    /// The server does not report that a value is gone.
    async fn lost_hints(&self) -> Vec<ClaimId> {
        std::future::pending().await
    }

    async fn release(&self, claim: &Claim) -> Result<Released> {
        self.release_lock(claim).await
    }

    async fn inspect(&self, filter: &Filter) -> Result<Vec<LockState>> {
        self.inspect_lock(filter).await
    }

    async fn revoke(&self, lock: &LockState, how: Revoke) -> Result<Revoked> {
        self.revoke_lock(lock, how).await
    }

    /// The server may forget a cell at any moment.
    fn cells(&self) -> Option<SharedCells> {
        None
    }
}
