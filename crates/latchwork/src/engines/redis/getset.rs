//! `scheme=getset`: the oldest recipe, with the expiry time as the value, for services that still use it.
//!
//! A claim sets the key to the end of its lease if the key is missing, or if its value is a time that has
//! passed. The clients' clocks decide: a client whose clock is ahead takes held locks, and one whose clock is
//! behind waits too long. A client that sends the three commands of the recipe one after the other moves the
//! expiry of a faster client, which this engine takes for a loss. There is no queue and no token. Keys are
//! never shared with the other schemes, whose values are no times.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::claim::{FIRST_POLL, MAX_POLL};
use super::millis;
use super::options::{Options, Scheme};
use super::script_replies::protocol_error;
use super::scripts::Script;
use super::session::Session;
use super::wire::{Command, Reply};
use crate::clock::{self, Clock};
use crate::engine::{
    Busy, Claim, ClaimId, ClaimState, Engine, EngineUrl, Filter, Foreign, Grant, Lifetime, LockState, Mode,
    Note, Released, Renewal, Revoke, Revoked, SharedCells, Valid, Verdict, Wake,
};
use crate::engines::claim_id_hex::foreign_id;
use crate::poison::lock_ignoring_poison;
use crate::{Effect, Error, ErrorKind, Faults, Guarantees, LockName, Loss, Promise, Result};

const WARNING: &str = "scheme=getset lets the clocks of all clients decide who holds: one that is ahead steals locks. It \
                       has no queue and no tokens. Use scheme=set as soon as every service that shares the lock can";

/// The notes of holders, none of which is a name.
const NO_NAME: &str = "a client that leaves no name";
const NO_TIME: &str = "a value that is no time";
const NO_VALUE: &str = "a client that is not latchwork";
/// The type of a key if the user lacks the permission for TYPE.
const UNKNOWN: &str = "key of another type";

/// The maximum number of values of one claim whose replies were lost.
const MAX_VALUES: usize = 16;

/// The engine of the GETSET recipe.
#[derive(Clone)]
pub struct GetSet {
    shared: Arc<Shared>,
}

struct Shared {
    session: Session,
    claims: Mutex<HashMap<ClaimId, SentValues>>,
}

/// The values that a claim sent.
#[derive(Clone, Default)]
struct SentValues {
    /// The values of this claim that the key may have, which is the only sign of its holder: one, and those
    /// whose replies were lost. Empty once the server replied that the key has another value: a rival's value
    /// of the same millisecond looks like our own.
    values: Vec<u64>,
    /// How often the lock was held.
    busy: u32,
}

impl SentValues {
    /// Adds a value before it is sent, so that a release after a lost reply has it.
    fn push(&mut self, value: u64) {
        self.values.push(value);
        let too_many = self.values.len().saturating_sub(MAX_VALUES);
        self.values.drain(..too_many);
    }
}

impl GetSet {
    /// Connects to the server that `url` names, with `scheme=getset`.
    ///
    /// # Errors
    /// As [`Redis::connect`](super::Redis::connect).
    pub async fn connect(url: &EngineUrl) -> Result<Self> {
        let options = Options::of(url)?;
        if options.scheme != Scheme::GetSet {
            return Err(Error::new(
                ErrorKind::Invalid,
                "this engine is for scheme=getset only; connect with Redis::connect for the others",
            ));
        }
        let shared = Shared { session: Session::new(options), claims: Mutex::default() };
        shared.session.connection().await?;
        Ok(Self { shared: Arc::new(shared) })
    }

    pub(crate) fn promises() -> Guarantees {
        Guarantees {
            engine: "redis-getset",
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
            min_ttl: Duration::from_secs(1),
            max_ttl: Duration::from_secs(24 * 60 * 60),
            ttl_option: None,
            dead_holder: "the ttl, by the waiter's clock",
            faults: Faults {
                holder_crash: Promise::Exclusive,
                holder_pause: Promise::Breaks,
                restart: Promise::Breaks,
                failover: Promise::Breaks,
                partition: Promise::Exclusive,
                clock_step: Promise::Breaks,
                data_deleted: Promise::Breaks,
            },
            beware: "for services that still use it: the clients' clocks must agree, and a client of another kind can \
                     move a holder's expiry; no tokens, so nothing else notices",
            warnings: vec![WARNING.to_owned()],
        }
    }

    fn key(&self, name: &LockName) -> String {
        [&self.shared.session.options.prefix, name.as_str()].concat()
    }

    /// Returns the values that were sent before, and adds `value`. A released claim has none.
    fn push_value(&self, id: ClaimId, value: u64) -> Vec<u64> {
        let mut claims = lock_ignoring_poison(&self.shared.claims);
        let Some(sent) = claims.get_mut(&id) else { return Vec::new() };
        let before = sent.values.clone();
        sent.push(value);
        before
    }

    /// Keeps only the value that the key has, by the server's reply, if it is this claim's.
    fn settle(&self, id: ClaimId, value: Option<u64>) {
        if let Some(sent) = lock_ignoring_poison(&self.shared.claims).get_mut(&id) {
            sent.values = value.into_iter().collect();
        }
    }

    async fn call(&self, script: Script, keys: &[String], values: &[u64]) -> Result<Reply> {
        let connection = self.shared.session.connection().await?;
        let mut command = connection.script(script, keys.len(), 64 * keys.len());
        for key in keys {
            command.arg(&key[..]);
        }
        for value in values {
            command.arg(value);
        }
        connection.call(script, command, &self.shared.session.options).await
    }

    fn busy(&self, claim: &Claim, free_in: i64) -> Busy {
        self.settle(claim.id, None);
        let mut claims = lock_ignoring_poison(&self.shared.claims);
        let sent = claims.entry(claim.id).or_default();
        let pause = (FIRST_POLL * (1 << sent.busy.min(8))).min(MAX_POLL);
        sent.busy = sent.busy.saturating_add(1);
        if claim.wait_lease.is_zero() {
            claims.remove(&claim.id);
        }
        drop(claims);
        let mut busy = Busy::new(pause);
        let mut holder = ClaimState::new(ClaimId::from_bytes([0; 16]));
        holder.note = Note::new(if free_in < 0 { NO_TIME } else { NO_NAME });
        holder.expires_in = u64::try_from(free_in).ok().map(Duration::from_millis);
        busy.holder = Some(holder);
        busy
    }
}

impl Engine for GetSet {
    fn guarantees(&self) -> Guarantees {
        Self::promises()
    }

    fn clock(&self) -> Clock {
        Clock::boottime()
    }

    async fn fork(&self) -> Result<Self> {
        Ok(self.clone())
    }

    async fn claim(&self, claim: &Claim) -> Result<Verdict> {
        if claim.mode != Mode::Exclusive || claim.lifetime != Lifetime::Lease || claim.owner.is_some() {
            let message = "scheme=getset supports only plain exclusive locks";
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        let now = wall_millis();
        let value = lease_end(now, claim);
        lock_ignoring_poison(&self.shared.claims).entry(claim.id).or_default();
        let before = self.push_value(claim.id, value);
        let values = [&[now, value], &before[..]].concat();
        let answer = self.call(Script::Claim, &[self.key(&claim.name)], &values).await;
        if answer.as_ref().is_err_and(|error| error.effect() == Effect::None) && before.is_empty() {
            // Nothing was done, so no release follows.
            lock_ignoring_poison(&self.shared.claims).remove(&claim.id);
        }
        match answer? {
            Reply::Int(-2) => {
                self.settle(claim.id, Some(value));
                Ok(Verdict::Granted(Grant { token: None, valid: Valid::For(claim.ttl) }))
            }
            Reply::Int(free_in) => Ok(Verdict::Busy(self.busy(claim, free_in))),
            _ => Err(protocol_error()),
        }
    }

    /// The server pushes nothing: the core claims again.
    async fn wait(&self, _: &Claim, _: &Busy) -> Result<Wake> {
        std::future::pending().await
    }

    async fn renew(&self, claims: &[Arc<Claim>]) -> Vec<Result<Renewal>> {
        let now = wall_millis();
        let keys: Vec<_> = claims.iter().map(|claim| self.key(&claim.name)).collect();
        let new: Vec<_> = claims.iter().map(|claim| lease_end(now, claim)).collect();
        let mut values = Vec::with_capacity(3 * claims.len());
        for (claim, new) in claims.iter().zip(&new) {
            let old = self.push_value(claim.id, *new);
            values.extend([*new, old.len() as u64]);
            values.extend(old);
        }
        let answers = match self.call(Script::Renew, &keys, &values).await {
            Ok(Reply::Array(answers)) if answers.len() == claims.len() => answers,
            Ok(_) => return claims.iter().map(|_| Err(protocol_error())).collect(),
            Err(error) => return claims.iter().map(|_| Err(error.again())).collect(),
        };
        let read = |((answer, claim), new): ((Reply, &Arc<Claim>), u64)| {
            let is_kept = answer == Reply::Int(1);
            self.settle(claim.id, is_kept.then_some(new));
            Ok(if is_kept { Renewal::Kept(Valid::For(claim.ttl)) } else { Renewal::Lost(Loss::Removed) })
        };
        answers.into_iter().zip(claims).zip(new).map(read).collect()
    }

    /// The server pushes nothing about held claims.
    async fn lost_hints(&self) -> Vec<ClaimId> {
        std::future::pending().await
    }

    async fn release(&self, claim: &Claim) -> Result<Released> {
        let sent = lock_ignoring_poison(&self.shared.claims).get(&claim.id).cloned().unwrap_or_default();
        let answer = self.call(Script::Release, &[self.key(&claim.name)], &sent.values).await?;
        lock_ignoring_poison(&self.shared.claims).remove(&claim.id);
        Ok(if answer == Reply::Int(1) { Released::Freed } else { Released::NotHeld })
    }

    async fn inspect(&self, filter: &Filter) -> Result<Vec<LockState>> {
        let Filter::Name(name) = filter else {
            let message = "the keys of scheme=getset cannot be listed; name the lock";
            return Err(Error::new(ErrorKind::Unsupported, message));
        };
        let mut state = LockState::new(name.clone());
        state.holders.extend(self.content(name).await?.and_then(|content| self.holder(&content)));
        Ok(if state.holders.is_empty() { Vec::new() } else { vec![state] })
    }

    async fn revoke(&self, lock: &LockState, how: Revoke) -> Result<Revoked> {
        let Some(content) = self.content(&lock.name).await? else { return Ok(Revoked::NotHeld) };
        let now = self.holder(&content).filter(|now| lock.holders.iter().any(|was| was.id == now.id));
        let Some(now) = now else { return Ok(Revoked::NotHeld) };
        how.check(&now).map_err(|error| error.about(&lock.name))?;
        let KeyContent::String(value) = content else { return Ok(Revoked::NotHeld) };
        if how == Revoke::AtLeaseEnd {
            let message = "scheme=getset cannot refuse a renewal; take the lock away now instead";
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        let connection = self.shared.session.connection().await?;
        let mut command = connection.script(Script::Release, 1, 128);
        command.arg(&self.key(&lock.name)[..]).arg(&value[..]);
        match connection.call(Script::Release, command, &self.shared.session.options).await? {
            Reply::Int(1) => Ok(Revoked::Done),
            _ => Ok(Revoked::NotHeld),
        }
    }

    fn cells(&self) -> Option<SharedCells> {
        None
    }
}

impl GetSet {
    async fn content(&self, name: &LockName) -> Result<Option<KeyContent>> {
        match self.send("GET", name).await {
            Ok(Reply::BulkString(value)) => Ok(Some(KeyContent::String(value))),
            Ok(_) => Ok(None),
            Err(error) if error.message().contains("WRONGTYPE") => self.other_type(name).await.map(Some),
            Err(error) => Err(error),
        }
    }

    async fn other_type(&self, name: &LockName) -> Result<KeyContent> {
        let kind = match self.send("TYPE", name).await {
            Ok(Reply::SimpleString(kind)) => kind,
            // The user lacks the permission.
            Err(error) if error.kind() == ErrorKind::Denied => UNKNOWN.to_owned(),
            Ok(_) => return Err(protocol_error()),
            Err(error) => return Err(error),
        };
        match self.send("PTTL", name).await? {
            Reply::Int(left) => {
                Ok(KeyContent::OtherType(kind, u64::try_from(left).ok().map(Duration::from_millis)))
            }
            _ => Err(protocol_error()),
        }
    }

    async fn send(&self, command: &str, name: &LockName) -> Result<Reply> {
        let (session, command) = (&self.shared.session, Command::of(&[command, &self.key(name)]));
        session.connection().await?.command(command, &session.options).await
    }

    /// The holder of a key with this content; `None` if its time has passed. All clients write times, so the
    /// claim is of this library only if this client remembers the value.
    fn holder(&self, content: &KeyContent) -> Option<ClaimState> {
        let value = match content {
            KeyContent::String(value) => &value[..],
            KeyContent::OtherType(kind, left) => {
                let mut holder = ClaimState::new(foreign_id(kind.as_bytes()));
                (holder.note, holder.expires_in) = (Note::new(NO_VALUE), *left);
                holder.foreign = Some(Box::new(Foreign::not_a_lock(kind.clone())));
                return Some(holder);
            }
        };
        let time = std::str::from_utf8(value).ok().and_then(|text| text.parse::<u64>().ok());
        let in_millis = |value: u64| if value < 100_000_000_000 { value * 1_000 } else { value };
        let left = match time {
            Some(time) => Some(in_millis(time).checked_sub(wall_millis())?),
            None => None,
        };
        let claims = lock_ignoring_poison(&self.shared.claims);
        let is_ours = |sent: &SentValues| time.is_some_and(|time| sent.values.contains(&time));
        let ours = claims.iter().find(|(_, sent)| is_ours(sent)).map(|(id, _)| *id);
        drop(claims);
        let mut holder = ClaimState::new(ours.unwrap_or_else(|| foreign_id(value)));
        holder.note = Note::new(if time.is_some() { NO_NAME } else { NO_TIME });
        holder.expires_in = left.map(Duration::from_millis);
        holder.foreign = ours.is_none().then(|| Box::new(Foreign::new("string", value)));
        Some(holder)
    }
}

/// The content of a key.
enum KeyContent {
    String(Vec<u8>),
    /// The key's type, and the time until it expires.
    OtherType(String, Option<Duration>),
}

/// The clock of this machine, by which the recipe decides.
fn wall_millis() -> u64 {
    clock::wall_micros() / 1_000
}

/// The end of a lease that begins now. Whole milliseconds, and not before the ttl has passed.
fn lease_end(now: u64, claim: &Claim) -> u64 {
    now + millis(claim.ttl) + 1
}
