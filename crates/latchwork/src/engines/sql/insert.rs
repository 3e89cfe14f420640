//! `scheme=insert`: whoever inserts the row of a lock holds it, in a table that other services use by plain SQL.
//!
//! The table has a unique `unique_mutex`, a `holder_id` and a `create_time`, and room for nothing else. A row is over when it is older
//! than an age that all agree on, by the database's clock: a lease of another length is written as a row that was made earlier or
//! later. Nobody queues, and nobody is told. Tokens come from a second table, which only we use: rows go, and tokens must not go back.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use super::conflict::Conflict;
use super::database::{Database, Query, QueryResult, Statement, Transaction, Value};
use super::entry::{bytes, int, micros, protocol_error};
use super::holder::{self, Holder};
use super::patience::{WaitingRenewals, Wanted, kept_by_another, repeat_passed, retry_on_conflict};
use super::sweep::{self, Names, Sweeps};
use crate::clock::Clock;
use crate::engine::{
    Busy, Claim, ClaimId, ClaimState, Engine, Filter, Foreign, Grant, Lifetime, LockState, Mode, Note,
    Released, Renewal, Revoke, Revoked, SharedCells, Valid, Verdict, Wake,
};
use crate::names::BuildIdentityHasher;
use crate::poison::lock_ignoring_poison;
use crate::{Effect, Error, ErrorKind, Guarantees, LockName, Loss, Result};

/// A waiter looks again so soon, and then half as often each time.
const FIRST: Duration = Duration::from_millis(5);
const LONGEST: Duration = Duration::from_millis(80);

/// From which age on a row is over, unless the URL says otherwise.
pub(in crate::engines) const USUAL_AGE: Duration = Duration::from_secs(30);

/// Locks as rows of a shared table.
pub(in crate::engines) struct Inserts<D> {
    shared: Arc<Shared<D>>,
}

struct Shared<D> {
    database: Arc<D>,
    /// From which age on a row is over, for everybody who uses the table.
    age: Duration,
    /// How often each waiter looked in vain.
    vainly: Mutex<HashMap<ClaimId, u32, BuildIdentityHasher>>,
    waiting: WaitingRenewals,
    sweeps: Arc<Sweeps>,
}

impl<D> Clone for Inserts<D> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone() }
    }
}

/// What inserted rows promise on every database.
pub(in crate::engines) fn promises_of_insert(engine: &'static str) -> Guarantees {
    Guarantees {
        fair: false,
        lists_waiters: false,
        tells_revocations: false,
        read_write: false,
        permits: false,
        beware: "for services that share the table by plain SQL: all must agree on the age at which a row is over, and \
                 delete only their own; waiters ask again and again, in no order; a turn of such a service has no token",
        ..super::promises(engine, false)
    }
}

/// What an insert came to.
enum Put {
    Won(Grant),
    /// Whose row is there, if that was looked at.
    Busy(Option<Row>),
}

/// A row that is there.
struct Row {
    name: String,
    text: String,
    holder: Holder,
    /// `None`: it has no time, and is never over.
    left: Option<i64>,
    token: Option<i64>,
    since: Option<i64>,
    note: Option<String>,
}

impl Row {
    /// Name, holder, microseconds left, token, since, note.
    fn read(row: &[Value]) -> Result<Self> {
        let [name, holder, left, token, since, note] = row else { return Err(protocol_error()) };
        let number = |value: &Value| if *value == Value::Null { Ok(None) } else { int(value).map(Some) };
        let text = string(holder)?;
        Ok(Self {
            name: string(name)?,
            holder: Holder::read(&text),
            text,
            left: number(left)?,
            token: number(token)?,
            since: number(since)?,
            note: if *note == Value::Null { None } else { Some(string(note)?) },
        })
    }

    fn is_over(&self) -> bool {
        self.left.is_some_and(|left| left <= 0)
    }

    /// Whether another program wrote it. Others may name themselves as claims are named; but the token that was
    /// drawn with each row of ours names its holder, too.
    fn is_foreign(&self) -> bool {
        self.holder.is_foreign || self.token.is_none()
    }

    fn expires_in(&self) -> Option<Duration> {
        self.left.map(span)
    }

    /// How long a claim lasts whose row this is.
    fn lasts(&self, claim: &Claim) -> Result<Duration> {
        Ok(self.expires_in().ok_or_else(protocol_error)?.min(claim.ttl))
    }

    fn describe(&self) -> ClaimState {
        let mut state = ClaimState::new(self.holder.id);
        state.token = self.token.map(|token| token as u64);
        state.owner = self.holder.owner.clone();
        state.foreign = self.is_foreign().then(|| Box::new(Foreign::new("row", self.text.as_bytes())));
        state.note = match (&self.note, self.is_foreign()) {
            (Some(note), _) => Note::new(note),
            (None, true) => Note::new(&format!("holder_id {}", self.text)),
            (None, false) => Note::default(),
        };
        state.since = self.since.map(|since| SystemTime::UNIX_EPOCH + span(since));
        state.expires_in = self.expires_in();
        state
    }
}

impl<D: Database> Inserts<D> {
    /// Names that are not used any more are forgotten in the background, as those of [`Rows`](super::Rows).
    pub(in crate::engines) async fn open(database: D, age: Duration) -> Self {
        let inserts = Self::new(database, age, Arc::new(Sweeps::after_now()));
        // Before any other request, so that it delays nothing.
        if let Ok(Some(due)) = sweep::due(&inserts).await {
            tokio::spawn(sweep::sweep(inserts.clone(), due));
        }
        inserts
    }

    fn new(database: D, age: Duration, sweeps: Arc<Sweeps>) -> Self {
        let (database, waiting) = (Arc::new(database), WaitingRenewals::default());
        Self { shared: Arc::new(Shared { database, age, vainly: Mutex::default(), waiting, sweeps }) }
    }

    async fn run(&self, statement: Statement, values: impl Into<Vec<Value>>) -> Result<QueryResult> {
        let query = Query::new(statement, values);
        let answers = retry_on_conflict(|| self.shared.database.run(vec![query.clone()])).await?;
        answers.into_iter().next().ok_or_else(protocol_error)
    }

    fn age(&self) -> Value {
        Value::Int(micros(self.shared.age))
    }

    /// Tries to insert the row. The unique key decides between concurrent claims. `seen`: the row to replace.
    async fn put(&self, claim: &Claim, seen: Option<&Row>) -> Result<Put> {
        let values = vec![
            name(&claim.name),
            Value::Text(holder::text(claim)),
            Value::Int(micros(claim.ttl)),
            self.age(),
            claim.owner.as_ref().map_or(Value::Null, |owner| Value::Text(owner.as_str().to_owned())),
            Value::Text(claim.note.as_str().to_owned()),
        ];
        if !D::PUTS_AT_ONCE {
            let first = if seen.is_some() { Statement::TakeOld } else { Statement::Put };
            return match self.put_in_transaction(claim, first, &values).await {
                // A competitor was faster. A retry would only collide with it again.
                Err(error) if Conflict::of(&error) == Some(Conflict::Passed) => Ok(Put::Busy(None)),
                answer => answer,
            };
        }
        let put = Query::new(Statement::Put, values);
        let answers = repeat_passed(|| self.shared.database.run(vec![put.clone()])).await?;
        let answer = answers.into_iter().next().ok_or_else(protocol_error)?;
        let Some([token, left]) = answer.rows.first().map(Vec::as_slice) else { return Ok(Put::Busy(None)) };
        // It was granted, whatever these are.
        let read = |value| int(value).map_err(|error| error.with_effect(Effect::Unknown));
        let valid = Valid::For(span(read(left)?).min(claim.ttl));
        Ok(Put::Won(Grant { token: Some(read(token)? as u64), valid }))
    }

    async fn put_in_transaction(&self, claim: &Claim, first: Statement, values: &[Value]) -> Result<Put> {
        let queries = [first, Statement::Draw].into_iter().map(|statement| Query::new(statement, values));
        let look = Query::new(Statement::Held, [name(&claim.name), self.age()]);
        let (transaction, answers) = self.shared.database.begin(queries.chain([look]).collect()).await?;
        let row = answers.last().and_then(|held| held.rows.first()).map(|row| Row::read(row)).transpose()?;
        match row {
            Some(row) if row.text == holder::text(claim) => {
                transaction.commit(Vec::new()).await?;
                let token = Some(row.token.ok_or_else(protocol_error)? as u64);
                Ok(Put::Won(Grant { token, valid: Valid::For(row.lasts(claim)?) }))
            }
            row => {
                transaction.roll_back().await;
                Ok(Put::Busy(row))
            }
        }
    }

    async fn row(&self, lock: &LockName) -> Result<Option<Row>> {
        let answer = self.run(Statement::Held, [name(lock), self.age()]).await?;
        answer.rows.first().map(|row| Row::read(row)).transpose()
    }

    /// A row that kept this claim out, or is its own.
    fn verdict(&self, claim: &Claim, row: &Row) -> Result<Verdict> {
        if row.text == holder::text(claim) {
            // Asked again, after a lost reply: the same answer.
            let valid = Valid::For(row.lasts(claim)?);
            return Ok(Verdict::Granted(Grant { token: row.token.map(|token| token as u64), valid }));
        }
        let pause = (FIRST * (1 << self.looks_in_vain(claim).min(8))).min(LONGEST);
        let mut busy = Busy::new(pause.min(row.expires_in().unwrap_or(pause) + Duration::from_millis(1)));
        busy.holder = Some(row.describe());
        Ok(Verdict::Busy(busy))
    }

    /// How often it did so before.
    fn looks_in_vain(&self, claim: &Claim) -> u32 {
        // A try leaves nothing behind.
        if claim.wait_lease.is_zero() {
            return 0;
        }
        let mut vainly = lock_ignoring_poison(&self.shared.vainly);
        let before = vainly.entry(claim.id).or_default();
        *before = before.saturating_add(1);
        *before - 1
    }

    async fn claim_or_look(&self, claim: &Claim) -> Result<Verdict> {
        let is_waiting = lock_ignoring_poison(&self.shared.vainly).contains_key(&claim.id);
        // A failed insert costs the server a commit. Where it takes a transaction, it also locks the holder's
        // row, and the holder's own delete can then become the victim of a deadlock. A read costs neither.
        let looks = is_waiting || !D::PUTS_AT_ONCE;
        let seen = if looks { self.row(&claim.name).await? } else { None };
        if let Some(row) = &seen
            && !row.is_over()
            && !claim.takes_over(row.holder.id, Mode::Exclusive, row.holder.owner.as_ref())
        {
            return self.verdict(claim, row);
        }
        let row = match self.put(claim, seen.as_ref()).await? {
            Put::Won(grant) => return Ok(Verdict::Granted(grant)),
            Put::Busy(None) => self.row(&claim.name).await?,
            Put::Busy(row) => row,
        };
        match row {
            Some(row) => self.verdict(claim, &row),
            // It went this very moment.
            None => Ok(Verdict::Busy(Busy::new(Duration::from_millis(1)))),
        }
    }

    /// Extends a row, and then reads how long it lasts: its column may not store fractions of a second.
    fn prolong(&self, claim: &Claim) -> [Query; 2] {
        let values =
            [name(&claim.name), Value::Text(holder::text(claim)), Value::Int(micros(claim.ttl)), self.age()];
        [Query::new(Statement::Prolong, values), Query::new(Statement::Held, [name(&claim.name), self.age()])]
    }

    /// Renews a claim, and waits for its row if another transaction has locked it.
    async fn renew_waiting(&self, claim: &Claim, wanted: &Wanted) -> Result<Renewal> {
        let renew = || async {
            let (transaction, answers) = self.shared.database.begin(self.prolong(claim).to_vec()).await?;
            wanted.commit(transaction).await?;
            Ok(answers)
        };
        let answers = repeat_passed(renew).await?;
        let [prolonged, held] = &answers[..] else { return Err(protocol_error()) };
        renewal(claim, prolonged.changed > 0, held)
    }

    /// Renews the claims whose rows are not locked by another transaction. Waits for no row.
    async fn renew_together(&self, claims: &[Arc<Claim>]) -> Result<Vec<Result<Renewal>>> {
        let own = claims.iter().map(|claim| {
            Query::new(Statement::OwnInserted, [name(&claim.name), Value::Text(holder::text(claim))])
        });
        let queries: Vec<_> = own.collect();
        let renew = || async {
            let (transaction, own) = self.shared.database.begin(queries.clone()).await?;
            let ours: Vec<_> = own.iter().map(|own| !own.rows.is_empty()).collect();
            let writes = claims.iter().zip(&ours).filter(|(_, is_ours)| **is_ours);
            let writes = writes.flat_map(|(claim, _)| self.prolong(claim)).collect();
            Ok((ours, transaction.commit(writes).await?))
        };
        let (ours, written) = repeat_passed(renew).await?;
        let (mut written, mut renewals) = (written.chunks(2), Vec::with_capacity(claims.len()));
        for (claim, is_ours) in claims.iter().zip(ours) {
            renewals.push(match (is_ours, is_ours.then(|| written.next())) {
                (true, Some(Some([prolonged, held]))) => renewal(claim, prolonged.changed > 0, held),
                (true, _) => Err(protocol_error()),
                (false, _) => self.unless_kept(claim).await,
            });
        }
        Ok(renewals)
    }

    /// Why a claim's row could not be locked at once: the claim is lost, or another transaction has locked
    /// the row.
    async fn unless_kept(&self, claim: &Claim) -> Result<Renewal> {
        match self.row(&claim.name).await? {
            Some(row) if row.text == holder::text(claim) && !row.is_over() => Err(kept_by_another()),
            row => Ok(Renewal::Lost(why_lost(claim, row.as_ref()))),
        }
    }
}

fn renewal(claim: &Claim, is_prolonged: bool, held: &QueryResult) -> Result<Renewal> {
    let row = held.rows.first().map(|row| Row::read(row)).transpose()?;
    Ok(match row {
        Some(row) if is_prolonged => Renewal::Kept(Valid::For(row.lasts(claim)?)),
        row => Renewal::Lost(why_lost(claim, row.as_ref())),
    })
}

fn why_lost(claim: &Claim, row: Option<&Row>) -> Loss {
    match row.map(|row| &row.holder) {
        Some(holder) if holder.id == claim.id && holder.is_revoked => Loss::Revoked,
        Some(holder) if holder.id == claim.id => Loss::Expired,
        Some(holder) if claim.takes_over(holder.id, Mode::Exclusive, holder.owner.as_ref()) => {
            Loss::TakenOver
        }
        _ => Loss::Removed,
    }
}

impl<D: Database> Names for Inserts<D> {
    type Database = D;

    fn database(&self) -> &D {
        &self.shared.database
    }

    /// When the client is gone, a sweep has the only reference.
    fn is_needed(&self) -> bool {
        Arc::strong_count(&self.shared) > 1
    }

    /// A name with a row in the shared table is in use: the holder's token must not disappear. A claim that
    /// inserts the row after this look draws a new token with it. The shared table is only read, and no row of
    /// it is locked.
    fn in_use(&self, names: &[Value]) -> Result<Vec<Query>> {
        let held = |name| Ok(Query::new(Statement::Held, [Value::Text(string(name)?), self.age()]));
        names.iter().map(held).collect()
    }
}

impl<D: Database> Engine for Inserts<D> {
    fn guarantees(&self) -> Guarantees {
        self.shared.database.promises()
    }

    fn clock(&self) -> Clock {
        Clock::boottime()
    }

    /// Uses connections of its own: a claim or a release that waits for a row delays no renewal.
    async fn fork(&self) -> Result<Self> {
        Ok(Self::new(self.shared.database.fork(), self.shared.age, self.shared.sweeps.clone()))
    }

    async fn claim(&self, claim: &Claim) -> Result<Verdict> {
        if claim.mode != Mode::Exclusive || claim.lifetime != Lifetime::Lease {
            let message =
                "scheme=insert supports only exclusive locks with a lease; scheme=row supports all kinds";
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        let verdict = self.claim_or_look(claim).await;
        if matches!(verdict, Ok(Verdict::Granted(_))) {
            lock_ignoring_poison(&self.shared.vainly).remove(&claim.id);
            if self.shared.sweeps.is_time() {
                tokio::spawn(sweep::sweep_if_due(self.clone()));
            }
        }
        verdict
    }

    /// Nobody tells anybody: the core asks again.
    async fn wait(&self, _: &Claim, _: &Busy) -> Result<Wake> {
        std::future::pending().await
    }

    async fn renew(&self, claims: &[Arc<Claim>]) -> Vec<Result<Renewal>> {
        if let [claim] = claims {
            let (inserts, claim) = (self.clone(), claim.clone());
            let renewal = |wanted| async move { inserts.renew_waiting(&claim, &wanted).await };
            if let Some(renewed) = self.shared.waiting.wait(renewal).await {
                return vec![renewed];
            }
        }
        match self.renew_together(claims).await {
            Ok(renewals) => renewals,
            Err(error) => claims.iter().map(|_| Err(error.again())).collect(),
        }
    }

    /// The database says nothing of a claim that nobody asks about.
    async fn lost_hints(&self) -> Vec<ClaimId> {
        std::future::pending().await
    }

    async fn release(&self, claim: &Claim) -> Result<Released> {
        lock_ignoring_poison(&self.shared.vainly).remove(&claim.id);
        let text = holder::text(claim);
        let revoked = Value::Text(holder::revoked(&text));
        match self.run(Statement::Remove, [name(&claim.name), Value::Text(text), revoked]).await?.changed {
            0 => Ok(Released::NotHeld),
            _ => Ok(Released::Freed),
        }
    }

    async fn inspect(&self, filter: &Filter) -> Result<Vec<LockState>> {
        let answer = match filter {
            Filter::Name(lock) => self.run(Statement::Held, [name(lock), self.age()]).await?,
            Filter::Prefix(prefix) => {
                self.run(Statement::HeldBelow, [Value::Text(prefix.clone()), self.age()]).await?
            }
        };
        let mut states = Vec::new();
        for row in &answer.rows {
            let row = Row::read(row)?;
            // Others may use names that we would refuse.
            if let (Ok(name), false) = (LockName::new(&row.name), row.is_over()) {
                let mut state = LockState::new(name);
                state.holders.push(row.describe());
                states.push(state);
            }
        }
        Ok(states)
    }

    async fn revoke(&self, lock: &LockState, how: Revoke) -> Result<Revoked> {
        let Some(row) = self.row(&lock.name).await? else { return Ok(Revoked::NotHeld) };
        if !lock.holders.iter().any(|holder| holder.id == row.holder.id) {
            return Ok(Revoked::NotHeld);
        }
        how.check(&row.describe()).map_err(|error| error.about(&lock.name))?;
        // The holder that was seen, and no other that came meanwhile. A foreign one has only the name that was
        // read.
        let revoked = if row.is_foreign() { row.text.clone() } else { holder::revoked(&row.text) };
        let [holder, revoked] = [row.text.clone(), revoked].map(Value::Text);
        let statement = if how.is_now() { Statement::Remove } else { Statement::Mark };
        let is_done = row.holder.is_revoked && !how.is_now()
            || self.run(statement, [name(&lock.name), holder, revoked]).await?.changed > 0;
        Ok(if is_done { Revoked::Done } else { Revoked::NotHeld })
    }

    fn cells(&self) -> Option<SharedCells> {
        Some(self.shared.database.clone().cells())
    }
}

fn name(lock: &LockName) -> Value {
    Value::Text(lock.as_str().to_owned())
}

fn string(value: &Value) -> Result<String> {
    String::from_utf8(bytes(value)?.to_vec()).map_err(|_| protocol_error())
}

fn span(micros: i64) -> Duration {
    Duration::from_micros(micros.max(0) as u64)
}
