//! The queue of a contended lock, inside one transaction: remove dead holders, grant, hand over.

use std::path::Path;

use rusqlite::{Connection, params};

use super::doorbell::QueuePosition;
use super::entry::{Entry, delete, entry_after, lease_end, valid};
use super::message::FifoMessage;
use super::peer::{Outbox, Peer};
use super::store::first;
use crate::clock::{self, Clock};
use crate::engine::{Claim, Grant};
use crate::engines::admission::Admission;
use crate::token::next_engine_token;

/// The acting session, its open transaction, and the messages to send after the commit.
pub(super) struct Queue<'a> {
    pub(super) db: &'a Connection,
    pub(super) session: u64,
    pub(super) sessions: &'a Path,
    pub(super) now: i64,
    pub(super) outbox: Outbox,
    /// The place of the claim that the transaction is for.
    pub(super) position: QueuePosition,
}

/// A queue whose dead holders were removed, and whose admitted waiters were granted the lock.
#[derive(Default)]
pub(super) struct SettledQueue {
    pub(super) holders: Vec<Entry>,
    /// The grant of the claim that the transaction is for.
    pub(super) granted: Option<Grant>,
    /// Whether another claim was granted the lock.
    pub(super) handed_over: bool,
}

/// Microseconds on the clock that leases are counted on.
pub(super) fn now() -> i64 {
    Clock::boottime().now().as_micros() as i64
}

impl<'a> Queue<'a> {
    pub(super) fn new(db: &'a Connection, session: u64, sessions: &'a Path) -> Self {
        Self { db, session, sessions, now: now(), outbox: Outbox::new(), position: QueuePosition::default() }
    }

    /// `None` if the session is dead. An error ends the transaction, because a wrong guess would take the
    /// lock of a living holder.
    pub(super) fn peer(&self, session: u64) -> rusqlite::Result<Option<Peer>> {
        Peer::open(self.sessions, session)
            .map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))
    }

    pub(super) fn is_dead(&self, session: u64) -> rusqlite::Result<bool> {
        Ok(session != self.session && self.peer(session)?.is_none())
    }

    /// Whether the lease or the process of a holder ended.
    pub(super) fn is_gone(&self, holder: &Entry) -> rusqlite::Result<bool> {
        Ok(holder.expires <= self.now || self.is_dead(holder.session)?)
    }

    /// Removes dead holders of a lock that was not used for long.
    pub(super) fn remove_gone(&mut self, name: &str) -> rusqlite::Result<()> {
        self.settle(name, None).map(drop)
    }

    /// Asks the waiter just behind this place to claim again: the session that it watched left the queue.
    pub(super) fn recheck_behind(&mut self, name: &str, ticket: i64) -> rusqlite::Result<()> {
        match entry_after(self.db, name, ticket)?.filter(|next| !next.holds()) {
            Some(next) => self.send_recheck(&next),
            None => Ok(()),
        }
    }

    /// Asks a waiter to claim again.
    fn send_recheck(&mut self, waiter: &Entry) -> rusqlite::Result<()> {
        if let Some(peer) = self.peer(waiter.session)? {
            self.outbox.push((peer, FifoMessage::recheck(waiter.id)));
        }
        Ok(())
    }

    /// Removes holders that are gone, and grants the lock to waiters in the order of arrival, for as long as
    /// they may hold beside the holders. Only the sessions of waiters about to be granted are probed: a dead
    /// session never receives the lock, and the cost does not grow with the queue.
    pub(super) fn settle(&mut self, name: &str, caller: Option<&Claim>) -> rusqlite::Result<SettledQueue> {
        let (mut settled, mut admission, mut ticket) = (SettledQueue::default(), Admission::default(), 0);
        while !admission.is_full() {
            let Some(entry) = entry_after(self.db, name, ticket)? else {
                if settled.holders.is_empty() {
                    close_queue(self.db, name)?;
                }
                break;
            };
            ticket = entry.ticket;
            if !entry.holds() && !admission.fits(entry.mode) {
                if settled.handed_over || settled.granted.is_some() {
                    // It watched one waiter, which now holds beside others, and must watch all of them.
                    self.send_recheck(&entry)?;
                }
                break;
            }
            let stays = if entry.holds() {
                !self.is_gone(&entry)?
            } else {
                self.grant(&entry, caller, name, &mut settled)?
            };
            if stays {
                admission.count(entry.mode);
                settled.holders.push(entry);
            } else {
                remove(self.db, name, &entry)?;
            }
        }
        Ok(settled)
    }

    /// Grants the lock to a waiter, unless it is dead.
    fn grant(
        &mut self,
        waiter: &Entry,
        caller: Option<&Claim>,
        name: &str,
        settled: &mut SettledQueue,
    ) -> rusqlite::Result<bool> {
        if let Some(claim) = caller.filter(|claim| claim.id == waiter.id) {
            let until = lease_end(self.now, claim);
            let last = last_token(self.db, name)?.unwrap_or_default();
            let token = write_grant(self.db, name, waiter.ticket, last, until)?;
            raise_token(self.db, name, token)?;
            self.position.token = token;
            settled.granted = Some(Grant { token: Some(token), valid: valid(until) });
            return Ok(true);
        }
        let Some(peer) = self.peer(waiter.session)? else { return Ok(false) };
        let last = last_token(self.db, name)?.unwrap_or_default();
        let token = self.hand_to(name, waiter, peer, last)?;
        raise_token(self.db, name, token)?;
        settled.handed_over = true;
        Ok(true)
    }

    /// Grants the lock to the waiter of another session.
    pub(super) fn hand_to(
        &mut self,
        name: &str,
        waiter: &Entry,
        peer: Peer,
        last: u64,
    ) -> rusqlite::Result<u64> {
        // A short lease until the receiver shows that it is alive: its first renewal makes it a full one.
        let until = self.now.saturating_add(waiter.hand_over);
        let token = write_grant(self.db, name, waiter.ticket, last, until)?;
        self.outbox.push((peer, FifoMessage { id: waiter.id, token, until }));
        Ok(token)
    }
}

/// Whether holders and waiters of the lock stand in `claim`.
pub(super) fn contended(db: &Connection, name: &str) -> rusqlite::Result<bool> {
    let select = db.prepare_cached("SELECT contended FROM lock WHERE name = ?1")?;
    Ok(first(select, [name], |row| row.get(0))?.unwrap_or(false))
}

/// The newest token of the lock, except those of its present holders.
pub(super) fn last_token(db: &Connection, name: &str) -> rusqlite::Result<Option<u64>> {
    let select = db.prepare_cached("SELECT token FROM lock WHERE name = ?1")?;
    first(select, [name], |row| Ok(row.get::<_, i64>(0)? as u64))
}

/// From here on, holders and waiters of the lock stand in `claim`.
pub(super) fn open_queue(db: &Connection, name: &str) -> rusqlite::Result<()> {
    const OPEN: &str = "INSERT INTO lock (name, token, contended) VALUES (?1, (SELECT floor FROM meta), 1) \
         ON CONFLICT (name) DO UPDATE SET contended = 1, id = NULL";
    db.prepare_cached(OPEN)?.execute([name]).map(drop)
}

/// Stores a grant, and returns its token. `last`: the newest token before.
pub(super) fn write_grant(
    db: &Connection,
    name: &str,
    ticket: i64,
    last: u64,
    until: i64,
) -> rusqlite::Result<u64> {
    const GRANT: &str =
        "UPDATE claim SET token = ?3, expires = ?4, since = ?5 WHERE name = ?1 AND ticket = ?2";
    let wall = clock::wall_micros();
    let token = next_engine_token(last, wall);
    db.prepare_cached(GRANT)?.execute(params![name, ticket, token as i64, until, wall as i64])?;
    Ok(token)
}

/// Stores in the row of the lock a token that no row of `claim` will have any more.
pub(super) fn raise_token(db: &Connection, name: &str, token: u64) -> rusqlite::Result<()> {
    let update = db.prepare_cached("UPDATE lock SET token = max(token, ?2) WHERE name = ?1");
    update?.execute(params![name, token as i64]).map(drop)
}

/// Deletes a row of `claim`.
pub(super) fn remove(db: &Connection, name: &str, entry: &Entry) -> rusqlite::Result<()> {
    if entry.holds() {
        raise_token(db, name, entry.token)?;
    }
    delete(db, name, entry.ticket)
}

/// A lock without holders and waiters takes the one-statement path again.
fn close_queue(db: &Connection, name: &str) -> rusqlite::Result<()> {
    db.prepare_cached("UPDATE lock SET contended = 0 WHERE name = ?1")?.execute([name]).map(drop)
}
