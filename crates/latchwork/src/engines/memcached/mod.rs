//! `memcached://`: an advisory lock on servers that forget.
//!
//! Of all who `add` a key, one does; it expires by itself. Whoever renews or releases names the CAS id that its value
//! has, so nobody touches what another stored. CAS ids begin at 1 again with every start of a server: one is used only
//! on connections to the server's life in which it was learned, and otherwise the value is read first. There are no
//! tokens, no queue, and no news; a server that is restarted, flushed or out of memory loses locks.

mod connection;
mod greeting;
mod keys;
mod options;
mod renew;
mod server;
mod value;
mod wire;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::task::JoinSet;

use self::connection::Connection;
use self::options::Options;
use self::renew::changes;
use self::server::Server;
use self::value::Whose;
use self::wire::{Item, Reply, Requests, expiry};
use crate::clock::Clock;
use crate::engine::{
    Busy, Claim, ClaimId, Engine, EngineUrl, Filter, Grant, Lifetime, LockState, Mode, Released, Renewal,
    Revoke, Revoked, SharedCells, Valid, Verdict, Wake,
};
use crate::engines::quarantine::{QuarantinePolicy, quarantined};
use crate::names::BuildIdentityHasher;
use crate::poison::lock_ignoring_poison;
use crate::{Effect, Error, ErrorKind, Faults, Guarantees, LockName, Promise, Result};

/// Who finds a lock taken asks again so soon, and then half as often each time.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(250);

/// The memcached engine: one client's session with its servers.
#[derive(Clone)]
pub struct Memcached {
    shared: Arc<Shared>,
}

struct Shared {
    servers: Vec<Arc<Server>>,
    prefix: String,
    rule: (QuarantinePolicy, Duration),
    /// Their ids are random, which is all that a hash is for.
    claims: Mutex<HashMap<ClaimId, Standing, BuildIdentityHasher>>,
}

/// What is known of a claim.
#[derive(Clone, Copy, Default)]
struct Standing {
    /// The CAS id of its value, and the server's life in which it was learned.
    cas: Option<(ClaimId, u64)>,
    /// How often it was asked for in vain.
    vainly: u32,
}

impl Shared {
    fn key(&self, name: &LockName) -> String {
        keys::key_of(&self.prefix, name)
    }

    /// Which server has this key, by its place in the list.
    fn at(&self, key: &str) -> usize {
        keys::server_of(self.servers.iter().map(|server| server.place.text.as_str()), key)
    }

    /// The CAS id of a claim, if it means something on this connection.
    fn cas(&self, id: ClaimId, connection: &Connection) -> Option<u64> {
        let (life, cas) = lock_ignoring_poison(&self.claims).get(&id)?.cas?;
        (life == connection.life).then_some(cas)
    }

    /// Its value was stored. Nothing is remembered of a claim that was released.
    fn learned(&self, id: ClaimId, connection: &Connection, cas: u64) {
        if let Some(standing) = lock_ignoring_poison(&self.claims).get_mut(&id) {
            standing.cas = Some((connection.life, cas));
        }
    }

    fn vainly(&self, id: ClaimId) -> u32 {
        lock_ignoring_poison(&self.claims).get(&id).map_or(0, |standing| standing.vainly)
    }
}

impl Memcached {
    /// Connects to the servers that `url` names. See `docs/engines/memcached.md` for the options.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for an option it does not know, [`ErrorKind::Unreachable`] if none of the servers can be
    /// reached (or its certificate not trusted), [`ErrorKind::Unsupported`] or [`ErrorKind::Denied`] if one cannot be used.
    pub async fn connect(url: &EngineUrl) -> Result<Self> {
        let Options { places, prefix, quarantine, max_ttl } = Options::of(url)?;
        let rule = (quarantine, max_ttl);
        let servers = places.into_iter().map(|place| Arc::new(Server::new(place, rule))).collect();
        let engine = Self { shared: Arc::new(Shared { servers, prefix, rule, claims: Mutex::default() }) };
        engine.meet().await?;
        Ok(engine)
    }

    /// Connects to all servers. Those that cannot be reached now may be later; their locks wait for that.
    async fn meet(&self) -> Result<()> {
        let mut meeting = JoinSet::new();
        for server in &self.shared.servers {
            let server = server.clone();
            meeting.spawn(async move { server.connection().await.map(drop) });
        }
        let (mut met, mut missed) = (0, None);
        while let Some(answer) = meeting.join_next().await {
            match answer.unwrap_or_else(|_| Err(interrupted())) {
                Ok(()) => met += 1,
                Err(error) if error.kind() == ErrorKind::Unreachable => missed = Some(error),
                Err(error) => return Err(error),
            }
        }
        missed.filter(|_| met == 0).map_or(Ok(()), Err)
    }

    pub(crate) fn promises() -> Guarantees {
        promises((QuarantinePolicy::Auto, Duration::from_secs(60)), Vec::new())
    }

    /// The key of a lock, the server that has it, and a connection to it.
    async fn place(&self, name: &LockName) -> Result<(String, &Server, Arc<Connection>)> {
        let key = self.shared.key(name);
        let server = &*self.shared.servers[self.shared.at(&key)];
        let connection = server.connection().await?;
        Ok((key, server, connection))
    }

    /// What stands at a key. Looking changes nothing.
    async fn look(&self, connection: &Connection, key: &str) -> Result<Option<Item>> {
        item(connection, connection.ask(Requests::glance(key)).await)
    }

    fn granted(&self, claim: &Claim, connection: &Connection, cas: u64) -> Verdict {
        let mut claims = lock_ignoring_poison(&self.shared.claims);
        claims.entry(claim.id).or_default().cas = Some((connection.life, cas));
        Verdict::Granted(Grant { token: None, valid: Valid::For(claim.ttl) })
    }

    /// Something stands there: this claim's own, if the reply to an earlier request was lost.
    async fn found(&self, claim: &Claim, connection: &Connection, key: &str, item: &Item) -> Result<Verdict> {
        if value::whose(&item.value, claim.id) != Whose::Mine {
            return Ok(self.busy(claim, Some(item)));
        }
        let mut again = Requests::default();
        // With its CAS id: it may expire and be taken by another before this arrives.
        again.swap(key, &value::of(claim), item.cas, expiry(claim.ttl));
        match connection.ask(again).await? {
            Reply::Done(cas) => Ok(self.granted(claim, connection, cas)),
            Reply::Changed | Reply::Missing => Ok(self.busy(claim, None)),
            reply => Err(connection.protocol_error(&reply)),
        }
    }

    fn busy(&self, claim: &Claim, item: Option<&Item>) -> Verdict {
        let mut claims = lock_ignoring_poison(&self.shared.claims);
        let vainly = match claim.wait_lease.is_zero() {
            // Nobody will release it.
            true => claims.remove(&claim.id).unwrap_or_default().vainly,
            false => {
                let standing = claims.entry(claim.id).or_default();
                standing.vainly = standing.vainly.saturating_add(1);
                standing.vainly - 1
            }
        };
        drop(claims);
        let mut busy = Busy::new(self.pause(vainly));
        busy.holder = item.map(|item| value::holder(&item.value, item.left));
        Verdict::Busy(busy)
    }

    /// Half of it is chance, or all who wait would ask at the same instants.
    fn pause(&self, vainly: u32) -> Duration {
        let longest = (FIRST_PAUSE * (1 << vainly.min(8))).min(LONGEST_PAUSE);
        let [random] = self.clock().random_bytes::<1>();
        longest / 2 + longest / 2 * u32::from(random) / 255
    }

    /// Deletes the value of this claim, and no other.
    async fn delete(
        &self,
        connection: &Connection,
        key: &str,
        id: ClaimId,
        mut known: Option<u64>,
    ) -> Result<Released> {
        // The second time if the keeper renewed it on another connection meanwhile.
        for _ in 0..2 {
            let cas = match known.take() {
                Some(cas) => cas,
                None => match self.look(connection, key).await? {
                    Some(item) if value::whose(&item.value, id) != Whose::Another => item.cas,
                    _ => return Ok(Released::NotHeld),
                },
            };
            // With its CAS id: what was read may have expired and been taken by another since.
            match connection.ask(Requests::delete(key, cas)).await? {
                Reply::Done(_) => return Ok(Released::Freed),
                Reply::Missing => return Ok(Released::NotHeld),
                Reply::Changed => {}
                reply => return Err(connection.protocol_error(&reply)),
            }
        }
        Err(changes())
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
                 quarantine=strict makes a restart exclusive; who waits asks again and again, in no order",
        warnings,
    }
}

impl Engine for Memcached {
    fn guarantees(&self) -> Guarantees {
        promises(self.shared.rule, self.shared.servers.iter().flat_map(|server| server.warnings()).collect())
    }

    fn clock(&self) -> Clock {
        Clock::boottime()
    }

    /// The same session: every runtime has connections of its own.
    async fn fork(&self) -> Result<Self> {
        Ok(self.clone())
    }

    async fn claim(&self, claim: &Claim) -> Result<Verdict> {
        if claim.mode != Mode::Exclusive || claim.lifetime != Lifetime::Lease || claim.owner.is_some() {
            let message =
                "memcached supports only plain exclusive locks with a lease: one key holds one value";
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        let (key, server, connection) = self.place(&claim.name).await?;
        if let Some(left) = server.quarantine() {
            return Ok(quarantined(&format!("memcached at {}", server.place.text), left));
        }
        // Who waits looks first: that is one round trip, too. And a server that refuses for want of memory deletes what is
        // there.
        let looks_first = self.shared.vainly(claim.id) > 0 || !connection.evicts;
        if looks_first && let Some(item) = self.look(&connection, &key).await? {
            return self.found(claim, &connection, &key, &item).await;
        }
        match connection.ask(Requests::add(&key, &value::of(claim), claim.ttl)).await? {
            Reply::Done(cas) => Ok(self.granted(claim, &connection, cas)),
            Reply::NotStored => match self.look(&connection, &key).await? {
                Some(item) => self.found(claim, &connection, &key, &item).await,
                None => Ok(self.busy(claim, None)),
            },
            reply => Err(connection.protocol_error(&reply)),
        }
    }

    /// Nobody tells anybody: the core asks again.
    async fn wait(&self, _: &Claim, _: &Busy) -> Result<Wake> {
        std::future::pending().await
    }

    async fn renew(&self, claims: &[Arc<Claim>]) -> Vec<Result<Renewal>> {
        if let [server] = &self.shared.servers[..] {
            return self.renew_on(server, claims).await;
        }
        self.renew_on_all(claims).await
    }

    /// The server says nothing of a claim that nobody asks about.
    async fn lost_hints(&self) -> Vec<ClaimId> {
        std::future::pending().await
    }

    async fn release(&self, claim: &Claim) -> Result<Released> {
        // At once: nobody may ask again, if the server stays away. A release that is repeated looks first.
        let known =
            lock_ignoring_poison(&self.shared.claims).remove(&claim.id).and_then(|standing| standing.cas);
        let (key, _, connection) = self.place(&claim.name).await?;
        let known = known.filter(|(life, _)| *life == connection.life).map(|(_, cas)| cas);
        self.delete(&connection, &key, claim.id, known).await
    }

    async fn inspect(&self, filter: &Filter) -> Result<Vec<LockState>> {
        let Filter::Name(name) = filter else {
            let message =
                "memcached cannot list its keys, and long names are stored as hashes; name the lock";
            return Err(Error::new(ErrorKind::Unsupported, message));
        };
        let (key, _, connection) = self.place(name).await?;
        let Some(item) = item(&connection, connection.glance(Requests::glance(&key)).await)? else {
            return Ok(Vec::new());
        };
        let mut state = LockState::new(name.clone());
        state.holders.push(value::holder(&item.value, item.left));
        Ok(vec![state])
    }

    async fn revoke(&self, lock: &LockState, how: Revoke) -> Result<Revoked> {
        let (key, _, connection) = self.place(&lock.name).await?;
        let Some(item) = self.look(&connection, &key).await? else { return Ok(Revoked::NotHeld) };
        let now = value::holder(&item.value, item.left);
        if !lock.holders.iter().any(|was| was.id == now.id) {
            return Ok(Revoked::NotHeld);
        }
        how.check(&now).map_err(|error| error.about(&lock.name))?;
        // With the CAS id of what was read: the lock may have moved on since.
        let request = match how {
            Revoke::Now | Revoke::NowAlsoForeign => Requests::delete(&key, item.cas),
            Revoke::AtLeaseEnd if value::is_revoked(&item.value) => return Ok(Revoked::Done),
            Revoke::AtLeaseEnd => self.mark_revoked(&key, &item)?,
        };
        match connection.ask(request).await? {
            Reply::Done(_) => Ok(Revoked::Done),
            Reply::Changed | Reply::Missing => Ok(Revoked::NotHeld),
            reply => Err(connection.protocol_error(&reply)),
        }
    }

    /// What is stored here may be gone the next moment.
    fn cells(&self) -> Option<SharedCells> {
        None
    }
}

impl Memcached {
    /// Leaves what is there for as long as it would have been, in a form that its holder cannot renew.
    fn mark_revoked(&self, key: &str, item: &Item) -> Result<Requests> {
        let Some(left) = item.left else {
            let message = "its holder set no expiry, so it would be held for ever; take it away now instead";
            return Err(Error::new(ErrorKind::Unsupported, message));
        };
        let mut mark = Requests::default();
        // At least a second: 0 is for ever.
        mark.swap(key, &value::revoked(&item.value), item.cas, left.max(1));
        Ok(mark)
    }
}

/// What a look came to. It changed nothing, whatever went wrong.
fn item(connection: &Connection, reply: Result<Reply>) -> Result<Option<Item>> {
    match reply.map_err(|error| error.with_effect(Effect::None))? {
        Reply::Item(item) => Ok(Some(item)),
        Reply::Missing => Ok(None),
        reply => Err(connection.protocol_error(&reply).with_effect(Effect::None)),
    }
}

/// A task of ours that its runtime ended.
fn interrupted() -> Error {
    Error::new(ErrorKind::Unreachable, "memcached: the runtime ended").with_effect(Effect::Unknown)
}
