//! `sqlite:` the embedded default: one file, many processes of one machine, no server.
//!
//! An uncontended lock costs one statement, and so does its release. A contended lock has a queue in the
//! file: the releasing client writes the grant of the next waiter, and sends a message to that waiter's FIFO.
//! Each waiter also keeps the FIFO of the client ahead open, which reports at once when that client dies. All
//! processes read one clock (`CLOCK_BOOTTIME`), so leases need no allowance for drift.

mod cells;
mod claim;
mod doorbell;
mod entry;
mod errors;
mod inspect;
mod location;
mod message;
mod peer;
mod queue;
mod release;
mod renew;
mod session;
mod shared_store;
mod store;
mod sweep;

use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rusqlite::{Connection, params};

use self::doorbell::{Doorbell, QueuePosition};
use self::entry::{lease_end, valid};
use self::errors::{shut_down, unusable};
use self::location::{Location, home_and_database};
use self::peer::{Outbox, Peer, any_died, send_all};
use self::queue::{Queue, now};
use self::session::Session;
use self::shared_store::SharedStore;
use self::store::{Blocking, Store, first, transaction};
use crate::clock::{self, Clock};
use crate::engine::{
    Busy, Claim, ClaimId, ClaimState, Engine, EngineUrl, Filter, Grant, LockState, Mode, Released, Renewal,
    Revoke, Revoked, SharedCells, Verdict, Wake,
};
use crate::{Effect, Error, ErrorKind, Faults, Guarantees, OwnerId, Promise, Result};

const CLAIM_FREE: &str = include_str!("claim_free.sql");
const RELEASE_FREE: &str = include_str!("release_free.sql");

/// The SQLite engine: one session on one database file.
pub struct Sqlite {
    shared: Arc<Shared>,
    store: Arc<SharedStore>,
}

/// The state that the connections of one session share.
struct Shared {
    location: Location,
    doorbell: Doorbell,
    session: Session,
}

impl Sqlite {
    /// Opens the database at `path`, or creates it. The folder must exist and be on a local file system.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`] or [`ErrorKind::Invalid`] if the path cannot be used, [`ErrorKind::Corrupt`] if
    /// it is not a database, [`ErrorKind::Unsupported`] on a network file system; each names the path.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::open_at(Location::at(path.as_ref())?)
    }

    /// Opens the database of this user, `~/.local/state/latchwork/locks.db`.
    ///
    /// # Errors
    /// As [`Sqlite::open`], and [`ErrorKind::Invalid`] if HOME is not set, or not an existing folder.
    pub fn open_default() -> Result<Self> {
        Self::open_at(Location::of_this_user()?)
    }

    /// The path of the database of this user, which [`Sqlite::open_default`] opens. It need not exist.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if HOME is not set.
    pub fn default_path() -> Result<PathBuf> {
        home_and_database().map(|(_, database)| database)
    }

    fn open_at(location: Location) -> Result<Self> {
        let store = Store::open(&location, Blocking::Yes)?;
        Self::with_session(location, store.ok_or_else(shut_down)?)
    }

    /// Opens the database of `url`: that of this user for `sqlite:`, another one for `sqlite:/path`.
    ///
    /// # Guarantees
    /// A wait for another process does not block the thread.
    ///
    /// # Cancel safety
    /// May be dropped at any time; the file may have been created.
    ///
    /// # Errors
    /// As [`Sqlite::open`], and [`ErrorKind::Invalid`] for an unknown option.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use latchwork::{Client, engines::Sqlite};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let url = format!("sqlite:{}", folder.path().join("locks.db").display());
    /// let client = Client::new(Sqlite::connect(&url.parse()?).await?);
    /// assert!(client.lock("report").try_acquire().await?.is_some());
    /// # Ok(()) }
    /// ```
    pub async fn connect(url: &EngineUrl) -> Result<Self> {
        url.expect_only(&[])?;
        if url.hosts().next().is_some() {
            let message = "sqlite: takes a path on this machine; write sqlite:/path/locks.db with one slash";
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        let location = match url.path() {
            "" => Location::of_this_user()?,
            path => Location::at(path.as_ref())?,
        };
        let store = open_store(&location).await?;
        Self::with_session(location, store)
    }

    fn with_session(location: Location, store: Store) -> Result<Self> {
        let session = Session::create(&location.sessions, location.file_mode);
        let session = session.map_err(|error| unusable(&location.sessions, error))?;
        let shared = Arc::new(Shared { location, doorbell: Doorbell::default(), session });
        Ok(Self { shared, store: SharedStore::new(store) })
    }

    /// A descriptor that keeps this session alive: while any process has it open, other clients treat the
    /// claims of this session as those of a living process. Their leases still end.
    ///
    /// # Errors
    /// [`ErrorKind::Unreachable`] if this process has no descriptor left.
    pub fn session_descriptor(&self) -> Result<OwnedFd> {
        self.shared.session.descriptor().map_err(|error| unusable(&self.shared.location.sessions, error))
    }

    pub(crate) fn promises() -> Guarantees {
        Guarantees {
            engine: "sqlite",
            tokens: Some("max(counter + 1, wall clock in us)"),
            tokens_survive_data_loss: true,
            fair: true,
            lists_waiters: true,
            pushes: true,
            tells_losses: false,
            tells_revocations: true,
            lives_with_session: false,
            read_write: true,
            permits: true,
            cells: true,
            watchers_told: "within 25 ms: they look",
            takes_over: true,
            survives_blocked_runtime: true,
            outlives_wrapper: true,
            min_ttl: Duration::from_millis(100),
            max_ttl: Duration::from_secs(24 * 60 * 60),
            ttl_option: None,
            dead_holder: "milliseconds: the kernel tells the next waiter",
            faults: Faults {
                holder_crash: Promise::Exclusive,
                holder_pause: Promise::FencedOnly,
                restart: Promise::Exclusive,
                failover: Promise::NotApplicable,
                partition: Promise::NotApplicable,
                clock_step: Promise::Exclusive,
                data_deleted: Promise::FencedOnly,
            },
            beware: "one machine only; network file systems are refused",
            warnings: Vec::new(),
        }
    }

    /// Runs `work` as the only writer, then sends its messages: inline if no other process writes, else on a
    /// thread that may wait.
    async fn write<T: Send + 'static>(
        &self,
        work: impl Fn(&Shared, &Connection) -> rusqlite::Result<(T, Outbox)> + Send + 'static,
    ) -> Result<T> {
        let shared = self.shared.clone();
        self.store.run(move |store, blocking| shared.write(store, blocking, &work)).await
    }
}

/// Opens the database without blocking an async thread.
async fn open_store(location: &Location) -> Result<Store> {
    if let Some(store) = Store::open(location, Blocking::No)? {
        return Ok(store);
    }
    let location = location.clone();
    let waiting = tokio::task::spawn_blocking(move || Store::open(&location, Blocking::Yes));
    waiting.await.unwrap_or(Ok(None))?.ok_or_else(shut_down)
}

impl Shared {
    /// Sends the messages after the commit, when the write lock is released: a woken client must not find it
    /// locked.
    fn write<T>(
        &self,
        store: &mut Store,
        blocking: Blocking,
        work: &impl Fn(&Self, &Connection) -> rusqlite::Result<(T, Outbox)>,
    ) -> Result<Option<T>> {
        let restore_session = |folder: &File| {
            let was_removed = self.session.restore(folder)?;
            if was_removed {
                self.doorbell.restart();
            }
            Ok(was_removed)
        };
        let done = store.write(blocking, restore_session, |db| work(self, db))?;
        Ok(done.map(|(done, outbox)| {
            send_all(outbox);
            done
        }))
    }

    fn queue<'a>(&'a self, db: &'a Connection) -> Queue<'a> {
        Queue::new(db, self.session.id(), self.session.folder())
    }

    fn claim(&self, db: &Connection, claim: &Claim) -> rusqlite::Result<(Verdict, Outbox)> {
        if claim.mode == Mode::Exclusive
            && let Some(grant) = self.claim_free(db, claim)?
        {
            self.doorbell.forget(claim.id);
            return Ok((Verdict::Granted(grant), Outbox::new()));
        }
        if !claim.wait_lease.is_zero() {
            self.doorbell.expect(claim.id);
        }
        let mut queue = self.queue(db);
        let verdict = transaction(db, |_| queue.claim(claim))?;
        self.doorbell.set_position(claim.id, queue.position);
        Ok((verdict, queue.outbox))
    }

    fn claim_free(&self, db: &Connection, claim: &Claim) -> rusqlite::Result<Option<Grant>> {
        let (until, wall, session) =
            (lease_end(now(), claim), clock::wall_micros() as i64, self.session.id() as i64);
        let (note, owner) = (claim.note.as_str(), claim.owner.as_ref().map(OwnerId::as_str));
        let values = params![claim.name.as_str(), wall, claim.id.as_bytes(), session, until, note, owner];
        let token = first(db.prepare_cached(CLAIM_FREE)?, values, |row| row.get::<_, i64>(0))?;
        Ok(token.map(|token| Grant { token: Some(token as u64), valid: valid(until) }))
    }

    /// `position`: the position of the claim if it was ever queued. The queue is then read first.
    fn release(
        &self,
        db: &Connection,
        claim: &Claim,
        position: Option<QueuePosition>,
    ) -> rusqlite::Result<(Released, Outbox)> {
        let release_free = || -> rusqlite::Result<bool> {
            let mut statement = db.prepare_cached(RELEASE_FREE)?;
            Ok(statement.execute(params![claim.name.as_str(), claim.id.as_bytes()])? == 1)
        };
        if position.is_none() && release_free()? {
            return Ok((Released::Freed, Outbox::new()));
        }
        let mut queue = self.queue(db);
        let mut released = transaction(db, |_| {
            if let Some(position) =
                position.filter(|position| position.token != 0 && claim.mode == Mode::Exclusive)
                && queue.hand_over(claim, position)?
            {
                return Ok(Released::Freed);
            }
            queue.release(claim)
        })?;
        if position.is_some() && released == Released::NotHeld && release_free()? {
            released = Released::Freed;
        }
        Ok((released, queue.outbox))
    }
}

impl Engine for Sqlite {
    fn guarantees(&self) -> Guarantees {
        Self::promises()
    }

    fn clock(&self) -> Clock {
        Clock::boottime()
    }

    async fn fork(&self) -> Result<Self> {
        let store = open_store(&self.shared.location).await?;
        Ok(Self { shared: self.shared.clone(), store: SharedStore::new(store) })
    }

    async fn claim(&self, claim: &Claim) -> Result<Verdict> {
        let owned = claim.clone();
        let verdict = self.write(move |shared, db| shared.claim(db, &owned)).await;
        if verdict.as_ref().is_err_and(|error| error.effect() == Effect::None) {
            // No release need follow (C11). The repetition of a waiting claim expects messages again.
            self.shared.doorbell.forget(claim.id);
        }
        verdict
    }

    async fn wait(&self, claim: &Claim, busy: &Busy) -> Result<Wake> {
        let failed = |error| unusable(self.shared.session.folder(), error);
        let mut watched = Vec::new();
        for session in busy.mark.0.as_chunks().0 {
            match Peer::open(self.shared.session.folder(), u64::from_ne_bytes(*session)).map_err(failed)? {
                Some(peer) => watched.push(peer),
                None => return Ok(Wake::Recheck), // It died since the claim.
            }
        }
        tokio::select! {
            // Messages first: a holder that hands the lock over and exits at once also dies.
            biased;
            message = self.shared.doorbell.next(claim.id, &self.shared.session) => {
                let message = message.map_err(failed)?;
                let grant = Grant { token: Some(message.token), valid: valid(message.until) };
                Ok(if message.is_grant() { Wake::Granted(grant) } else { Wake::Recheck })
            }
            died = any_died(watched) => died.map(|()| Wake::Recheck).map_err(failed),
        }
    }

    async fn renew(&self, claims: &[Arc<Claim>]) -> Vec<Result<Renewal>> {
        let owned = claims.to_vec();
        let answers = self.write(move |shared, db| {
            let queue = shared.queue(db);
            let renew = |claim: &Arc<Claim>| queue.renew(claim);
            let answers = transaction(db, |_| owned.iter().map(renew).collect::<rusqlite::Result<Vec<_>>>())?;
            Ok((answers, queue.outbox))
        });
        match answers.await {
            Ok(answers) => answers.into_iter().map(Ok).collect(),
            Err(error) => claims.iter().map(|_| Err(error.again())).collect(),
        }
    }

    /// Losses are reported by `renew` only.
    async fn lost_hints(&self) -> Vec<ClaimId> {
        std::future::pending().await
    }

    async fn release(&self, claim: &Claim) -> Result<Released> {
        let (owned, position) = (claim.clone(), self.shared.doorbell.forget(claim.id));
        self.write(move |shared, db| shared.release(db, &owned, position)).await
    }

    async fn inspect(&self, filter: &Filter) -> Result<Vec<LockState>> {
        let filter = filter.clone();
        self.write(move |shared, db| Ok((shared.queue(db).inspect(&filter)?, Outbox::new()))).await
    }

    async fn revoke(&self, lock: &LockState, how: Revoke) -> Result<Revoked> {
        let lock = lock.clone();
        self.write(move |shared, db| {
            let mut queue = shared.queue(db);
            let mut revoke = |holder: &ClaimState| queue.revoke(lock.name.as_str(), holder.id, how);
            let revoked = transaction(db, |_| {
                lock.holders.iter().map(&mut revoke).collect::<rusqlite::Result<Vec<_>>>()
            })?;
            let done = revoked.contains(&Revoked::Done);
            Ok((if done { Revoked::Done } else { Revoked::NotHeld }, queue.outbox))
        })
        .await
    }

    fn cells(&self) -> Option<SharedCells> {
        let (shared, store) = (self.shared.clone(), self.store.clone());
        Some(SharedCells::new(Self { shared, store }))
    }
}
