//! The queue of a lock in one transaction: enqueue, advance the front of the queue, hand over.
//!
//! The transaction locks the row of the lock first. So the transactions on one lock run one after the other,
//! and no two of them deadlock. Writes are collected, and sent together with the commit.

use std::collections::VecDeque;
use std::time::Duration;

use super::entry::{Entry, micros, owner_value};
use super::row_store::Transaction;
use super::statement::{Query, QueryResult, Statement};
use super::value::{SqlValue, corrupt_table};
use super::{poll, wait};
use crate::engine::{Busy, Claim, ClaimId, Grant, Mode, Released, Revoke, Revoked, Valid, Verdict};
use crate::engines::admission::Admission;
use crate::{LockName, Result};

/// How many entries are read at once. Most queues are shorter, and only the front of the others matters.
const PAGE: i64 = 16;

/// A lock whose row this transaction has locked.
pub(super) struct Queue<'t, T> {
    transaction: &'t mut T,
    name: Vec<u8>,
    /// The database's clock after the row was locked.
    now: i64,
    /// The newest token.
    token: i64,
    is_contended: bool,
    /// The newest ticket.
    ticket: i64,
    /// The holder of an uncontended lock.
    uncontended_holder: Option<Entry>,
    /// The entries that were read and are still to be examined, from the front of the queue on.
    front: VecDeque<Entry>,
    /// The ticket of the last entry read; `None`: the whole queue was read.
    read_to: Option<i64>,
    /// The entry of a claim that joins the queue in this transaction. It is written when its state is known.
    new: Option<Entry>,
    writes: Vec<Query>,
}

/// The result of [`Queue::advance`].
#[derive(Default)]
struct Advanced {
    holders: Vec<Entry>,
    /// The grant of the caller's own claim.
    granted: Option<Grant>,
}

/// How the transaction ends, and the answer to the caller.
pub(super) enum TransactionEnd<V> {
    /// Run these writes and commit.
    Commit(V, Vec<Query>),
    /// Roll back, because there is nothing to write.
    RollBack(V),
}

impl<V> TransactionEnd<V> {
    pub(super) fn map<W>(self, answer: impl FnOnce(V) -> W) -> TransactionEnd<W> {
        match self {
            Self::Commit(value, writes) => TransactionEnd::Commit(answer(value), writes),
            Self::RollBack(value) => TransactionEnd::RollBack(answer(value)),
        }
    }
}

/// The first statements of a transaction on a lock. They read its row, the claim's own entry, and the front
/// of the queue.
pub(super) fn opening(name: &LockName, id: ClaimId) -> Vec<Query> {
    let name = || SqlValue::bytes(name.as_str().as_bytes());
    vec![
        Query::new(Statement::LockRow, [name()]),
        Query::new(Statement::FindEntry, [name(), SqlValue::id(id)]),
        Query::new(Statement::ReadPage, [name(), SqlValue::Int(0), SqlValue::Int(PAGE)]),
        // Last, when all of these rows are locked. A waiter counts a lease that is handed over from its
        // newest claim, so the database must not count it from an earlier time.
        Query::new(Statement::Now, []),
    ]
}

impl<'t, T: Transaction> Queue<'t, T> {
    /// From the results of the [`opening`]: the queue, and the claim's own entry. `None`: the lock has no
    /// row.
    pub(super) fn open(
        transaction: &'t mut T,
        name: &LockName,
        answers: &[QueryResult],
    ) -> Result<Option<(Self, Option<Entry>)>> {
        let [row, own, front, now] = answers else { return Err(corrupt_table()) };
        let Some(row) = row.rows.first() else { return Ok(None) };
        let [token, is_contended, ticket, holder @ ..] = &row[..] else { return Err(corrupt_table()) };
        let (token, is_contended) = (token.as_int()?, is_contended.as_int()? != 0);
        let front = front.rows.iter().map(|row| Entry::read(row)).collect::<Result<VecDeque<_>>>()?;
        let queue = Self {
            transaction,
            name: name.as_str().as_bytes().to_vec(),
            now: read_now(now)?,
            token,
            is_contended,
            ticket: ticket.as_int()?,
            uncontended_holder: if is_contended { None } else { Entry::uncontended(token, holder)? },
            read_to: (front.len() as i64 == PAGE).then(|| front.back().map_or(0, |last| last.ticket)),
            front,
            new: None,
            writes: Vec::new(),
        };
        let own = own.rows.first().map(|row| Entry::read(row)).transpose()?;
        Ok(Some((queue, own)))
    }

    /// Refuses a claim with another number of permits than the entries at the front. Every later entry was
    /// compared with them.
    pub(super) fn check_permits(&self, claim: &Claim) -> Result<()> {
        let others = self.front.iter().filter(|entry| entry.id != claim.id && !entry.is_expired(self.now));
        claim.mode.same_number(others.map(|entry| entry.mode))
    }

    /// Claims a lock that one statement could not claim. Notifications for the claim go to `channel`.
    pub(super) async fn claim(
        mut self,
        claim: &Claim,
        mut own: Option<Entry>,
        channel: Option<&[u8]>,
    ) -> Result<TransactionEnd<Verdict>> {
        let is_try = claim.wait_lease.is_zero();
        if !self.is_contended {
            match self.uncontended_holder.take().filter(|holder| !holder.is_expired(self.now)) {
                // Repeated after a lost reply: the answer is the same.
                Some(holder) if holder.id == claim.id => {
                    return Ok(TransactionEnd::RollBack(holder.grant(self.now)));
                }
                Some(holder) if holder.is_taken_over_by(claim) => return Ok(self.take_row(claim)),
                Some(holder) if is_try => {
                    let advanced = Advanced { holders: vec![holder], granted: None };
                    return Ok(TransactionEnd::RollBack(Verdict::Busy(
                        self.busy(claim, &advanced, None, channel),
                    )));
                }
                Some(holder) => {
                    self.ticket += 1;
                    let holder = Entry { ticket: self.ticket, ..holder };
                    self.write(Statement::InsertEntry, holder.values());
                    self.front.push_back(holder);
                }
                // It was released meanwhile.
                None if claim.mode == Mode::Exclusive => return Ok(self.take_row(claim)),
                None => {}
            }
            self.is_contended = true;
        }
        if let Some(over) = own.take_if(|own| own.holds() && own.is_expired(self.now)) {
            // A grant that expired before this claim was repeated.
            self.delete(over.ticket);
        }
        if let Some(holder) = self.front.front().filter(|first| first.is_taken_over_by(claim)).cloned()
            && !holder.is_expired(self.now)
        {
            return Ok(self.take_over(claim, &holder, own));
        }
        match &own {
            Some(own) if own.holds() => return Ok(TransactionEnd::RollBack(own.grant(self.now))),
            Some(_) => self.write(
                Statement::Heartbeat,
                [SqlValue::id(claim.id), SqlValue::Int(micros(claim.wait_lease))],
            ),
            None => {
                self.ticket += 1;
                let channel = channel.unwrap_or_default().to_vec();
                self.new = Some(Entry::waiting(claim, channel, self.ticket, self.now));
            }
        }
        let ticket = own.map_or(self.ticket, |own| own.ticket);
        let advanced = self.advance(Some(claim)).await?;
        if let Some(grant) = advanced.granted {
            return Ok(self.commit(Verdict::Granted(grant)));
        }
        if is_try {
            return Ok(TransactionEnd::RollBack(Verdict::Busy(self.busy(claim, &advanced, None, channel))));
        }
        let ahead = self.count_ahead(ticket, &advanced).await?;
        let busy = self.busy(claim, &advanced, Some(ahead), channel);
        Ok(self.commit(Verdict::Busy(busy)))
    }

    /// Releases a claim that one statement could not release.
    pub(super) async fn release(
        mut self,
        claim: &Claim,
        own: Option<Entry>,
    ) -> Result<TransactionEnd<Released>> {
        if self.uncontended_holder.as_ref().is_some_and(|holder| holder.id == claim.id) {
            self.write(Statement::ReleaseUncontended, [SqlValue::id(claim.id)]);
            return Ok(TransactionEnd::Commit(Released::Freed, self.writes));
        }
        let Some(own) = own else { return Ok(TransactionEnd::RollBack(Released::NotHeld)) };
        self.delete(own.ticket);
        if own.is_revocation_record() {
            // It was in no queue, and the lock may have an uncontended holder.
            return Ok(TransactionEnd::Commit(Released::Revoked, self.writes));
        }
        self.advance(None).await?;
        let was_over = own.holds() && own.is_expired(self.now);
        Ok(self.commit(if was_over { Released::NotHeld } else { Released::Freed }))
    }

    /// Revokes one holder.
    pub(super) async fn revoke(
        mut self,
        id: ClaimId,
        own: Option<Entry>,
        how: Revoke,
    ) -> Result<TransactionEnd<Revoked>> {
        let at_once = SqlValue::Int(how.is_now().into());
        if how.is_now() {
            self.write(Statement::ForgetRevoked, []);
        }
        if let Some(holder) = self.uncontended_holder.take_if(|holder| holder.id == id) {
            if !how.is_now() {
                self.write(Statement::RevokeUncontended, [SqlValue::id(id), at_once]);
                return Ok(TransactionEnd::Commit(Revoked::Done, self.writes));
            }
            self.write(Statement::InsertEntry, holder.revocation_record().values());
            return Ok(self.commit(Revoked::Done));
        }
        let Some(own) = own.filter(Entry::holds) else {
            return Ok(TransactionEnd::RollBack(Revoked::NotHeld));
        };
        self.write(Statement::RevokeQueued, [SqlValue::id(id), at_once]);
        if how.is_now() {
            self.front.retain(|entry| entry.ticket != own.ticket);
            self.advance(None).await?;
        }
        Ok(self.commit(Revoked::Done))
    }

    /// Removes expired entries from the queue, without a claim of its own.
    pub(super) async fn tidy(mut self) -> Result<TransactionEnd<()>> {
        if !self.is_contended {
            return Ok(TransactionEnd::RollBack(()));
        }
        self.advance(None).await?;
        Ok(self.commit(()))
    }

    /// Makes the claim the holder of a lock that has no waiter.
    fn take_row(mut self, claim: &Claim) -> TransactionEnd<Verdict> {
        let token = self.next_token();
        let until = self.now.saturating_add(micros(claim.ttl));
        self.write(
            Statement::TakeRow,
            [
                SqlValue::Int(token),
                SqlValue::id(claim.id),
                SqlValue::Int(until),
                SqlValue::Int(self.now),
                SqlValue::bytes(claim.note.as_str().as_bytes()),
                owner_value(claim.owner.as_ref()),
            ],
        );
        let grant = Grant { token: Some(token as u64), valid: Valid::For(claim.ttl) };
        TransactionEnd::Commit(Verdict::Granted(grant), self.writes)
    }

    /// Replaces a holder with the same owner (C13). `waiting` is the claim's entry as a waiter.
    fn take_over(mut self, claim: &Claim, holder: &Entry, waiting: Option<Entry>) -> TransactionEnd<Verdict> {
        self.delete(holder.ticket);
        if let Some(waiting) = waiting {
            self.delete(waiting.ticket);
        }
        let token = self.next_token();
        let mut entry = Entry::waiting(claim, Vec::new(), holder.ticket, self.now);
        (entry.token, entry.expires) = (token, self.now.saturating_add(micros(claim.ttl)));
        self.write(Statement::InsertEntry, entry.values());
        let grant = Grant { token: Some(token as u64), valid: Valid::For(claim.ttl) };
        self.commit(Verdict::Granted(grant))
    }

    /// Walks through the queue from its front: deletes expired entries, and grants the lock to waiters until
    /// one is not compatible with the holders. The claim in `caller` learns of its grant by the answer, and
    /// needs no notification.
    async fn advance(&mut self, caller: Option<&Claim>) -> Result<Advanced> {
        let (mut advanced, mut admission) = (Advanced::default(), Admission::default());
        while !admission.is_full()
            && let Some((mut entry, is_new)) = self.next().await?
        {
            let own = caller.filter(|claim| claim.id == entry.id);
            if entry.is_expired(self.now) && (entry.holds() || own.is_none()) {
                self.delete(entry.ticket);
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
                self.grant(&mut entry, is_new, own);
                let token = Some(entry.token as u64);
                advanced.granted =
                    own.map(|claim| Grant { token, valid: Valid::For(claim.ttl) }).or(advanced.granted);
            }
            admission.count(entry.mode);
            advanced.holders.push(entry);
        }
        let has_waiters = !self.front.is_empty() || self.new.is_some();
        self.is_contended = has_waiters || !advanced.holders.is_empty();
        if let Some(new) = self.new.take() {
            self.write(Statement::InsertEntry, new.values());
        }
        Ok(advanced)
    }

    /// The next entry of the queue, and whether it is the new one, which is the last.
    async fn next(&mut self) -> Result<Option<(Entry, bool)>> {
        while self.front.is_empty()
            && let Some(ticket) = self.read_to.take()
        {
            let values = [SqlValue::Bytes(self.name.clone()), SqlValue::Int(ticket), SqlValue::Int(PAGE)];
            let queries = vec![Query::new(Statement::ReadPage, values), Query::new(Statement::Now, [])];
            let answers = self.transaction.run(queries).await?;
            let [page, now] = &answers[..] else { return Err(corrupt_table()) };
            self.now = read_now(now)?;
            let rows = &page.rows;
            self.front = rows.iter().map(|row| Entry::read(row)).collect::<Result<_>>()?;
            self.read_to =
                (rows.len() as i64 == PAGE).then(|| self.front.back().map_or(0, |last| last.ticket));
        }
        let next = self.front.pop_front().map(|entry| (entry, false));
        Ok(next.or_else(|| self.new.take().map(|entry| (entry, true))))
    }

    /// Makes a waiting entry a holder. `own` is the caller's claim, if the entry belongs to it.
    fn grant(&mut self, entry: &mut Entry, is_new: bool, own: Option<&Claim>) {
        entry.token = self.next_token();
        let lease = own.map_or(entry.hand_over, |claim| micros(claim.ttl));
        entry.expires = self.now.saturating_add(lease);
        if is_new {
            return self.write(Statement::InsertEntry, entry.values());
        }
        let values = [entry.ticket, entry.token, entry.expires, self.now].map(SqlValue::Int);
        self.write(Statement::GrantEntry, values);
        if own.is_none() && !entry.channel.is_empty() {
            let message = format!("{} {}", entry.id, entry.token).into_bytes();
            let values = [SqlValue::bytes(&entry.channel), SqlValue::Bytes(message)];
            self.writes.push(Query::new(Statement::Notify, values));
        }
    }

    /// Above the newest token, and not below the database's clock.
    fn next_token(&mut self) -> i64 {
        self.token = self.now.max(self.token + 1);
        self.token
    }

    fn delete(&mut self, ticket: i64) {
        self.front.retain(|entry| entry.ticket != ticket);
        self.write(Statement::DeleteEntry, [SqlValue::Int(ticket)]);
    }

    fn write<const N: usize>(&mut self, statement: Statement, values: [SqlValue; N]) {
        let name = [SqlValue::Bytes(self.name.clone())];
        self.writes.push(Query::new(statement, name.into_iter().chain(values).collect::<Vec<_>>()));
    }

    fn commit<V>(mut self, answer: V) -> TransactionEnd<V> {
        let values = [self.token, self.is_contended.into(), self.ticket].map(SqlValue::Int);
        self.write(Statement::WriteRow, values);
        TransactionEnd::Commit(answer, self.writes)
    }

    /// The number of entries before this ticket.
    async fn count_ahead(&mut self, ticket: i64, advanced: &Advanced) -> Result<u32> {
        let known = advanced.holders.len() + self.front.iter().filter(|entry| entry.ticket < ticket).count();
        if self.read_to.is_none() {
            return Ok(known as u32);
        }
        let values = [SqlValue::Bytes(self.name.clone()), SqlValue::Int(ticket)];
        let answers = self.transaction.run(vec![Query::new(Statement::CountAhead, values)]).await?;
        let count = answers.first().and_then(QueryResult::scalar);
        Ok(count.ok_or_else(corrupt_table)?.as_int()? as u32)
    }

    fn busy(&self, claim: &Claim, advanced: &Advanced, ahead: Option<u32>, channel: Option<&[u8]>) -> Busy {
        let first_end = advanced.holders.iter().map(|holder| holder.expires - self.now).min();
        let first_end = Duration::from_micros(first_end.unwrap_or_default().max(1_000) as u64);
        let mut busy = Busy::new(first_end);
        busy.holder = advanced.holders.first().map(|holder| holder.describe(self.now));
        let Some(ahead) = ahead else { return busy };
        let is_next = ahead as usize <= advanced.holders.len();
        busy.again_in = wait::recheck_in(claim, is_next.then_some(first_end));
        if channel.is_none() {
            let held_since = advanced.holders.iter().map(|holder| holder.since).max().unwrap_or(self.now);
            let held_for = Duration::from_micros((self.now - held_since).max(0) as u64);
            let holders = advanced.holders.len() as u32;
            busy.again_in = busy.again_in.min(poll::poll_in(claim, held_for, ahead, holders));
        }
        busy.position = Some(ahead);
        busy.floor = Some(self.token as u64);
        busy
    }
}

fn read_now(answer: &QueryResult) -> Result<i64> {
    answer.scalar().ok_or_else(corrupt_table)?.as_int()
}
