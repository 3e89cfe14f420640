//! `scheme=getset`: the oldest recipe, with the expiry time as the value, for services that still use it.
//!
//! Clients' clocks decide who holds: one that is ahead steals, one that is behind waits too long. A client that runs the
//! recipe's three commands one after the other moves the expiry of whoever was faster, which this engine takes for a
//! loss. There is no queue and no token. It never shares a key with the other schemes: their values are no times.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::options::{Options, Scheme};
use super::scripts::Script;
use super::session::Session;
use super::wire::{Command, Value};
use super::{SILENT_FIRST, SILENT_LONGEST, millis, reply};
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

/// Notes of holders that leave no name.
const NO_NAME: &str = "a client that leaves no name";
const NO_TIME: &str = "a value that is no time";
const NO_VALUE: &str = "a client that is not latchwork";
/// The type of a key whose type this user may not ask.
const UNKNOWN: &str = "key of another type";

/// How many values of one claim are remembered, for want of a reply.
const MOST_VALUES: usize = 16;

/// The engine of the GETSET recipe.
#[derive(Clone)]
pub struct GetSet {
    shared: Arc<Shared>,
}

struct Shared {
    session: Session,
    claims: Mutex<HashMap<ClaimId, Asked>>,
}

/// What a claim asked for.
#[derive(Clone, Default)]
struct Asked {
    /// The values of this claim that may stand in the key, which is all that says whose it is: one, or also those whose
    /// replies were lost. None once the server said that another's stands there: that of a rival who asked in the same
    /// millisecond looks like our own.
    values: Vec<u64>,
    /// How often it was asked in vain.
    vainly: u32,
}

impl Asked {
    /// A value that is about to be sent: a lost reply must not make the release forget it.
    fn sends(&mut self, value: u64) {
        self.values.push(value);
        let too_many = self.values.len().saturating_sub(MOST_VALUES);
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

    /// What was asked for so far; and `value` is asked for next. Nothing is remembered of a claim that was released.
    fn asks(&self, id: ClaimId, value: u64) -> Vec<u64> {
        let mut claims = lock_ignoring_poison(&self.shared.claims);
        let Some(asked) = claims.get_mut(&id) else { return Vec::new() };
        let before = asked.values.clone();
        asked.sends(value);
        before
    }

    /// The server said which value of this claim stands in the key, if any does.
    fn answered(&self, id: ClaimId, value: Option<u64>) {
        if let Some(asked) = lock_ignoring_poison(&self.shared.claims).get_mut(&id) {
            asked.values = value.into_iter().collect();
        }
    }

    async fn call(&self, script: Script, keys: &[String], values: &[u64]) -> Result<Value> {
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
        self.answered(claim.id, None);
        let mut claims = lock_ignoring_poison(&self.shared.claims);
        let asked = claims.entry(claim.id).or_default();
        let pause = (SILENT_FIRST * (1 << asked.vainly.min(8))).min(SILENT_LONGEST);
        asked.vainly = asked.vainly.saturating_add(1);
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
        let value = ends(now, claim);
        lock_ignoring_poison(&self.shared.claims).entry(claim.id).or_default();
        let before = self.asks(claim.id, value);
        let values = [&[now, value], &before[..]].concat();
        let answer = self.call(Script::Claim, &[self.key(&claim.name)], &values).await;
        if answer.as_ref().is_err_and(|error| error.effect() == Effect::None) && before.is_empty() {
            // Nothing was done, so nobody will release it.
            lock_ignoring_poison(&self.shared.claims).remove(&claim.id);
        }
        match answer? {
            Value::Int(-2) => {
                self.answered(claim.id, Some(value));
                Ok(Verdict::Granted(Grant { token: None, valid: Valid::For(claim.ttl) }))
            }
            Value::Int(free_in) => Ok(Verdict::Busy(self.busy(claim, free_in))),
            _ => Err(reply::protocol_error()),
        }
    }

    /// Nobody tells anybody: the core asks again.
    async fn wait(&self, _: &Claim, _: &Busy) -> Result<Wake> {
        std::future::pending().await
    }

    async fn renew(&self, claims: &[Arc<Claim>]) -> Vec<Result<Renewal>> {
        let now = wall_millis();
        let keys: Vec<_> = claims.iter().map(|claim| self.key(&claim.name)).collect();
        let new: Vec<_> = claims.iter().map(|claim| ends(now, claim)).collect();
        let mut values = Vec::with_capacity(3 * claims.len());
        for (claim, new) in claims.iter().zip(&new) {
            let old = self.asks(claim.id, *new);
            values.extend([*new, old.len() as u64]);
            values.extend(old);
        }
        let answers = match self.call(Script::Renew, &keys, &values).await {
            Ok(Value::Array(answers)) if answers.len() == claims.len() => answers,
            Ok(_) => return claims.iter().map(|_| Err(reply::protocol_error())).collect(),
            Err(error) => return claims.iter().map(|_| Err(error.again())).collect(),
        };
        let read = |((answer, claim), new): ((Value, &Arc<Claim>), u64)| {
            let is_kept = answer == Value::Int(1);
            self.answered(claim.id, is_kept.then_some(new));
            Ok(if is_kept { Renewal::Kept(Valid::For(claim.ttl)) } else { Renewal::Lost(Loss::Removed) })
        };
        answers.into_iter().zip(claims).zip(new).map(read).collect()
    }

    /// The server says nothing of a claim that nobody asks about.
    async fn lost_hints(&self) -> Vec<ClaimId> {
        std::future::pending().await
    }

    async fn release(&self, claim: &Claim) -> Result<Released> {
        let asked = lock_ignoring_poison(&self.shared.claims).get(&claim.id).cloned().unwrap_or_default();
        let answer = self.call(Script::Release, &[self.key(&claim.name)], &asked.values).await?;
        lock_ignoring_poison(&self.shared.claims).remove(&claim.id);
        Ok(if answer == Value::Int(1) { Released::Freed } else { Released::NotHeld })
    }

    async fn inspect(&self, filter: &Filter) -> Result<Vec<LockState>> {
        let Filter::Name(name) = filter else {
            let message = "the keys of scheme=getset cannot be listed; name the lock";
            return Err(Error::new(ErrorKind::Unsupported, message));
        };
        let mut state = LockState::new(name.clone());
        state.holders.extend(self.found(name).await?.and_then(|found| self.holder(&found)));
        Ok(if state.holders.is_empty() { Vec::new() } else { vec![state] })
    }

    async fn revoke(&self, lock: &LockState, how: Revoke) -> Result<Revoked> {
        let Some(found) = self.found(&lock.name).await? else { return Ok(Revoked::NotHeld) };
        let now = self.holder(&found).filter(|now| lock.holders.iter().any(|was| was.id == now.id));
        let Some(now) = now else { return Ok(Revoked::NotHeld) };
        how.check(&now).map_err(|error| error.about(&lock.name))?;
        let Found::Value(value) = found else { return Ok(Revoked::NotHeld) };
        if how == Revoke::AtLeaseEnd {
            let message = "scheme=getset cannot refuse a renewal; take the lock away now instead";
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        let connection = self.shared.session.connection().await?;
        let mut command = connection.script(Script::Release, 1, 128);
        command.arg(&self.key(&lock.name)[..]).arg(&value[..]);
        match connection.call(Script::Release, command, &self.shared.session.options).await? {
            Value::Int(1) => Ok(Revoked::Done),
            _ => Ok(Revoked::NotHeld),
        }
    }

    fn cells(&self) -> Option<SharedCells> {
        None
    }
}

impl GetSet {
    /// The value of the key.
    async fn found(&self, name: &LockName) -> Result<Option<Found>> {
        match self.ask("GET", name).await {
            Ok(Value::BulkString(value)) => Ok(Some(Found::Value(value))),
            Ok(_) => Ok(None),
            Err(error) if error.message().contains("WRONGTYPE") => self.other(name).await.map(Some),
            Err(error) => Err(error),
        }
    }

    /// A key that is no string.
    async fn other(&self, name: &LockName) -> Result<Found> {
        let kind = match self.ask("TYPE", name).await {
            Ok(Value::Status(kind)) => kind,
            // The user may not ask.
            Err(error) if error.kind() == ErrorKind::Denied => UNKNOWN.to_owned(),
            Ok(_) => return Err(reply::protocol_error()),
            Err(error) => return Err(error),
        };
        match self.ask("PTTL", name).await? {
            Value::Int(left) => Ok(Found::Other(kind, u64::try_from(left).ok().map(Duration::from_millis))),
            _ => Err(reply::protocol_error()),
        }
    }

    async fn ask(&self, command: &str, name: &LockName) -> Result<Value> {
        let (session, command) = (&self.shared.session, Command::of(&[command, &self.key(name)]));
        session.connection().await?.command(command, &session.options).await
    }

    /// The holder, if this is what stands in the key. `None` if its time has come. All clients write times,
    /// so it is a claim of ours only if this client remembers that it wrote it.
    fn holder(&self, found: &Found) -> Option<ClaimState> {
        let value = match found {
            Found::Value(value) => &value[..],
            Found::Other(kind, left) => {
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
        let is_ours = |asked: &Asked| time.is_some_and(|time| asked.values.contains(&time));
        let ours = claims.iter().find(|(_, asked)| is_ours(asked)).map(|(id, _)| *id);
        drop(claims);
        let mut holder = ClaimState::new(ours.unwrap_or_else(|| foreign_id(value)));
        holder.note = Note::new(if time.is_some() { NO_NAME } else { NO_TIME });
        holder.expires_in = left.map(Duration::from_millis);
        holder.foreign = ours.is_none().then(|| Box::new(Foreign::new("string", value)));
        Some(holder)
    }
}

/// The value of a key.
enum Found {
    Value(Vec<u8>),
    /// Of another type, and when it expires.
    Other(String, Option<Duration>),
}

/// The clients' own clock, which is what this recipe is about.
fn wall_millis() -> u64 {
    clock::wall_micros() / 1_000
}

/// When a lease that begins now ends: not before the ttl is over, though both are told in whole milliseconds.
fn ends(now: u64, claim: &Claim) -> u64 {
    now + millis(claim.ttl) + 1
}
