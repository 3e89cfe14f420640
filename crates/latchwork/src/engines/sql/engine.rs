//! The engine on rows: which statement or transaction answers which verb.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::conflict::Conflict;
use super::database::{Database, Query, QueryResult, Statement, Transaction, Value};
use super::entry::{Entry, bytes, hand_over, int, micros, owner_value, protocol_error};
use super::operations::{Claiming, Releasing, Revoking, Tidying, Work};
use super::patience::{WaitingRenewals, Wanted, kept_by_another, repeat_passed, retry_on_conflict};
use super::poll::Look;
use super::queue::{Outcome, Queue, again_in, opening};
use super::sweep::{self, Names, Sweeps};
use crate::clock::Clock;
use crate::engine::{
    Busy, Claim, ClaimId, Engine, Filter, Grant, Lifetime, LockState, Mode, Released, Renewal, Revoke,
    Revoked, SharedCells, Valid, Verdict, Wake,
};
use crate::engines::waiter_table::Notification;
use crate::{Effect, Error, ErrorKind, Faults, Guarantees, LockName, Loss, Promise, Result};

/// How many claims are renewed in one transaction.
const BATCH: usize = 256;

/// Locks as rows of a database.
pub(in crate::engines) struct Rows<D> {
    database: Arc<D>,
    warnings: Vec<String>,
    waiting: WaitingRenewals,
    sweeps: Arc<Sweeps>,
}

impl<D> Clone for Rows<D> {
    fn clone(&self) -> Self {
        let Self { database, warnings, waiting, sweeps } = self;
        let (database, warnings) = (database.clone(), warnings.clone());
        Self { database, warnings, waiting: waiting.clone(), sweeps: sweeps.clone() }
    }
}

/// What rows promise on every database.
pub(in crate::engines) fn promises(engine: &'static str, pushes: bool) -> Guarantees {
    Guarantees {
        engine,
        tokens: Some("max(counter + 1, the database's clock in us)"),
        tokens_survive_data_loss: true,
        fair: true,
        lists_waiters: true,
        pushes,
        tells_losses: false,
        tells_revocations: true,
        lives_with_session: false,
        read_write: true,
        permits: true,
        cells: true,
        watchers_told: if pushes { "at once" } else { "within 250 ms: they look" },
        takes_over: true,
        survives_blocked_runtime: true,
        outlives_wrapper: false,
        min_ttl: Duration::from_millis(100),
        max_ttl: Duration::from_secs(24 * 60 * 60),
        ttl_option: None,
        dead_holder: "the ttl",
        faults: Faults {
            holder_crash: Promise::Exclusive,
            holder_pause: Promise::FencedOnly,
            restart: Promise::Exclusive,
            failover: Promise::FencedOnly,
            partition: Promise::Exclusive,
            clock_step: Promise::FencedOnly,
            data_deleted: Promise::FencedOnly,
        },
        beware: "every grant and every release is a durable commit; a replica that takes over may lack the newest",
        warnings: Vec::new(),
    }
}

fn name(claim: &Claim) -> Value {
    Value::bytes(claim.name.as_str().as_bytes())
}

fn prolong(statement: Statement, claim: &Claim) -> Query {
    Query::new(statement, [name(claim), Value::id(claim.id), Value::Int(micros(claim.ttl))])
}

impl<D: Database> Rows<D> {
    /// Names that are not used any more are forgotten in the background, if no client did that recently.
    pub(in crate::engines) async fn open(database: D, warnings: Vec<String>) -> Self {
        let (waiting, sweeps) = (WaitingRenewals::default(), Arc::new(Sweeps::after_now()));
        let rows = Self { database: Arc::new(database), warnings, waiting, sweeps };
        // Before any other request, so that it delays nothing.
        if let Ok(Some(due)) = sweep::due(&rows).await {
            tokio::spawn(sweep::sweep(rows.clone(), due));
        }
        rows
    }

    /// One statement by itself.
    async fn run(&self, statement: Statement, values: impl Into<Vec<Value>>) -> Result<QueryResult> {
        let query = Query::new(statement, values);
        repeat_passed(|| self.run_once(&query)).await
    }

    async fn run_once(&self, query: &Query) -> Result<QueryResult> {
        let answers = self.database.run(vec![query.clone()]).await?;
        answers.into_iter().next().ok_or_else(protocol_error)
    }

    /// One statement for a lock that nobody holds.
    async fn claim_free(&self, claim: &Claim) -> Result<Option<Grant>> {
        let (note, owner) = (Value::bytes(claim.note.as_str().as_bytes()), owner_value(claim.owner.as_ref()));
        let values = [name(claim), Value::id(claim.id), Value::Int(micros(claim.ttl)), note, owner];
        let answer = self.run(Statement::ClaimFree, values).await?;
        let Some(token) = answer.rows.first().and_then(|row| row.first()) else { return Ok(None) };
        // It was granted, whatever its token is.
        let token = int(token).map_err(|error| error.with_effect(Effect::Unknown))?;
        Ok(Some(Grant { token: Some(token as u64), valid: Valid::For(claim.ttl) }))
    }

    /// A waiter's sign of life. `None`: it is not waiting any more, or whoever is ahead of it may be gone.
    async fn touch(&self, claim: &Claim) -> Result<Option<Verdict>> {
        let answer = self.give_sign(claim).await?;
        let Some([_, Value::Int(left @ 1..), ahead, token]) = answer.rows.first().map(Vec::as_slice) else {
            return Ok(None);
        };
        let mut busy = Busy::new(again_in(claim, Some(Duration::from_micros(*left as u64))));
        busy.position = Some(int(ahead)? as u32);
        busy.floor = Some(int(token)? as u64);
        Ok(Some(Verdict::Busy(busy)))
    }

    /// How a waiter stands that nobody tells. Its sign of life is written, and costs a commit, only when it is due.
    async fn look(&self, claim: &Claim) -> Result<Option<Verdict>> {
        let answer = self.run(Statement::Look, [name(claim), Value::id(claim.id)]).await?;
        let Some(look) = Look::read(&answer)? else { return Ok(None) };
        if look.is_fading(claim) && self.give_sign(claim).await?.changed == 0 {
            return Ok(None);
        }
        Ok(look.verdict(claim))
    }

    async fn give_sign(&self, claim: &Claim) -> Result<QueryResult> {
        let values = [name(claim), Value::id(claim.id), Value::Int(micros(claim.wait_lease))];
        self.run(Statement::Touch, values).await
    }

    /// Does `work` in a transaction on its lock.
    async fn on_lock<W: Work>(&self, work: &W) -> Result<W::Answer> {
        let (mut transaction, mut answers) = self.database.begin(opening(work.lock(), work.id())).await?;
        if answers.first().is_some_and(|row| row.rows.is_empty()) {
            if let Some(answer) = work.never_used() {
                transaction.roll_back().await;
                return Ok(answer);
            }
            let lock = Value::bytes(work.lock().as_str().as_bytes());
            let make = Query::new(Statement::MakeRow, [lock]);
            transaction.run(vec![make]).await?;
            answers = transaction.run(opening(work.lock(), work.id())).await?;
        }
        let Some((queue, mine)) = Queue::open(&mut transaction, work.lock(), &answers)? else {
            // Another client created it, and it was forgotten since.
            return Err(Error::new(ErrorKind::Unreachable, "the row of the lock was deleted meanwhile")
                .with_source(Conflict::Passed));
        };
        match work.on(queue, mine).await? {
            Outcome::Commit(answer, writes) => {
                transaction.commit(writes).await?;
                Ok(answer)
            }
            Outcome::Nothing(answer) => {
                transaction.roll_back().await;
                Ok(answer)
            }
        }
    }

    async fn claim_or_queue(&self, claim: &Claim) -> Result<Verdict> {
        let is_try = claim.wait_lease.is_zero();
        // Before the entry is written: what is told between the two would be missed.
        let channel = if is_try { None } else { self.database.channel().await? };
        if !is_try && self.database.expect(claim.id) {
            // Who has an owner may take over by now.
            let known = match &channel {
                Some(_) if claim.owner.is_some() => None,
                Some(_) => self.touch(claim).await?,
                None => self.look(claim).await?,
            };
            if let Some(verdict) = known {
                return Ok(verdict);
            }
        } else if claim.mode == Mode::Exclusive
            && let Some(grant) = self.claim_free(claim).await?
        {
            return Ok(Verdict::Granted(grant));
        }
        let claiming = Claiming { claim, channel: channel.as_deref() };
        repeat_passed(|| self.on_lock(&claiming)).await?
    }

    /// Renews a claim, and waits for its row if another transaction has locked it.
    async fn renew_waiting(&self, claim: &Claim, wanted: &Wanted) -> Result<Renewal> {
        // Where nobody waits, then in the queue: a holder goes from the one to the other, and not back.
        let queries =
            [Statement::RenewFree, Statement::RenewQueued].map(|statement| prolong(statement, claim));
        let renew = || async {
            let (transaction, answers) = self.database.begin(queries.to_vec()).await?;
            wanted.commit(transaction).await?;
            Ok(answers.iter().map(|answer| answer.changed).sum::<u64>())
        };
        match repeat_passed(renew).await? {
            0 => Ok(Renewal::Lost(self.loss(claim).await?.unwrap_or(Loss::Expired))),
            _ => Ok(Renewal::Kept(Valid::For(claim.ttl))),
        }
    }

    /// Renews the claims whose rows are not locked by another transaction. Waits for no row: one locked row
    /// would cost all the others their leases.
    async fn renew_together(&self, claims: &[Arc<Claim>]) -> Result<Vec<Result<Renewal>>> {
        let own =
            |statement| move |claim: &Arc<Claim>| Query::new(statement, [name(claim), Value::id(claim.id)]);
        let rows = claims.iter().map(own(Statement::OwnRow));
        let entries = claims.iter().map(own(Statement::OwnEntry));
        let queries: Vec<_> = rows.chain(entries).collect();
        let renew = || async {
            let (transaction, own) = self.database.begin(queries.clone()).await?;
            let (rows, entries) = own.split_at(claims.len());
            let place = |(row, entry): (&QueryResult, &QueryResult)| match (row.rows.len(), entry.rows.len())
            {
                (0, 0) => None,
                (0, _) => Some(Statement::RenewQueued),
                _ => Some(Statement::RenewFree),
            };
            let places: Vec<_> = rows.iter().zip(entries).map(place).collect();
            let writes =
                claims.iter().zip(&places).filter_map(|(claim, place)| Some(prolong((*place)?, claim)));
            let written = transaction.commit(writes.collect()).await?;
            Ok((places, written))
        };
        let (places, written) = repeat_passed(renew).await?;
        let (mut written, mut renewals) = (written.into_iter(), Vec::with_capacity(claims.len()));
        for (claim, place) in claims.iter().zip(places) {
            let is_renewed = place.and_then(|_| written.next()).is_some_and(|answer| answer.changed > 0);
            renewals.push(match is_renewed {
                true => Ok(Renewal::Kept(Valid::For(claim.ttl))),
                false => match self.loss(claim).await {
                    Ok(loss) => loss.map(Renewal::Lost).ok_or_else(kept_by_another),
                    Err(error) => Err(error),
                },
            });
        }
        Ok(renewals)
    }

    /// Why a claim is lost. `None`: it is not lost, as far as can be seen without waiting for another
    /// transaction.
    async fn loss(&self, claim: &Claim) -> Result<Option<Loss>> {
        let locks = self.list(claim.name.as_str().as_bytes(), claim.name.as_str().as_bytes()).await?;
        let Some((_, entries)) = locks.into_iter().next() else { return Ok(Some(Loss::Removed)) };
        let mine = entries.iter().find(|(entry, _)| entry.id == claim.id);
        Ok(match mine {
            Some((mine, _)) if mine.revoked => Some(Loss::Revoked),
            Some((mine, now)) if mine.holds() => mine.is_over(*now).then_some(Loss::Expired),
            _ if entries.iter().any(|(entry, _)| entry.is_taken_over_by(claim)) => Some(Loss::TakenOver),
            _ => Some(Loss::Removed),
        })
    }

    /// All holders and waiters of the locks between two names, each with the time it was read.
    async fn list(&self, from: &[u8], to: &[u8]) -> Result<BTreeMap<Vec<u8>, Vec<(Entry, i64)>>> {
        let query = |statement| Query::new(statement, [Value::bytes(from), Value::bytes(to)]);
        let queries = vec![query(Statement::ListFree), query(Statement::ListQueued)];
        let answers = self.database.run(queries).await?;
        let [free, queued] = &answers[..] else { return Err(protocol_error()) };
        let mut locks = BTreeMap::<_, Vec<_>>::new();
        for row in &free.rows {
            let [now, name, token, holder @ ..] = &row[..] else { return Err(protocol_error()) };
            if let Some(entry) = Entry::quiet(int(token)?, holder)? {
                locks.entry(bytes(name)?.to_vec()).or_default().push((entry, int(now)?));
            }
        }
        for row in &queued.rows {
            let [now, name, entry @ ..] = &row[..] else { return Err(protocol_error()) };
            locks.entry(bytes(name)?.to_vec()).or_default().push((Entry::read(entry)?, int(now)?));
        }
        Ok(locks)
    }
}

impl<D: Database> Names for Rows<D> {
    type Database = D;

    fn database(&self) -> &D {
        &self.database
    }

    /// When the client is gone, a sweep has the only reference to the database.
    fn is_needed(&self) -> bool {
        Arc::strong_count(&self.database) > 1
    }

    fn forget_beside(&self, name: &Value) -> Option<Query> {
        Some(Query::new(Statement::ForgetRevoked, [name.clone()]))
    }

    /// Entries of dead clients keep the name in use until a client checks the queue. The next sweep forgets
    /// the name.
    async fn tidy(&self, name: &Value) -> Result<()> {
        let name = std::str::from_utf8(bytes(name)?).map_err(|_| protocol_error())?;
        let name = LockName::new(name).map_err(|_| protocol_error())?;
        let tidying = Tidying(&name);
        retry_on_conflict(|| self.on_lock(&tidying)).await
    }
}

impl<D: Database> Engine for Rows<D> {
    fn guarantees(&self) -> Guarantees {
        let mut promises = self.database.promises();
        promises.warnings = self.warnings.clone();
        promises
    }

    fn clock(&self) -> Clock {
        Clock::boottime()
    }

    /// Uses connections of its own: a claim or a release that waits for a row delays no renewal.
    async fn fork(&self) -> Result<Self> {
        let (database, warnings) = (Arc::new(self.database.fork()), self.warnings.clone());
        let (waiting, sweeps) = (WaitingRenewals::default(), self.sweeps.clone());
        Ok(Self { database, warnings, waiting, sweeps })
    }

    async fn claim(&self, claim: &Claim) -> Result<Verdict> {
        if claim.lifetime != Lifetime::Lease {
            let message = format!("{} supports only claims with a lease", self.database.promises().engine);
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        let verdict = self.claim_or_queue(claim).await;
        match &verdict {
            Ok(Verdict::Granted(_)) => {
                self.database.forget(claim.id);
                if self.sweeps.is_time() {
                    tokio::spawn(sweep::sweep_if_due(self.clone()));
                }
            }
            // No release may follow (C11). A claim that waits is expected again when it is repeated.
            Err(error) if error.effect() == Effect::None => self.database.forget(claim.id),
            _ => {}
        }
        verdict
    }

    async fn wait(&self, claim: &Claim, busy: &Busy) -> Result<Wake> {
        loop {
            match self.database.heard(claim.id).await {
                Notification::Recheck => return Ok(Wake::Recheck),
                // The database counts the lease from when it was handed over, which is later than the newest claim.
                Notification::Granted(token) if Some(token) > busy.floor => {
                    self.database.forget(claim.id);
                    let valid = Valid::For(hand_over(claim));
                    return Ok(Wake::Granted(Grant { token: Some(token), valid }));
                }
                Notification::Granted(_) => {}
            }
        }
    }

    async fn renew(&self, claims: &[Arc<Claim>]) -> Vec<Result<Renewal>> {
        if let [claim] = claims {
            let (rows, claim) = (self.clone(), claim.clone());
            let renewal = |wanted| async move { rows.renew_waiting(&claim, &wanted).await };
            if let Some(renewed) = self.waiting.wait(renewal).await {
                return vec![renewed];
            }
        }
        let mut answers = Vec::with_capacity(claims.len());
        for batch in claims.chunks(BATCH) {
            match self.renew_together(batch).await {
                Ok(renewals) => answers.extend(renewals),
                Err(error) => answers.extend(batch.iter().map(|_| Err(error.again()))),
            }
        }
        answers
    }

    /// The database says nothing of a claim that nobody asks about.
    async fn lost_hints(&self) -> Vec<ClaimId> {
        std::future::pending().await
    }

    async fn release(&self, claim: &Claim) -> Result<Released> {
        self.database.forget(claim.id);
        let free = Query::new(Statement::ReleaseFree, [name(claim), Value::id(claim.id)]);
        if retry_on_conflict(|| self.run_once(&free)).await?.changed > 0 {
            return Ok(Released::Freed);
        }
        let releasing = Releasing(claim);
        retry_on_conflict(|| self.on_lock(&releasing)).await
    }

    async fn inspect(&self, filter: &Filter) -> Result<Vec<LockState>> {
        let (from, to) = match filter {
            Filter::Name(name) => (name.as_str().as_bytes(), name.as_str().as_bytes().to_vec()),
            // No name has this byte.
            Filter::Prefix(prefix) => (prefix.as_bytes(), [prefix.as_bytes(), &[0xff]].concat()),
        };
        let mut states = Vec::new();
        for (name, entries) in self.list(from, &to).await? {
            let name = String::from_utf8(name).map_err(|_| protocol_error())?;
            let mut state = LockState::new(LockName::new(name).map_err(|_| protocol_error())?);
            for (entry, now) in entries.iter().filter(|(entry, now)| !entry.is_over(*now)) {
                let place = if entry.holds() { &mut state.holders } else { &mut state.waiters };
                place.push(entry.describe(*now));
            }
            if !(state.holders.is_empty() && state.waiters.is_empty()) {
                states.push(state);
            }
        }
        Ok(states)
    }

    async fn revoke(&self, lock: &LockState, how: Revoke) -> Result<Revoked> {
        let mut done = Revoked::NotHeld;
        for holder in &lock.holders {
            let revoking = Revoking { lock: &lock.name, id: holder.id, how };
            if retry_on_conflict(|| self.on_lock(&revoking)).await? == Revoked::Done {
                done = Revoked::Done;
            }
        }
        Ok(done)
    }

    fn cells(&self) -> Option<SharedCells> {
        Some(self.database.clone().cells())
    }
}
