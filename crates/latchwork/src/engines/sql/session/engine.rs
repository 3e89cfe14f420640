//! Which request answers which verb.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::OwnedMutexGuard;

use super::Key;
use super::claims::{Entry, Found, State};
use super::connection::{Connection, Server, Tried, in_time};
use super::inspect::state_of;
use super::line::Line;
use super::office::Office;
use crate::clock::Clock;
use crate::engine::{
    Busy, Claim, ClaimId, ClaimState, Lifetime, Mode, Released, Renewal, SharedCells, Valid, Verdict, Wake,
};
use crate::net::own_thread::OwnThread;
use crate::poison::lock_ignoring_poison;
use crate::{Effect, Error, ErrorKind, Faults, Guarantees, Loss, Promise, Result};

/// A client of a server that keeps locks for connections.
pub(in crate::engines) struct Sessions<S: Server>(pub(super) Arc<Inner<S>>);

pub(super) struct Inner<S: Server> {
    pub(super) office: Arc<Office<S>>,
    /// The connection that takes what is free.
    common: Mutex<Option<Arc<Line<S::Connection>>>>,
    /// Those who open it stand here.
    opening: Mutex<Arc<Turns>>,
}

type Turns = tokio::sync::Mutex<()>;

/// What is to be done about a claim.
enum Settled<C> {
    /// To ask for it, on this connection.
    Query(Arc<Line<C>>),
    Answer(Verdict),
}

/// Who waits for longer is told for whom. Most are served by then, and to ask who holds a lock costs the server more than the lock.
const NAMED_AFTER: Duration = Duration::from_millis(50);

/// How long that may take.
const LOOK_LIMIT: Duration = Duration::from_millis(250);

/// How long to wait for who opens the common connection. It may stand still with its runtime.
const TURN_LIMIT: Duration = Duration::from_secs(2);

pub(in crate::engines) fn promises(engine: &'static str, ttl: Duration) -> Guarantees {
    Guarantees {
        engine,
        tokens: Some("only with .fenced(): max(counter + 1, the database's clock in us)"),
        tokens_survive_data_loss: true,
        fair: false,
        // GET_LOCK tells who holds, and nothing more.
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
        beware: "fenced means with .fenced(): without it there is no token to notice by that the server let go first; a lock can be \
                 looked at by its name only, and taking one away ends its holder's connection with all locks on it",
        warnings: Vec::new(),
    }
}

impl<S: Server> Clone for Sessions<S> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<S: Server> Sessions<S> {
    /// Connects to a server that is fit for it.
    ///
    /// # Errors
    /// Why it is not, or cannot be reached.
    pub(in crate::engines) async fn connect(server: S) -> Result<Self> {
        let thread = OwnThread::start("latch-sessions").map_err(|error| {
            let message = format!("{}: no thread can be started: {error}", server.engine());
            Error::new(ErrorKind::Unreachable, message)
        })?;
        in_time(&server, &thread, server.refuse_unfit()).await?;
        let (office, common) = (Office::new(server, thread), Mutex::default());
        let sessions = Self(Arc::new(Inner { office, common, opening: Mutex::default() }));
        sessions.0.common().await?;
        Ok(sessions)
    }

    pub(in crate::engines) fn guarantees(&self) -> Guarantees {
        let server = &self.0.office.server;
        promises(server.engine(), server.terms().ttl)
    }

    pub(in crate::engines) fn clock(&self) -> Clock {
        Clock::boottime()
    }

    /// Nothing is stored.
    pub(in crate::engines) fn cells(&self) -> Option<SharedCells> {
        None
    }

    /// The same connections, which the client's own thread moves if their runtime stands still: a lock cannot be kept by another.
    pub(in crate::engines) async fn fork(&self) -> Result<Self> {
        Ok(self.clone())
    }

    pub(in crate::engines) async fn claim(&self, claim: &Claim) -> Result<Verdict> {
        let (office, claims) = (&self.0.office, &self.0.office.claims);
        self.refuse_others(claim)?;
        let key = office.key(&claim.name);
        let line = match claims.enter(claim, key, self.0.working())? {
            Found::AskOn(line) => line,
            // Boxed, like all that a free lock does not need: this future is made for every claim.
            found => match Box::pin(self.settle(claim, key, found)).await? {
                Settled::Query(line) => line,
                Settled::Answer(verdict) => return Ok(verdict),
            },
        };
        let fenced = office.fences(claim).then_some(&claim.name);
        // In place: what is handed on by value is kept at each step.
        let trying = pin!(line.connection.try_lock(key, fenced, &claim.note));
        match line.ask(trying).await {
            Ok(Tried::Held(token)) => {
                claims.update(claim.id, |entry| entry.state = State::Held(token));
                office.grant(&line, token).await.map(Verdict::Granted)
            }
            Ok(Tried::Busy) => {
                self.not_asked(claim);
                // Whoever was seen before may hold no more. It is looked at again if this lasts.
                let mut busy = self.busy(None);
                claims.update(claim.id, |entry| busy = entry.busy.take().unwrap_or(busy.clone()));
                busy.again_in = NAMED_AFTER.min(busy.again_in);
                Ok(Verdict::Busy(busy))
            }
            Err(error) => {
                if error.effect() == Effect::None {
                    // No release may follow (C11).
                    claims.forget(claim.id);
                }
                Err(error)
            }
        }
    }

    /// What comes before a claim is asked for, or instead.
    async fn settle(
        &self,
        claim: &Claim,
        key: Key,
        found: Found<S::Connection>,
    ) -> Result<Settled<S::Connection>> {
        let (office, claims) = (&self.0.office, &self.0.office.claims);
        let busy = |busy| Ok(Settled::Answer(Verdict::Busy(busy)));
        match found {
            Found::AskOn(line) => return Ok(Settled::Query(line)),
            Found::Held(line, token) if !line.is_over() => {
                return Ok(Settled::Answer(Verdict::Granted(office.grant(&line, token).await?)));
            }
            // The server may not have noticed yet.
            Found::Held(line, _) => {
                claims.update(claim.id, |entry| entry.state = State::Unsure);
                self.0.end(&line).await?;
            }
            Found::Taken => {
                if claim.wait_lease.is_zero() {
                    claims.forget_idle(claim.id);
                }
                return busy(self.busy(None));
            }
            Found::Waits(_) if self.waits_anew(claim.id) => return busy(self.busy(None)),
            Found::Waits(Some(known)) => return busy(known),
            Found::Waits(None) => return busy(self.busy_by(claim.id, key).await),
            Found::Query(None) => {}
            // Its answer is missing, and this may be its connection: locked twice, it would have to be unlocked twice.
            Found::Query(Some(former)) => {
                claims.update(claim.id, |entry| entry.line = Some(former.clone()));
                match former.is_over() {
                    true => self.0.end(&former).await?,
                    false => {
                        let unlocked = former.ask(former.connection.unlock(key)).await;
                        unlocked.map_err(|error| error.with_effect(Effect::Unknown))?;
                    }
                }
            }
        }
        let line = self.0.common().await.map_err(|error| {
            claims.forget(claim.id);
            error.with_effect(Effect::None)
        })?;
        if claims.is_sent_on(claim.id, key, &line) {
            return Ok(Settled::Query(line));
        }
        // Another of this client came in the meantime.
        self.not_asked(claim);
        busy(self.busy(None))
    }

    /// Whether nothing was heard of its waiting for a ttl. Then its connection is ended.
    fn waits_anew(&self, id: ClaimId) -> bool {
        let claims = &self.0.office.claims;
        match claims.get(id) {
            Some(Entry { state: State::Waits(wait), line: Some(line), .. }) if line.is_stuck() => {
                line.close();
                claims.update_wait(id, wait, |entry| (entry.state, entry.line) = (State::Idle, None));
                true
            }
            _ => false,
        }
    }

    fn refuse_others(&self, claim: &Claim) -> Result<()> {
        if claim.lifetime != Lifetime::Lease || claim.mode != Mode::Exclusive {
            let engine = self.0.office.server.engine();
            let message = format!("{engine} supports only exclusive locks with a lease");
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        Ok(())
    }

    /// It does not hold: one that waits is remembered, one that only tried is not.
    fn not_asked(&self, claim: &Claim) {
        let claims = &self.0.office.claims;
        match claim.wait_lease.is_zero() {
            true => claims.forget(claim.id),
            false => drop(claims.update(claim.id, |entry| (entry.state, entry.line) = (State::Idle, None))),
        }
    }

    /// With who holds the lock. For people: that it is not known does no harm, and nobody waits for it who may be granted the lock.
    async fn busy_by(&self, id: ClaimId, key: Key) -> Busy {
        let seen = match self.0.working() {
            Some(line) => {
                let looking = line.ask(line.connection.seen(key));
                self.0.office.thread.in_time(LOOK_LIMIT, looking).await.and_then(Result::ok)
            }
            None => None,
        };
        let holder = seen.and_then(|seen| seen.into_iter().find(|seen| seen.is_held));
        let busy = self.busy(holder.map(|seen| state_of(&seen)));
        self.0.office.claims.update(id, |entry| entry.busy = Some(busy.clone()));
        busy
    }

    fn busy(&self, holder: Option<ClaimState>) -> Busy {
        let mut busy = Busy::new(self.0.office.server.terms().slice());
        busy.holder = holder;
        busy
    }

    pub(in crate::engines) async fn wait(&self, claim: &Claim, _: &Busy) -> Result<Wake> {
        let (office, claims) = (&self.0.office, &self.0.office.claims);
        loop {
            let here = Handle::current().id();
            let Some(entry) = claims.get(claim.id) else { return Ok(Wake::Recheck) };
            match entry.state {
                State::Held(token) => {
                    let Some(line) = entry.line else { return Ok(Wake::Recheck) };
                    return office.grant(&line, token).await.map(Wake::Granted);
                }
                State::Unsure => return Ok(Wake::Recheck),
                State::Waited(why) => {
                    claims.update(claim.id, |entry| {
                        if matches!(entry.state, State::Waited(_)) {
                            entry.state = State::Idle;
                        }
                    });
                    return match why {
                        None => Ok(Wake::Recheck),
                        Some(error) => Err(error.again()),
                    };
                }
                State::Idle => {
                    // In a task, since this may be dropped at any await; on this runtime, so that who gets the lock changes no
                    // thread for it.
                    if let Some(wait) = claims.begin_wait(claim.id, here) {
                        tokio::spawn(office.clone().wait_in_server(Arc::new(claim.clone()), wait));
                    }
                    continue;
                }
                // Whoever left it the place waits elsewhere, where nothing may move any more. It is asked for anew, which ends that
                // connection first: until then it stays known, since the server may grant the lock there.
                State::Waits(wait) if wait.runtime != here => {
                    let mut left = None;
                    // Unless it has got the lock there just now.
                    claims.update_wait(claim.id, wait, |entry| {
                        entry.state = State::Unsure;
                        left = entry.line.clone();
                    });
                    left.iter().for_each(|line| line.close());
                    return Ok(Wake::Recheck);
                }
                State::Waits(_) => {}
            }
            let Some(bell) = entry.bell else { return Ok(Wake::Recheck) };
            // Or until it finds itself on another runtime.
            let mut rung = pin!(bell.notified());
            poll_fn(|context| match Handle::current().id() == here {
                true => rung.as_mut().poll(context),
                false => Poll::Ready(()),
            })
            .await;
        }
    }

    pub(in crate::engines) async fn renew(&self, asked: &[Arc<Claim>]) -> Vec<Result<Renewal>> {
        let claims = &self.0.office.claims;
        let lines: Vec<_> = asked
            .iter()
            .map(|claim| {
                let entry = claims.get(claim.id)?;
                entry.line.filter(|_| matches!(entry.state, State::Held(_)))
            })
            .collect();
        // One sign of life for each connection, all at once.
        let mut beaten: Vec<(Arc<Line<S::Connection>>, _)> = Vec::new();
        for line in lines.iter().flatten() {
            if !beaten.iter().any(|(other, _)| Arc::ptr_eq(other, line)) {
                let (alive, young) = (line.clone(), self.0.office.server.terms().ttl / 6);
                let beating = self.0.office.thread.spawn(async move { alive.beat(young).await });
                beaten.push((line.clone(), beating));
            }
        }
        let mut alive = Vec::new();
        for (line, beating) in beaten {
            if beating.await.unwrap_or(false) {
                alive.push(line);
            }
        }
        let judge = |line: Option<Arc<Line<S::Connection>>>| {
            // What nobody knows of was given back.
            let Some(line) = line else { return Ok(Renewal::Lost(Loss::Removed)) };
            match alive.iter().any(|other| Arc::ptr_eq(other, &line)) {
                _ if line.is_over() => Ok(Renewal::Lost(Loss::SessionEnded)),
                true => Ok(Renewal::Kept(Valid::Until(line.certain_until()))),
                false => Err(self.0.office.ended().with_effect(Effect::Unknown)),
            }
        };
        lines.into_iter().map(judge).collect()
    }

    pub(in crate::engines) async fn lost_hints(&self) -> Vec<ClaimId> {
        self.0.office.claims.loss_hints.take().await
    }

    pub(in crate::engines) async fn release(&self, claim: &Claim) -> Result<Released> {
        let (office, claims) = (&self.0.office, &self.0.office.claims);
        let mut found = None;
        claims.update(claim.id, |entry| {
            found = Some((entry.state.clone(), entry.line.clone(), entry.key));
            // From here on nobody tells it that it was granted the lock.
            entry.state = State::Unsure;
        });
        let Some((state, line, key)) = found else { return Ok(Released::NotHeld) };
        let released = match (state, line) {
            (State::Idle | State::Waits(_) | State::Waited(_), None) => Released::Freed,
            (_, None) => Released::NotHeld,
            // It may be granted the lock at any moment; a connection that is gone is granted nothing.
            (State::Waits(_), Some(line)) => {
                Box::pin(self.0.end(&line)).await?;
                Released::Freed
            }
            (_, Some(line)) if line.is_over() => {
                Box::pin(self.0.end(&line)).await?;
                Released::NotHeld
            }
            (_, Some(line)) => {
                let unlocking = pin!(line.connection.unlock(key));
                let was_held = line.ask(unlocking).await?;
                claims.forget(claim.id);
                // It holds nothing now, or it goes.
                if was_held && !self.0.is_common(&line) {
                    office.keep(line.clone());
                }
                return Ok(if was_held { Released::Freed } else { Released::NotHeld });
            }
        };
        claims.forget(claim.id);
        Ok(released)
    }
}

impl<S: Server> Inner<S> {
    /// The connection that takes what is free; a new one, if the last ended.
    pub(super) async fn common(&self) -> Result<Arc<Line<S::Connection>>> {
        if let Some(line) = self.working() {
            return Ok(line);
        }
        Box::pin(async {
            let _turn = self.turn().await;
            if let Some(line) = self.working() {
                return Ok(line); // Another task was faster.
            }
            let line = Arc::new(self.office.open().await?);
            // Who opened it for longer than others waited may find theirs, with locks on it: a connection that was common stays so.
            let mut common = lock_ignoring_poison(&self.common);
            if let Some(first) = common.as_ref().filter(|first| !first.is_over()) {
                return Ok(first.clone());
            }
            *common = Some(line.clone());
            Ok(line)
        })
        .await
    }

    /// The turn to open the common connection: one does, and the others use it.
    async fn turn(&self) -> OwnedMutexGuard<()> {
        loop {
            let turns = lock_ignoring_poison(&self.opening).clone();
            let waiting = turns.clone().lock_owned();
            if let Some(turn) = self.office.thread.in_time(TURN_LIMIT, waiting).await {
                return turn;
            }
            // Those who come from here on, and those who have waited for as long, wait for another.
            let mut opening = lock_ignoring_poison(&self.opening);
            if Arc::ptr_eq(&opening, &turns) {
                *opening = Arc::default();
            }
        }
    }

    fn working(&self) -> Option<Arc<Line<S::Connection>>> {
        lock_ignoring_poison(&self.common).clone().filter(|line| !line.is_over())
    }

    fn is_common(&self, line: &Arc<Line<S::Connection>>) -> bool {
        lock_ignoring_poison(&self.common).as_ref().is_some_and(|common| Arc::ptr_eq(common, line))
    }

    /// Ends a connection on this side and, because the server may not have noticed, on that one.
    async fn end(&self, line: &Line<S::Connection>) -> Result<()> {
        line.close();
        let mut ended = Err(self.office.ended());
        // A second time if what took this one took the common connection, too.
        for _ in 0..2 {
            let common = self.common().await.map_err(|error| error.with_effect(Effect::Unknown))?;
            ended = common.ask(common.connection.end(line.connection.backend())).await.map(drop);
            if ended.is_ok() || !common.is_over() {
                break;
            }
        }
        // That it was refused says nothing of what is held there.
        ended.map_err(|error| error.with_effect(Effect::Unknown))
    }
}
