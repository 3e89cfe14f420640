//! What the handles of one client share: its claims, opening connections, and waiting in the server.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use super::super::sweep::Sweeps;
use super::claims::{Claims, State, Wait};
use super::connection::{Ended, in_time};
use super::line::{Facts, Line};
use super::{Connection, Key, Moving, Server};
use crate::engine::{Claim, ClaimId, Grant, Valid};
use crate::names::BuildIdentityHasher;
use crate::net::own_thread::OwnThread;
use crate::poison::lock_ignoring_poison;
use crate::{Effect, Error, ErrorKind, LockName, Result};

/// How many connections that nobody waits on any more are kept. They hold nothing.
const MOST_IDLE: usize = 2;

/// The keys of how many names are remembered.
const MOST_KEYS: usize = 1_024;

/// A connection that is not set up yet. Dropped, it does not wait for answers that may never come.
struct HalfOpen<'a>(&'a Moving);

impl Drop for HalfOpen<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// One who waits in the server. Dropped with its runtime, it lets the claim ask again, and ends the connection that it waited on.
struct Untold<'a, S: Server> {
    office: &'a Office<S>,
    id: ClaimId,
    wait: Wait,
}

impl<S: Server> Drop for Untold<'_, S> {
    fn drop(&mut self) {
        self.office.tell(self.id, self.wait, State::Waited(None), None);
    }
}

/// A client's claims and connections.
pub(super) struct Office<S: Server> {
    pub(super) server: S,
    pub(super) claims: Arc<Claims<S::Connection>>,
    /// Of names that were used lately: to make one takes longer than anything else that a free lock needs here.
    keys: Mutex<HashMap<LockName, Key, BuildIdentityHasher>>,
    idle: Mutex<Vec<Arc<Line<S::Connection>>>>,
    pub(super) thread: OwnThread,
    pub(super) sweeps: Sweeps,
}

impl<S: Server> Office<S> {
    pub(super) fn new(server: S, thread: OwnThread) -> Arc<Self> {
        let (keys, idle) = (Mutex::default(), Mutex::default());
        let (claims, sweeps) = (Arc::default(), Sweeps::from_now());
        Arc::new(Self { server, claims, keys, idle, thread, sweeps })
    }

    /// What the server knows a lock by.
    pub(super) fn key(&self, name: &LockName) -> Key {
        let mut keys = lock_ignoring_poison(&self.keys);
        if let Some(key) = keys.get(name) {
            return *key;
        }
        if keys.len() >= MOST_KEYS {
            keys.clear();
        }
        let key = self.server.key(name);
        keys.insert(name.clone(), key);
        key
    }

    /// Whether a claim gets a token.
    pub(super) fn fences(&self, claim: &Claim) -> bool {
        claim.fenced || self.server.terms().fences_all
    }

    /// Opens a connection, on the runtime of the caller.
    pub(super) async fn open(&self) -> Result<Line<S::Connection>> {
        let facts = Facts::new(self.server.terms().ttl);
        let (claims, ended) = (Arc::downgrade(&self.claims), facts.clone());
        let tell = move || {
            ended.close();
            if let Some(claims) = claims.upgrade() {
                claims.line_ended(&ended);
            }
        };
        let moving = Moving::new(self.thread.clone(), Ended::new(tell));
        let half_open = HalfOpen(&moving);
        let connection = in_time(&self.server, &self.thread, moving.moved(self.server.open(&moving))).await?;
        std::mem::forget(half_open);
        Ok(Line { connection, facts, moving })
    }

    /// Keeps a connection that holds nothing, for the next that waits.
    pub(super) fn keep(&self, line: Arc<Line<S::Connection>>) {
        let mut idle = lock_ignoring_poison(&self.idle);
        let is_new = !idle.iter().any(|other| Arc::ptr_eq(other, &line));
        if is_new && idle.len() < MOST_IDLE && !line.is_over() {
            idle.push(line);
        }
    }

    fn kept(&self) -> Option<Arc<Line<S::Connection>>> {
        let mut idle = lock_ignoring_poison(&self.idle);
        std::iter::from_fn(|| idle.pop()).find(|line| !line.is_over())
    }

    /// Waits in the server for a slice, and says so to the claim. If that is gone by then, its connection ends, and with it
    /// whatever it was granted.
    pub(super) async fn wait_in_server(self: Arc<Self>, claim: Arc<Claim>, wait: Wait) {
        let untold = Untold { office: &self, id: claim.id, wait };
        let waited = self.wait_on_a_line(&claim, wait).await;
        // Whoever is told may wait again at once, and is not to be disturbed then.
        std::mem::forget(untold);
        let waited = match waited {
            Ok(Some((line, token))) => {
                let is_told = self.tell(claim.id, wait, State::Held(token), Some(line.clone()));
                if !is_told {
                    line.close();
                }
                return;
            }
            Ok(None) => None,
            Err(error) => Some(Arc::new(error)),
        };
        self.tell(claim.id, wait, State::Waited(waited), None);
    }

    /// Whether the claim still waited to be told.
    fn tell(&self, id: ClaimId, wait: Wait, state: State, line: Option<Arc<Line<S::Connection>>>) -> bool {
        self.claims.update_wait(id, wait, |entry| {
            (entry.state, entry.line) = (state, line);
            entry.bell.iter().for_each(|bell| bell.notify_one());
        })
    }

    async fn wait_on_a_line(
        &self,
        claim: &Claim,
        wait: Wait,
    ) -> Result<Option<(Arc<Line<S::Connection>>, Option<u64>)>> {
        let line = match self.kept() {
            Some(line) => line,
            None => Arc::new(self.open().await?),
        };
        if !self.claims.update_wait(claim.id, wait, |entry| entry.line = Some(line.clone())) {
            self.keep(line);
            return Ok(None);
        }
        let key = self.key(&claim.name);
        if !line.ask(line.connection.wait_lock(key, &claim.note)).await? {
            // No longer this claim's when it is told: its connection may be the next one's by then.
            if self.claims.update_wait(claim.id, wait, |entry| entry.line = None) {
                self.keep(line);
            }
            return Ok(None);
        }
        let token = match self.fences(claim) {
            true => match line.ask(line.connection.draw_token(&claim.name)).await {
                Ok(token) => Some(token),
                Err(error) => {
                    // It would hold on without anybody who knows.
                    line.close();
                    return Err(error);
                }
            },
            false => None,
        };
        Ok(Some((line, token)))
    }

    /// A lock that is held on this connection. Much of a ttl may have passed while it waited for it.
    ///
    /// # Errors
    /// If that has ended meanwhile.
    pub(super) async fn grant(
        self: &Arc<Self>,
        line: &Arc<Line<S::Connection>>,
        token: Option<u64>,
    ) -> Result<Grant> {
        if token.is_some() && self.sweeps.is_time() {
            self.sweep_if_due(line.clone());
        }
        line.beat(self.server.terms().ttl / 2).await;
        if line.is_over() {
            return Err(self.ended().with_effect(Effect::Unknown));
        }
        Ok(Grant { token, valid: Valid::Until(line.certain_until()) })
    }

    pub(super) fn ended(&self) -> Error {
        let message = format!("{} at {}: the connection ended", self.server.engine(), self.server.place());
        Error::new(ErrorKind::Unreachable, message)
    }
}
