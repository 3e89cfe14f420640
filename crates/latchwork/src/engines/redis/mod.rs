//! `redis://`: one Redis server, fair, pushed and fenced, on keys that other clients share.
//!
//! The lock is a plain string at its own key, as `SET NX PX` makes it, so that redis-py, redsync, node-redlock, rslock
//! and whatever else sets such keys exclude us and are excluded by us. Beside it stand a queue and the newest token. A
//! release hands the key to the first waiter that is alive, and tells that waiter's client, and nobody else. Readers, and
//! those who have permits, hold the key together and stand in a list of their own.

mod cells;
mod connection;
mod endpoint;
mod failure;
mod getset;
mod heartbeats;
mod info;
mod keys;
mod options;
mod push;
mod record;
mod redlock;
mod reply;
mod scripts;
mod session;
mod shared_claims;
mod wire;

use std::sync::Arc;
use std::time::Duration;

use self::connection::Connection;
use self::heartbeats::Due;
use self::keys::Keys;
use self::options::{Options, Scheme};
use self::scripts::Script;
use self::session::Session;
use self::wire::{Arg, Command, Value};
use crate::clock::Clock;
use crate::engine::{
    Busy, Claim, ClaimId, Engine, EngineUrl, Filter, Grant, Lifetime, LockState, Mode, Released, Renewal,
    Revoke, Revoked, SharedCells, Valid, Verdict, Wake,
};
use crate::engines::quarantine::{QuarantinePolicy, quarantined};
use crate::engines::waiter_table::Notification;
use crate::net::per_runtime::Closable as _;
use crate::{Client, Error, ErrorKind, Faults, Guarantees, LockName, Promise, Result};

pub use self::getset::GetSet;
pub use self::redlock::Redlock;

/// How many locks are asked about in one go.
const INSPECT_BATCH: usize = 20;
/// How many waiters of one lock are shown.
const WAITERS_SHOWN: usize = 1_000;
/// The first waiter behind a holder that will tell nobody looks so soon, and then half as often each time.
const SILENT_FIRST: Duration = Duration::from_millis(25);
const SILENT_LONGEST: Duration = Duration::from_millis(250);

/// The Redis engine: one client's session with one server.
#[derive(Clone)]
pub struct Redis {
    session: Arc<Session>,
}

/// A client of whichever scheme `url` names.
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
    /// [`ErrorKind::Invalid`] for an option it does not know, [`ErrorKind::Unreachable`] if the server cannot be
    /// reached (or its certificate not trusted), [`ErrorKind::Denied`] if it refuses the user.
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
        promises(Scheme::Set, Duration::from_secs(60), QuarantinePolicy::Auto, Vec::new())
    }

    fn options(&self) -> &Options {
        &self.session.options
    }

    /// Starts a call of `script` on one lock: its four keys, and the claim.
    fn call_on(&self, connection: &Connection, script: Script, keys: Keys<'_>) -> Command {
        let mut command = connection.script(script, 4, keys.bytes() + 320);
        keys.write(&mut command);
        command
    }

    async fn claim_now(&self, connection: &Connection, claim: &Claim, keys: Keys<'_>) -> Result<Verdict> {
        let (options, script) = (self.options(), shared_claims::claims_by(claim.mode));
        let mut command = self.call_on(connection, script, keys);
        command
            .arg(&record::encode_id(claim.id)[..])
            .arg(&record::Tail(claim, self.session.mark()))
            .arg(&millis(claim.ttl))
            .arg(&millis(wait_lease(claim)));
        match reply::claimed(connection.call(script, command, options).await?)? {
            reply::Claimed::Granted(token) => {
                Ok(Verdict::Granted(Grant { token: Some(token), valid: Valid::For(claim.ttl) }))
            }
            reply::Claimed::Busy(state) => {
                if state.place == Some(0) && (state.has_silent_holder() || state.is_left_to_others()) {
                    Box::pin(self.watch(connection, claim, keys, &state)).await;
                }
                Ok(Verdict::Busy(self.busy(claim, &state)))
            }
            reply::Claimed::Full => {
                let most = options.max_waiters;
                let message =
                    format!("{most} clients wait for this lock already; max-waiters= in the URL allows more");
                Err(Error::new(ErrorKind::Unreachable, message))
            }
            reply::Claimed::OtherNumber(named) => {
                claim.mode.same_number([Mode::Permit { of: named }])?;
                Err(reply::protocol_error())
            }
        }
    }

    /// Lets the server tell the first in line what clients do that tell nobody.
    async fn watch(&self, connection: &Connection, claim: &Claim, keys: Keys<'_>, state: &reply::State) {
        let waiters = &self.session.waiters;
        let holder = keys.holder();
        waiters.watch(claim.id, &holder);
        // Between the claim and this it may have changed.
        if connection.watch(&holder).await == Some(state.is_left_to_others()) {
            waiters.deliver(claim.id, Notification::Recheck);
        }
    }

    /// A claim that waits already, of a client that waits for several locks: one request says for all that they are
    /// still there.
    async fn beat(&self, connection: &Connection, claim: &Claim, keys: Keys<'_>) -> Result<Verdict> {
        let (due, answered) = connection.heartbeats.join(claim, self.session.waiters.waiting()).await;
        self.send_beats(connection, due).await;
        match answered.await {
            Ok(Some(state)) => Ok(Verdict::Busy(self.busy(claim, &state))),
            _ => self.claim_now(connection, claim, keys).await,
        }
    }

    async fn send_beats(&self, connection: &Connection, mut due: Vec<Due>) {
        while !due.is_empty() {
            let rest = due.split_off(due.len().min(heartbeats::MOST));
            // What went wrong, each finds out for itself.
            if let Ok(states) = self.ask_beats(connection, &due).await {
                due.into_iter().zip(states).for_each(|(due, state)| drop(due.answer.send(state)));
            }
            due = rest;
        }
    }

    async fn ask_beats(&self, connection: &Connection, due: &[Due]) -> Result<Vec<Option<reply::State>>> {
        let mut command = connection.script(Script::Beat, 4 * due.len(), 512 * due.len());
        for due in due {
            Keys::of(&self.options().prefix, &due.claim.name)?.write(&mut command);
        }
        for Due { claim, .. } in due {
            let tail = record::Tail(claim, self.session.mark());
            command.arg(&record::encode_id(claim.id)[..]).arg(&tail).arg(&millis(wait_lease(claim)));
        }
        reply::heartbeats(connection.call(Script::Beat, command, self.options()).await?, due.len())
    }

    /// When a waiter gives its next sign of life: those of one client at the same ticks, so that they go together.
    fn next_beat(&self, claim: &Claim) -> Duration {
        let beat = wait_lease(claim) / 3;
        match self.session.waiters.waiting() {
            0 | 1 => beat,
            2.. => {
                let (now, tick) = (self.clock().now().as_micros(), (beat.as_micros() as u64).max(1));
                Duration::from_micros(tick - now % tick)
            }
        }
    }

    fn busy(&self, claim: &Claim, state: &reply::State) -> Busy {
        let beat = self.next_beat(claim);
        let is_silent = state.has_silent_holder();
        let met = self.session.waiters.count_silent_holder(claim.id, is_silent);
        // Only the first in line has to look for itself: a dead holder tells nobody, and others are told.
        let again_in = match (state.place, u64::try_from(state.free_in)) {
            (Some(0), _) if is_silent => {
                (SILENT_FIRST * (1 << met.saturating_sub(1).min(8))).min(SILENT_LONGEST).min(beat)
            }
            (Some(0), Ok(free_in)) => beat.min(Duration::from_millis(free_in + 1)),
            // Free, and more of the dead before it than one call clears away.
            (Some(_), _) if state.is_left_to_others() && self.options().gap.is_zero() => {
                Duration::from_millis(1)
            }
            _ => beat,
        };
        let mut busy = Busy::new(again_in);
        busy.holder = state.holder();
        busy.position = state.place.map(|place| place + state.holders());
        busy.floor = record::token(&state.fence);
        busy
    }

    async fn lock_states(&self, connection: &Connection, names: &[LockName]) -> Result<Vec<LockState>> {
        let mut states = Vec::new();
        for names in names.chunks(INSPECT_BATCH) {
            for (name, seen) in names.iter().zip(self.look_at(connection, names, WAITERS_SHOWN).await?) {
                let mut state = LockState::new(name.clone());
                state.holders = seen.holders();
                state.waiters = seen.waiters;
                if !(state.holders.is_empty() && state.waiters.is_empty()) {
                    states.push(state);
                }
            }
        }
        Ok(states)
    }

    async fn look_at(
        &self,
        connection: &Connection,
        names: &[LockName],
        waiters: usize,
    ) -> Result<Vec<reply::Seen>> {
        let mut command = connection.script(Script::Inspect, 4 * names.len(), 256 * names.len());
        for name in names {
            Keys::of(&self.options().prefix, name)?.write(&mut command);
        }
        command.arg(&(waiters as u64));
        reply::inspected(connection.call(Script::Inspect, command, self.options()).await?, names.len())
    }

    /// Every lock that ever had a token in the last day, found in steps: the server is never stopped to list its keys.
    async fn names(&self, connection: &Connection, filter: &Filter) -> Result<Vec<LockName>> {
        let (mut names, mut cursor) = (Vec::new(), "0".to_owned());
        loop {
            let scan = Command::of(&["SCAN", &cursor, "MATCH", &Keys::fence_pattern(), "COUNT", "1000"]);
            let (next, fences) = reply::scanned(connection.command(scan, self.options()).await?)?;
            let found = fences.iter().filter_map(|fence| Keys::name_of(&self.options().prefix, fence));
            names.extend(found.filter(|name| filter.matches(name)));
            cursor = next;
            if cursor == "0" {
                names.sort();
                names.dedup();
                return Ok(names);
            }
        }
    }
}

fn promises(
    scheme: Scheme,
    max_ttl: Duration,
    quarantine: QuarantinePolicy,
    warnings: Vec<String>,
) -> Guarantees {
    let shares = scheme == Scheme::Set;
    Guarantees {
        engine: if shares { "redis" } else { "redis-setnx" },
        tokens: Some("max(counter + 1, server time in us)"),
        tokens_survive_data_loss: true,
        fair: true,
        lists_waiters: true,
        pushes: true,
        tells_losses: false,
        tells_revocations: true,
        lives_with_session: false,
        read_write: shares,
        permits: shares,
        cells: true,
        watchers_told: "at once",
        takes_over: true,
        survives_blocked_runtime: true,
        outlives_wrapper: false,
        min_ttl: Duration::from_millis(100),
        max_ttl,
        ttl_option: Some("max-ttl"),
        dead_holder: "the ttl; if waiters died too, up to 4 s more",
        faults: Faults {
            holder_crash: Promise::Exclusive,
            holder_pause: Promise::FencedOnly,
            restart: match quarantine {
                QuarantinePolicy::Strict => Promise::Exclusive,
                QuarantinePolicy::Auto | QuarantinePolicy::Off => Promise::FencedOnly,
            },
            failover: Promise::FencedOnly,
            partition: Promise::Exclusive,
            clock_step: Promise::FencedOnly,
            data_deleted: Promise::FencedOnly,
        },
        beware: "evicts locks unless maxmemory-policy is noeviction; quarantine=strict makes a restart exclusive",
        warnings,
    }
}

impl Engine for Redis {
    fn guarantees(&self) -> Guarantees {
        let options = self.options();
        promises(options.scheme, options.max_ttl, options.quarantine, self.session.warnings())
    }

    fn clock(&self) -> Clock {
        Clock::boottime()
    }

    /// The same session: every runtime has a connection of its own.
    async fn fork(&self) -> Result<Self> {
        Ok(self.clone())
    }

    async fn claim(&self, claim: &Claim) -> Result<Verdict> {
        if claim.lifetime != Lifetime::Lease {
            return Err(Error::new(ErrorKind::Unsupported, "redis supports only claims with a lease"));
        }
        if claim.mode != Mode::Exclusive && self.options().scheme != Scheme::Set {
            let message = "scheme=setnx supports only exclusive locks; scheme=set uses the same keys and supports all kinds";
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        let keys = Keys::of(&self.options().prefix, &claim.name)?;
        let waits = !claim.wait_lease.is_zero();
        let connection = match waits {
            true => self.session.listening_link().await?,
            false => self.session.connection().await?,
        };
        if shared_claims::is_shared(claim.mode) {
            Box::pin(connection.learn_to_share(self.options())).await?;
        }
        // Before anything is answered: who is not expected is told to look again, at once and for ever.
        let was_waiting = waits && self.session.waiters.expect(claim.id);
        if let Some(left) = self.session.quarantine() {
            return Ok(quarantined(&format!("redis at {}", self.options().place), left));
        }
        let verdict = match was_waiting && self.session.waiters.waiting() > 1 {
            // Boxed, or every claim would carry about what few need.
            true => Box::pin(self.beat(&connection, claim, keys)).await,
            false => self.claim_now(&connection, claim, keys).await,
        };
        match verdict {
            // Maybe it was left before this claim was expected, which then was not told: it asks again, by one that listens.
            Ok(Verdict::Busy(_)) if waits && connection.is_closed() => {
                self.session.waiters.deliver(claim.id, Notification::Recheck);
            }
            Ok(Verdict::Busy(_)) => {}
            _ if waits => self.session.waiters.forget(claim.id),
            _ => {}
        }
        verdict
    }

    async fn wait(&self, claim: &Claim, busy: &Busy) -> Result<Wake> {
        loop {
            match self.session.waiters.next(claim.id).await {
                Notification::Recheck => return Ok(Wake::Recheck),
                // The server counts the wait lease from the newest claim it answered, and so does the core.
                Notification::Granted(token) if Some(token) > busy.floor => {
                    self.session.waiters.forget(claim.id);
                    let grant = Grant { token: Some(token), valid: Valid::For(wait_lease(claim)) };
                    return Ok(Wake::Granted(grant));
                }
                // Old news, read after a pause: the lock was given to others since.
                Notification::Granted(_) => {}
            }
        }
    }

    async fn renew(&self, claims: &[Arc<Claim>]) -> Vec<Result<Renewal>> {
        if claims.iter().any(|claim| shared_claims::is_shared(claim.mode)) {
            return Box::pin(self.renew_mixed(claims)).await;
        }
        each(claims, self.renew_all(claims).await)
    }

    /// The server says nothing of a claim that nobody asks about.
    async fn lost_hints(&self) -> Vec<ClaimId> {
        std::future::pending().await
    }

    async fn release(&self, claim: &Claim) -> Result<Released> {
        self.session.waiters.forget(claim.id);
        let keys = Keys::of(&self.options().prefix, &claim.name)?;
        let connection = self.session.connection().await?;
        let tail = record::Tail(claim, self.session.mark());
        let script = shared_claims::releases_by(claim.mode);
        if shared_claims::is_shared(claim.mode) {
            Box::pin(connection.learn_to_share(self.options())).await?;
        }
        self.release_value(&connection, script, keys, &record::encode_id(claim.id), &tail).await
    }

    async fn inspect(&self, filter: &Filter) -> Result<Vec<LockState>> {
        let connection = self.session.connection().await?;
        let names = match filter {
            Filter::Name(name) => vec![name.clone()],
            Filter::Prefix(_) => self.names(&connection, filter).await?,
        };
        self.lock_states(&connection, &names).await
    }

    async fn revoke(&self, lock: &LockState, how: Revoke) -> Result<Revoked> {
        self.take_away(lock, how, false).await
    }

    fn cells(&self) -> Option<SharedCells> {
        Some(SharedCells::new(self.clone()))
    }
}

impl Redis {
    /// Takes the lock away from the holders named in `lock`. `known_as_ours`: a majority of masters says that they
    /// are, which one of them alone may not know.
    async fn take_away(&self, lock: &LockState, how: Revoke, known_as_ours: bool) -> Result<Revoked> {
        let (keys, connection) =
            (Keys::of(&self.options().prefix, &lock.name)?, self.session.connection().await?);
        // Once for all: the scripts look for themselves whether whom they take it from still holds.
        let seen =
            self.look_at(&connection, std::slice::from_ref(&lock.name), WAITERS_SHOWN).await?.remove(0);
        let is_shared = record::shared_as(&seen.state.value).is_some();
        if let Some(holder) = seen.state.holder()
            && !is_shared
            && !known_as_ours
            && lock.holders.iter().any(|named| named.id == holder.id)
        {
            how.check(&holder).map_err(|error| error.about(&lock.name))?;
        }
        let mut done = Revoked::NotHeld;
        for holder in &lock.holders {
            let revoked = match (seen.sharer(holder.id), how) {
                (Some(member), how) => self.revoke_shared(&connection, keys, member, how).await?,
                // It has left those who hold together, who are not to be disturbed. The newest grant may still name it.
                (None, _) if is_shared => false,
                (None, _) if seen.state.holder().is_none_or(|seen| seen.id != holder.id) => false,
                // The script deletes the value that was looked at, and no other.
                (None, Revoke::Now | Revoke::NowAlsoForeign) => {
                    if seen.state.holder().is_some_and(|seen| seen.foreign.is_none()) || known_as_ours {
                        // Before the lock is free, or the holder's renewal could come in between.
                        self.revoke_value(&connection, keys, seen.value(), Some(holder.id)).await?;
                    }
                    let released =
                        self.release_value(&connection, Script::Release, keys, seen.value(), "\n").await?;
                    released == Released::Freed
                }
                (None, Revoke::AtLeaseEnd) => {
                    self.revoke_value(&connection, keys, seen.value(), None).await?
                }
            };
            if revoked {
                done = Revoked::Done;
            }
        }
        Ok(done)
    }

    async fn renew_all(&self, claims: &[Arc<Claim>]) -> Result<Vec<Renewal>> {
        let values: Vec<_> = claims.iter().map(|claim| record::encode_id(claim.id)).collect();
        self.renew_values(claims, &values).await
    }

    /// The same for claims of which these values stand in the shared keys.
    async fn renew_values(&self, claims: &[Arc<Claim>], values: &[impl AsRef<[u8]>]) -> Result<Vec<Renewal>> {
        let (options, connection) = (self.options(), self.session.connection().await?);
        let keys =
            claims.iter().map(|claim| Keys::of(&options.prefix, &claim.name)).collect::<Result<Vec<_>>>()?;
        let mut command = connection.script(Script::Renew, 2 * claims.len(), 160 * claims.len());
        keys.iter().for_each(|keys| keys.write_holder(&mut command));
        keys.iter().for_each(|keys| keys.write_fence(&mut command));
        for value in values {
            command.arg(value.as_ref());
        }
        for claim in claims {
            command.arg(&millis(claim.ttl));
        }
        reply::renewed(connection.call(Script::Renew, command, options).await?, claims)
    }

    async fn release_value(
        &self,
        connection: &Connection,
        script: Script,
        keys: Keys<'_>,
        value: &[u8],
        tail: &(impl Arg + ?Sized),
    ) -> Result<Released> {
        let mut command = self.call_on(connection, script, keys);
        command.arg(value).arg(tail);
        match connection.call(script, command, self.options()).await? {
            Value::Int(0) => Ok(Released::NotHeld),
            Value::Int(_) => Ok(Released::Freed),
            _ => Err(reply::protocol_error()),
        }
    }

    /// Refuses the holder's renewals. `at_once`: its id, if its lock is released next; that only leaves the word
    /// for it.
    async fn revoke_value(
        &self,
        connection: &Connection,
        keys: Keys<'_>,
        value: &[u8],
        at_once: Option<ClaimId>,
    ) -> Result<bool> {
        let mut command = connection.script(Script::Revoke, 2, 256);
        keys.write_holder(&mut command);
        keys.write_waiters(&mut command);
        command.arg(value);
        if let Some(id) = at_once {
            command.arg(&record::encode_id(id)[..]);
        }
        match connection.call(Script::Revoke, command, self.options()).await? {
            Value::Int(-1) => {
                let message =
                    "its holder set no expiry, so it would be held for ever; take it away now instead";
                Err(Error::new(ErrorKind::Unsupported, message))
            }
            Value::Int(done) => Ok(done == 1),
            _ => Err(reply::protocol_error()),
        }
    }
}

/// The answers to one request for all of these claims.
fn each(claims: &[Arc<Claim>], answers: Result<Vec<Renewal>>) -> Vec<Result<Renewal>> {
    match answers {
        Ok(answers) => answers.into_iter().map(Ok).collect(),
        Err(error) => claims.iter().map(|_| Err(error.again())).collect(),
    }
}

/// How long a place in the queue outlives its last sign of life. The scripts count on the limit.
fn wait_lease(claim: &Claim) -> Duration {
    claim.wait_lease.min(Duration::from_secs(15))
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
