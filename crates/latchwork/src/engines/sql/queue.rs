//! What happens in one transaction on a lock that somebody else has, wants, or may have: enrol, settle, hand over.
//!
//! The lock's row is locked first, so transactions on one lock follow each other, and no two can wait for each other. What is
//! to be written is collected, and sent together with the commit.

use std::collections::VecDeque;
use std::time::Duration;

use super::database::{Query, QueryResult, Statement, Transaction, Value};
use super::entry::{Entry, int, micros, owner_value, protocol_error};
use super::poll;
use crate::engine::{Busy, Claim, ClaimId, Grant, Mode, Released, Revoke, Revoked, Valid, Verdict};
use crate::engines::admission::Admission;
use crate::{LockName, Result};

/// How many entries are read at once. Most queues are shorter, and of the others only the front matters.
const PAGE: i64 = 16;

/// A lock whose row this transaction has locked.
pub(super) struct Queue<'t, T> {
    transaction: &'t mut T,
    name: Vec<u8>,
    /// The database's clock when the row was locked.
    now: i64,
    /// The newest.
    token: i64,
    is_contended: bool,
    /// The last that was given out.
    ticket: i64,
    /// Who holds, while nobody waits.
    quiet: Option<Entry>,
    /// The front of the queue, as far as it was read and not yet dealt with.
    front: VecDeque<Entry>,
    /// The ticket that it was read to; `None`: there is no more.
    read_to: Option<i64>,
    /// The claim that asked, if it has just come.
    new: Option<Entry>,
    writes: Vec<Query>,
}

/// What a look at the front of the queue came to.
#[derive(Default)]
struct Settled {
    holders: Vec<Entry>,
    /// The grant of the claim that asked.
    granted: Option<Grant>,
}

/// What is to be done with the transaction.
pub(super) enum Outcome<V> {
    /// Write these, then answer.
    Commit(V, Vec<Query>),
    /// There is nothing to write.
    Nothing(V),
}

impl<V> Outcome<V> {
    pub(super) fn map<W>(self, answer: impl FnOnce(V) -> W) -> Outcome<W> {
        match self {
            Self::Commit(value, writes) => Outcome::Commit(answer(value), writes),
            Self::Nothing(value) => Outcome::Nothing(answer(value)),
        }
    }
}

/// What a transaction on a lock begins with: its row, the claim's own entry, the front of its queue.
pub(super) fn opening(name: &LockName, id: ClaimId) -> Vec<Query> {
    let name = || Value::bytes(name.as_str().as_bytes());
    vec![
        Query::new(Statement::LockRow, [name()]),
        Query::new(Statement::Find, [name(), Value::id(id)]),
        Query::new(Statement::Page, [name(), Value::Int(0), Value::Int(PAGE)]),
        // Last, when all of these are locked: a waiter counts what it is handed from its newest claim, which must not be later.
        Query::new(Statement::Now, []),
    ]
}

impl<'t, T: Transaction> Queue<'t, T> {
    /// What the opening brought: the lock, and the claim's own entry. `None`: this lock was never used.
    pub(super) fn open(
        transaction: &'t mut T,
        name: &LockName,
        answers: &[QueryResult],
    ) -> Result<Option<(Self, Option<Entry>)>> {
        let [row, mine, front, now] = answers else { return Err(protocol_error()) };
        let Some(row) = row.rows.first() else { return Ok(None) };
        let [token, is_contended, ticket, holder @ ..] = &row[..] else { return Err(protocol_error()) };
        let (token, is_contended) = (int(token)?, int(is_contended)? != 0);
        let front = front.rows.iter().map(|row| Entry::read(row)).collect::<Result<VecDeque<_>>>()?;
        let queue = Self {
            transaction,
            name: name.as_str().as_bytes().to_vec(),
            now: read_now(now)?,
            token,
            is_contended,
            ticket: int(ticket)?,
            quiet: if is_contended { None } else { Entry::quiet(token, holder)? },
            read_to: (front.len() as i64 == PAGE).then(|| front.back().map_or(0, |last| last.ticket)),
            front,
            new: None,
            writes: Vec::new(),
        };
        let mine = mine.rows.first().map(|row| Entry::read(row)).transpose()?;
        Ok(Some((queue, mine)))
    }

    /// Whether a claim names as many permits as others. The front tells: whoever came later was compared with it.
    pub(super) fn check_number(&self, claim: &Claim) -> Result<()> {
        let others = self.front.iter().filter(|entry| entry.id != claim.id && !entry.is_over(self.now));
        claim.mode.same_number(others.map(|entry| entry.mode))
    }

    /// Asks for a lock that one statement did not get. `channel`: where the claim's client hears of it.
    pub(super) async fn claim(
        mut self,
        claim: &Claim,
        mut mine: Option<Entry>,
        channel: Option<&[u8]>,
    ) -> Result<Outcome<Verdict>> {
        let is_try = claim.wait_lease.is_zero();
        if !self.is_contended {
            match self.quiet.take().filter(|holder| !holder.is_over(self.now)) {
                // Asked again, after a lost reply: the same answer.
                Some(holder) if holder.id == claim.id => {
                    return Ok(Outcome::Nothing(holder.grant(self.now)));
                }
                Some(holder) if holder.is_taken_over_by(claim) => return Ok(self.take_row(claim)),
                Some(holder) if is_try => {
                    let settled = Settled { holders: vec![holder], granted: None };
                    return Ok(Outcome::Nothing(Verdict::Busy(self.busy(claim, &settled, None, channel))));
                }
                Some(holder) => {
                    self.ticket += 1;
                    let holder = Entry { ticket: self.ticket, ..holder };
                    self.write(Statement::Enrol, holder.values());
                    self.front.push_back(holder);
                }
                // It came free meanwhile.
                None if claim.mode == Mode::Exclusive => return Ok(self.take_row(claim)),
                None => {}
            }
            self.is_contended = true;
        }
        if let Some(over) = mine.take_if(|mine| mine.holds() && mine.is_over(self.now)) {
            // A grant that this claim slept through.
            self.leave(over.ticket);
        }
        if let Some(holder) = self.front.front().filter(|first| first.is_taken_over_by(claim)).cloned()
            && !holder.is_over(self.now)
        {
            return Ok(self.take_over(claim, &holder, mine));
        }
        match &mine {
            Some(mine) if mine.holds() => return Ok(Outcome::Nothing(mine.grant(self.now))),
            Some(_) => {
                self.write(Statement::Touch, [Value::id(claim.id), Value::Int(micros(claim.wait_lease))])
            }
            None => {
                self.ticket += 1;
                let channel = channel.unwrap_or_default().to_vec();
                self.new = Some(Entry::waiting(claim, channel, self.ticket, self.now));
            }
        }
        let ticket = mine.map_or(self.ticket, |mine| mine.ticket);
        let settled = self.settle(Some(claim)).await?;
        if let Some(grant) = settled.granted {
            return Ok(self.done(Verdict::Granted(grant)));
        }
        if is_try {
            return Ok(Outcome::Nothing(Verdict::Busy(self.busy(claim, &settled, None, channel))));
        }
        let ahead = self.ahead(ticket, &settled).await?;
        let busy = self.busy(claim, &settled, Some(ahead), channel);
        Ok(self.done(Verdict::Busy(busy)))
    }

    /// Gives back a claim that one statement did not.
    pub(super) async fn release(mut self, claim: &Claim, mine: Option<Entry>) -> Result<Outcome<Released>> {
        if self.quiet.as_ref().is_some_and(|holder| holder.id == claim.id) {
            self.write(Statement::ReleaseFree, [Value::id(claim.id)]);
            return Ok(Outcome::Commit(Released::Freed, self.writes));
        }
        let Some(mine) = mine else { return Ok(Outcome::Nothing(Released::NotHeld)) };
        self.leave(mine.ticket);
        if mine.is_word() {
            // It stood in no queue, and another may hold the lock by its row alone.
            return Ok(Outcome::Commit(Released::Revoked, self.writes));
        }
        self.settle(None).await?;
        let was_over = mine.holds() && mine.is_over(self.now);
        Ok(self.done(if was_over { Released::NotHeld } else { Released::Freed }))
    }

    /// Takes the lock away from one holder.
    pub(super) async fn revoke(
        mut self,
        id: ClaimId,
        mine: Option<Entry>,
        how: Revoke,
    ) -> Result<Outcome<Revoked>> {
        let at_once = Value::Int(how.is_now().into());
        if how.is_now() {
            self.write(Statement::ForgetRevoked, []);
        }
        if let Some(holder) = self.quiet.take_if(|holder| holder.id == id) {
            if !how.is_now() {
                self.write(Statement::RevokeFree, [Value::id(id), at_once]);
                return Ok(Outcome::Commit(Revoked::Done, self.writes));
            }
            self.write(Statement::Enrol, holder.revoked_at_once().values());
            return Ok(self.done(Revoked::Done));
        }
        let Some(mine) = mine.filter(Entry::holds) else { return Ok(Outcome::Nothing(Revoked::NotHeld)) };
        self.write(Statement::RevokeQueued, [Value::id(id), at_once]);
        if how.is_now() {
            self.front.retain(|entry| entry.ticket != mine.ticket);
            self.settle(None).await?;
        }
        Ok(self.done(Revoked::Done))
    }

    /// Removes dead entries from the queue, without a claim of its own.
    pub(super) async fn tidy(mut self) -> Result<Outcome<()>> {
        if !self.is_contended {
            return Ok(Outcome::Nothing(()));
        }
        self.settle(None).await?;
        Ok(self.done(()))
    }

    /// Takes a lock that nobody waits for.
    fn take_row(mut self, claim: &Claim) -> Outcome<Verdict> {
        let token = self.next_token();
        let until = self.now.saturating_add(micros(claim.ttl));
        self.write(
            Statement::TakeRow,
            [
                Value::Int(token),
                Value::id(claim.id),
                Value::Int(until),
                Value::Int(self.now),
                Value::bytes(claim.note.as_str().as_bytes()),
                owner_value(claim.owner.as_ref()),
            ],
        );
        let grant = Grant { token: Some(token as u64), valid: Valid::For(claim.ttl) };
        Outcome::Commit(Verdict::Granted(grant), self.writes)
    }

    /// Takes the place of a holder with the same owner (C13). `waiting`: where this claim stood until now.
    fn take_over(mut self, claim: &Claim, holder: &Entry, waiting: Option<Entry>) -> Outcome<Verdict> {
        self.leave(holder.ticket);
        if let Some(waiting) = waiting {
            self.leave(waiting.ticket);
        }
        let token = self.next_token();
        let mut entry = Entry::waiting(claim, Vec::new(), holder.ticket, self.now);
        (entry.token, entry.expires) = (token, self.now.saturating_add(micros(claim.ttl)));
        self.write(Statement::Enrol, entry.values());
        let grant = Grant { token: Some(token as u64), valid: Valid::For(claim.ttl) };
        self.done(Verdict::Granted(grant))
    }

    /// Clears away who is gone, and lets in who fits, from the front of the queue until the first who does not. `asks`: the claim
    /// that is told by the answer, and needs no message.
    async fn settle(&mut self, queries: Option<&Claim>) -> Result<Settled> {
        let (mut settled, mut admission) = (Settled::default(), Admission::default());
        while !admission.is_full()
            && let Some((mut entry, is_new)) = self.next().await?
        {
            let asking = queries.filter(|claim| claim.id == entry.id);
            if entry.is_over(self.now) && (entry.holds() || asking.is_none()) {
                self.leave(entry.ticket);
                continue;
            }
            if !entry.holds() {
                if !admission.fits(entry.mode) {
                    if is_new {
                        self.new = Some(entry)
                    } else {
                        self.front.push_front(entry)
                    }
                    break;
                }
                self.let_in(&mut entry, is_new, asking);
                let token = Some(entry.token as u64);
                settled.granted =
                    asking.map(|claim| Grant { token, valid: Valid::For(claim.ttl) }).or(settled.granted);
            }
            admission.count(entry.mode);
            settled.holders.push(entry);
        }
        let somebody_waits = !self.front.is_empty() || self.new.is_some();
        self.is_contended = somebody_waits || !settled.holders.is_empty();
        if let Some(new) = self.new.take() {
            self.write(Statement::Enrol, new.values());
        }
        Ok(settled)
    }

    /// The next of the queue; last of all the claim that has just come, and whether that is it.
    async fn next(&mut self) -> Result<Option<(Entry, bool)>> {
        while self.front.is_empty()
            && let Some(ticket) = self.read_to.take()
        {
            let values = [Value::Bytes(self.name.clone()), Value::Int(ticket), Value::Int(PAGE)];
            let queries = vec![Query::new(Statement::Page, values), Query::new(Statement::Now, [])];
            let answers = self.transaction.run(queries).await?;
            let [page, now] = &answers[..] else { return Err(protocol_error()) };
            self.now = read_now(now)?;
            let rows = &page.rows;
            self.front = rows.iter().map(|row| Entry::read(row)).collect::<Result<_>>()?;
            self.read_to =
                (rows.len() as i64 == PAGE).then(|| self.front.back().map_or(0, |last| last.ticket));
        }
        let next = self.front.pop_front().map(|entry| (entry, false));
        Ok(next.or_else(|| self.new.take().map(|entry| (entry, true))))
    }

    /// Lets a waiting entry hold.
    fn let_in(&mut self, entry: &mut Entry, is_new: bool, asking: Option<&Claim>) {
        entry.token = self.next_token();
        let lease = asking.map_or(entry.hand_over, |claim| micros(claim.ttl));
        entry.expires = self.now.saturating_add(lease);
        if is_new {
            return self.write(Statement::Enrol, entry.values());
        }
        let values = [entry.ticket, entry.token, entry.expires, self.now].map(Value::Int);
        self.write(Statement::Grant, values);
        if asking.is_none() && !entry.channel.is_empty() {
            let message = format!("{} {}", entry.id, entry.token).into_bytes();
            let values = [Value::bytes(&entry.channel), Value::Bytes(message)];
            self.writes.push(Query::new(Statement::Tell, values));
        }
    }

    /// Above the last, and never behind the database's clock.
    fn next_token(&mut self) -> i64 {
        self.token = self.now.max(self.token + 1);
        self.token
    }

    fn leave(&mut self, ticket: i64) {
        self.front.retain(|entry| entry.ticket != ticket);
        self.write(Statement::Leave, [Value::Int(ticket)]);
    }

    fn write<const N: usize>(&mut self, statement: Statement, values: [Value; N]) {
        let name = [Value::Bytes(self.name.clone())];
        self.writes.push(Query::new(statement, name.into_iter().chain(values).collect::<Vec<_>>()));
    }

    fn done<V>(mut self, answer: V) -> Outcome<V> {
        let values = [self.token, self.is_contended.into(), self.ticket].map(Value::Int);
        self.write(Statement::WriteRow, values);
        Outcome::Commit(answer, self.writes)
    }

    /// How many stand before this ticket.
    async fn ahead(&mut self, ticket: i64, settled: &Settled) -> Result<u32> {
        let known = settled.holders.len() + self.front.iter().filter(|entry| entry.ticket < ticket).count();
        if self.read_to.is_none() {
            return Ok(known as u32);
        }
        let values = [Value::Bytes(self.name.clone()), Value::Int(ticket)];
        let answers = self.transaction.run(vec![Query::new(Statement::Ahead, values)]).await?;
        let count = answers.first().and_then(|answer| answer.rows.first()).and_then(|row| row.first());
        Ok(int(count.ok_or_else(protocol_error)?)? as u32)
    }

    fn busy(&self, claim: &Claim, settled: &Settled, ahead: Option<u32>, channel: Option<&[u8]>) -> Busy {
        let first_end = settled.holders.iter().map(|holder| holder.expires - self.now).min();
        let first_end = Duration::from_micros(first_end.unwrap_or_default().max(1_000) as u64);
        let mut busy = Busy::new(first_end);
        busy.holder = settled.holders.first().map(|holder| holder.describe(self.now));
        let Some(ahead) = ahead else { return busy };
        let is_next = ahead as usize <= settled.holders.len();
        busy.again_in = again_in(claim, is_next.then_some(first_end));
        if channel.is_none() {
            let begun = settled.holders.iter().map(|holder| holder.since).max().unwrap_or(self.now);
            let held_for = Duration::from_micros((self.now - begun).max(0) as u64);
            let holders = settled.holders.len() as u32;
            busy.again_in = busy.again_in.min(poll::again_in(claim, held_for, ahead, holders));
        }
        busy.position = Some(ahead);
        busy.floor = Some(self.token as u64);
        busy
    }
}

fn read_now(answer: &QueryResult) -> Result<i64> {
    int(answer.rows.first().and_then(|row| row.first()).ok_or_else(protocol_error)?)
}

/// When a waiter asks again that is told: three times in the life of its place, and when the lease ahead of it ends.
pub(super) fn again_in(claim: &Claim, first_end: Option<Duration>) -> Duration {
    let alive = claim.wait_lease / 3;
    first_end.map_or(alive, |end| alive.min(end + Duration::from_millis(1)))
}
