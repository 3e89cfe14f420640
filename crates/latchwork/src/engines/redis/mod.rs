//! `redis://`: one Redis server, fair, pushed and fenced, on keys that other clients share.
//!
//! # The algorithm
//!
//! The lock is a plain string at its own key, as `SET NX PX` makes it, so redis-py, redsync, node-redlock,
//! rslock and any other client that sets such keys exclude this library and are excluded by it. Every verb is
//! one script. A claim sets the key to its id, with the ttl as the expiry, if the key is free and the queue
//! is empty; writes its token, max(last + 1, server time in us), to the fence; and returns the token.
//! Otherwise it enters the queue, a zset by arrival, and writes the end of its wait lease to a second zset. A
//! renewal extends the expiry while the key still has the id. A release gives the key and a new token to the
//! first waiter whose wait lease has not ended, and publishes the token on the channel of that waiter's
//! client. If no client is subscribed to the channel, the waiter is dead and the next one is tried; with an
//! empty queue, the key is deleted. A waiter renews its wait lease with heartbeats, which are claims
//! repeated. The first waiter also repeats its claim when the key expires, because a dead holder publishes
//! nothing, and is then granted the key. A client of another kind publishes nothing either: the first waiter
//! has the server track the key, and polls. Readers and permits hold the key together, as members of two more
//! zsets.

mod cells;
mod claim;
mod connection;
mod endpoint;
mod errors;
mod getset;
mod guarantees;
mod heartbeats;
mod info;
mod inspect;
mod keys;
mod lua;
mod options;
mod push;
mod record;
mod redlock;
mod release;
mod renew;
mod revoke;
mod script_replies;
mod scripts;
mod session;
mod shared_claims;
mod wait;
mod wire;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use self::connection::Connection;
use self::guarantees::guarantees;
use self::keys::Keys;
use self::options::{Options, Scheme};
use self::scripts::Script;
use self::session::Session;
use self::wire::Command;
use crate::clock::Clock;
use crate::engine::{
    Busy, Claim, ClaimId, Engine, EngineUrl, Filter, LockState, Released, Renewal, Revoke, Revoked,
    SharedCells, Verdict, Wake,
};
use crate::engines::quarantine::QuarantinePolicy;
use crate::{Client, Error, ErrorKind, Guarantees, Result};

pub use self::getset::GetSet;
pub use self::redlock::Redlock;

/// The Redis engine: one client's session with one server.
#[derive(Clone)]
pub struct Redis {
    session: Arc<Session>,
}

/// A client of the scheme that `url` names.
///
/// # Errors
/// As [`Redis::connect`].
pub(crate) async fn client(url: &EngineUrl) -> Result<Client> {
    match url.option("scheme") {
        Some("getset") => Ok(Client::new(GetSet::connect(url).await?)),
        _ => Ok(Client::new(Redis::connect(url).await?)),
    }
}

impl Redis {
    /// Connects to the server that `url` names. See `docs/engines/redis.md` for the options.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for an unknown option, [`ErrorKind::Unreachable`] if the server cannot be
    /// reached or its certificate is not trusted, [`ErrorKind::Denied`] if it refuses the user.
    pub async fn connect(url: &EngineUrl) -> Result<Self> {
        let options = Options::of(url)?;
        if options.scheme == Scheme::GetSet {
            let message = "scheme=getset is a separate engine; connect with GetSet::connect";
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        let session = Arc::new(Session::new(options));
        session.connection().await?;
        Ok(Self { session })
    }

    pub(crate) fn promises() -> Guarantees {
        guarantees(Scheme::Set, Duration::from_secs(60), QuarantinePolicy::Auto, Vec::new())
    }

    fn options(&self) -> &Options {
        &self.session.options
    }

    /// Starts a call of `script` on one lock, with its four keys. The caller appends arguments.
    fn script_call(&self, connection: &Connection, script: Script, keys: Keys<'_>) -> Command {
        let mut command = connection.script(script, 4, keys.bytes() + 320);
        keys.write(&mut command);
        command
    }
}

impl Engine for Redis {
    fn guarantees(&self) -> Guarantees {
        let options = self.options();
        guarantees(options.scheme, options.max_ttl, options.quarantine, self.session.warnings())
    }

    fn clock(&self) -> Clock {
        Clock::boottime()
    }

    /// A handle on the same session, which has a connection for each runtime.
    async fn fork(&self) -> Result<Self> {
        Ok(self.clone())
    }

    fn claim(&self, claim: &Claim) -> impl Future<Output = Result<Verdict>> + Send {
        self.claim_or_enqueue(claim)
    }

    fn wait(&self, claim: &Claim, busy: &Busy) -> impl Future<Output = Result<Wake>> + Send {
        self.next_wake(claim, busy)
    }

    fn renew(&self, claims: &[Arc<Claim>]) -> impl Future<Output = Vec<Result<Renewal>>> + Send {
        self.renew_each(claims)
    }

    /// The server pushes nothing about held claims.
    async fn lost_hints(&self) -> Vec<ClaimId> {
        std::future::pending().await
    }

    fn release(&self, claim: &Claim) -> impl Future<Output = Result<Released>> + Send {
        self.release_or_leave(claim)
    }

    fn inspect(&self, filter: &Filter) -> impl Future<Output = Result<Vec<LockState>>> + Send {
        self.inspect_locks(filter)
    }

    fn revoke(&self, lock: &LockState, how: Revoke) -> impl Future<Output = Result<Revoked>> + Send {
        self.revoke_holders(lock, how, false)
    }

    fn cells(&self) -> Option<SharedCells> {
        Some(SharedCells::new(self.clone()))
    }
}

/// Milliseconds, as commands take them.
fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
