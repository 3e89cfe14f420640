//! The engine for `scheme=session`, and its common connection. Each verb has a file of its own.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::OwnedMutexGuard;

use super::leased_connection::LeasedConnection;
use super::session_pool::SessionPool;
use super::session_store::open_in_time;
use super::{SessionConnection, SessionStore};
use crate::clock::Clock;
use crate::engine::{ClaimId, SharedCells};
use crate::net::own_thread::OwnThread;
use crate::poison::lock_ignoring_poison;
use crate::{Effect, Error, ErrorKind, Faults, Guarantees, Promise, Result};

/// A client of a server that keeps locks for connections.
pub(in crate::engines) struct SessionEngine<S: SessionStore>(pub(super) Arc<Shared<S>>);

pub(super) struct Shared<S: SessionStore> {
    pub(super) pool: Arc<SessionPool<S>>,
    /// The connection on which free locks are claimed.
    common: Mutex<Option<Arc<LeasedConnection<S::Connection>>>>,
    /// Held by the task that opens it.
    opening: Mutex<Arc<OpeningMutex>>,
}

type OpeningMutex = tokio::sync::Mutex<()>;

/// How long to wait for the task that opens the common connection. Its runtime may be blocked.
const OPENING_LIMIT: Duration = Duration::from_secs(2);

pub(in crate::engines) fn promises(engine: &'static str, ttl: Duration) -> Guarantees {
    Guarantees {
        engine,
        tokens: Some("only with .fenced(): max(counter + 1, the database's clock in us)"),
        tokens_survive_data_loss: true,
        fair: false,
        // MySQL and MariaDB report the holder of a GET_LOCK lock, but not its waiters.
        lists_waiters: engine == "postgres-session",
        pushes: true,
        tells_losses: true,
        tells_revocations: false,
        lives_with_session: true,
        read_write: false,
        permits: false,
        cells: false,
        watchers_told: "-",
        takes_over: false,
        survives_blocked_runtime: true,
        outlives_wrapper: false,
        min_ttl: ttl,
        max_ttl: Duration::from_secs(24 * 60 * 60),
        ttl_option: Some("session-ttl"),
        dead_holder: "until its connection ends: at once; if its host vanished, the session's ttl",
        faults: Faults {
            holder_crash: Promise::Exclusive,
            holder_pause: Promise::FencedOnly,
            restart: Promise::FencedOnly,
            failover: Promise::FencedOnly,
            partition: Promise::FencedOnly,
            clock_step: Promise::Exclusive,
            data_deleted: Promise::NotApplicable,
        },
        beware: "fenced means with .fenced(): without it nothing reveals that the server dropped the lock first; a lock can be \
                 inspected by its name only, and revoking one ends its holder's connection with all locks on it",
        warnings: Vec::new(),
    }
}

impl<S: SessionStore> Clone for SessionEngine<S> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<S: SessionStore> SessionEngine<S> {
    /// Connects to a server, after a check that it is fit for session locks.
    ///
    /// # Errors
    /// If it is unfit or cannot be reached.
    pub(in crate::engines) async fn connect(store: S) -> Result<Self> {
        let thread = OwnThread::start("latch-sessions").map_err(|error| {
            let message = format!("{}: no thread can be started: {error}", store.engine());
            Error::new(ErrorKind::Unreachable, message)
        })?;
        open_in_time(&store, &thread, store.refuse_unfit()).await?;
        let (pool, common) = (SessionPool::new(store, thread), Mutex::default());
        let engine = Self(Arc::new(Shared { pool, common, opening: Mutex::default() }));
        engine.0.common().await?;
        Ok(engine)
    }

    pub(in crate::engines) fn guarantees(&self) -> Guarantees {
        let store = &self.0.pool.store;
        promises(store.engine(), store.terms().ttl)
    }

    pub(in crate::engines) fn clock(&self) -> Clock {
        Clock::boottime()
    }

    /// Session locks store no values.
    pub(in crate::engines) fn cells(&self) -> Option<SharedCells> {
        None
    }

    /// Uses the same connections, because only they can keep their locks. The client's own thread drives them
    /// while their runtime is blocked.
    pub(in crate::engines) async fn fork(&self) -> Result<Self> {
        Ok(self.clone())
    }

    pub(in crate::engines) async fn lost_hints(&self) -> Vec<ClaimId> {
        self.0.pool.claims.loss_hints.take().await
    }
}

impl<S: SessionStore> Shared<S> {
    /// The common connection. Opens a new one if the last has ended.
    pub(super) async fn common(&self) -> Result<Arc<LeasedConnection<S::Connection>>> {
        if let Some(leased) = self.usable_common() {
            return Ok(leased);
        }
        Box::pin(async {
            let _opening = self.lock_opening().await;
            if let Some(leased) = self.usable_common() {
                return Ok(leased); // Another task was faster.
            }
            let leased = Arc::new(self.pool.open().await?);
            // A task that took longer than the limit may find the common connection of another task, with
            // locks on it. That one stays.
            let mut common = lock_ignoring_poison(&self.common);
            if let Some(first) = common.as_ref().filter(|first| !first.is_unusable()) {
                return Ok(first.clone());
            }
            *common = Some(leased.clone());
            Ok(leased)
        })
        .await
    }

    /// The right to open the common connection: one task opens it, and the others use it.
    async fn lock_opening(&self) -> OwnedMutexGuard<()> {
        loop {
            let mutex = lock_ignoring_poison(&self.opening).clone();
            let locking = mutex.clone().lock_owned();
            if let Some(guard) = self.pool.thread.in_time(OPENING_LIMIT, locking).await {
                return guard;
            }
            // Later tasks, and those that have waited for as long, use a new mutex.
            let mut opening = lock_ignoring_poison(&self.opening);
            if Arc::ptr_eq(&opening, &mutex) {
                *opening = Arc::default();
            }
        }
    }

    pub(super) fn usable_common(&self) -> Option<Arc<LeasedConnection<S::Connection>>> {
        lock_ignoring_poison(&self.common).clone().filter(|leased| !leased.is_unusable())
    }

    pub(super) fn is_common(&self, leased: &Arc<LeasedConnection<S::Connection>>) -> bool {
        lock_ignoring_poison(&self.common).as_ref().is_some_and(|common| Arc::ptr_eq(common, leased))
    }

    /// Closes a connection, and ends it on the server as well, which may not have noticed.
    pub(super) async fn terminate(&self, leased: &LeasedConnection<S::Connection>) -> Result<()> {
        leased.close();
        let mut ended = Err(self.pool.connection_ended());
        // Twice, because the failure that broke this connection may have broken the common one, too.
        for _ in 0..2 {
            let common = self.common().await.map_err(|error| error.with_effect(Effect::Unknown))?;
            ended = common.request(common.connection.terminate(leased.connection.backend())).await.map(drop);
            if ended.is_ok() || !common.is_unusable() {
                break;
            }
        }
        // If the server refuses, the connection may still hold locks.
        ended.map_err(|error| error.with_effect(Effect::Unknown))
    }
}
