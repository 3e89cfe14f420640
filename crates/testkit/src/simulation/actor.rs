//! A task that uses locks in every way the API offers.

use std::time::Duration;

use latchwork::engine::Mode;
use latchwork::{Guard, Result, Wait};

use super::day::{Use, World};
use super::{LOCKS, OWNED, POOL, SHELF};
use crate::drop_at_poll;
use crate::history::{RecordedClient, RecordedGuard, RecordedLock};
use crate::seed::Seed;

const MILLI: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

/// One task of one client.
pub(super) struct Actor {
    world: World,
    client: RecordedClient,
    /// The client's number.
    number: u32,
    chance: Seed,
}

impl Actor {
    pub(super) fn new(world: World, client: RecordedClient, number: u32, chance: Seed) -> Self {
        Self { world, client, number, chance }
    }

    pub(super) async fn act(mut self) {
        while !self.world.is_over() {
            match self.chance.below(15) {
                0..=6 => self.want_a_lock().await,
                7..=10 => self.want_the_shelf().await,
                11..=12 => self.want(POOL.0, POOL.1, Mode::Permit { of: POOL.2 }).await,
                _ => self.want_the_owned_lock().await,
            }
            let pause = self.chance.span(&(Duration::ZERO..=200 * MILLI));
            tokio::time::sleep(pause).await;
        }
    }

    async fn want_a_lock(&mut self) {
        let (name, ttl) = LOCKS[self.chance.below(2) as usize];
        self.want(name, ttl, Mode::Exclusive).await;
    }

    async fn want_the_shelf(&mut self) {
        let mode = if self.chance.percent(65) { Mode::Read } else { Mode::Write };
        self.want(SHELF.0, SHELF.1, mode).await;
    }

    async fn want(&mut self, name: &'static str, ttl: Duration, mode: Mode) {
        let passes = self.chance.percent(70);
        let lock = self.client.shared_lock(name, mode).ttl(ttl).with(|lock| lock.local_handoff(passes));
        let calm_before = self.world.calm();
        if let Some(guard) = self.attempt(lock).await {
            self.hold(Use { name, mode, calm_before }, ttl, guard).await;
        }
    }

    async fn attempt(&mut self, lock: RecordedLock) -> Option<RecordedGuard> {
        let patience = self.chance.span(&(50 * MILLI..=6 * SECOND));
        match self.chance.below(10) {
            0..=3 => lock.wait(patience).acquire().await.ok(),
            4..=5 => lock.wait(Wait::Forever).acquire().await.ok(),
            6..=7 => lock.try_acquire().await.ok().flatten(),
            8 => tokio::time::timeout(patience / 8, lock.acquire()).await.ok().and_then(Result::ok),
            _ => {
                let polls = 1 + self.chance.below(5) as u32;
                drop_at_poll::after_polls(lock.acquire(), polls).await.and_then(Result::ok)
            }
        }
    }

    /// Holds for no time at all, for some, or for longer than the lease. Either listens for a loss, or checks
    /// now and then.
    async fn hold(&mut self, what: Use, ttl: Duration, guard: RecordedGuard) {
        let longest = if self.chance.percent(20) { ttl * 2 } else { ttl / 20 };
        let held = self.chance.span(&(Duration::ZERO..=longest));
        if self.chance.percent(50) {
            tokio::select! {
                biased;
                _ = guard.lost() => {}
                () = tokio::time::sleep(held) => {}
            }
        } else {
            for _ in 0..4 {
                if guard.is_certain() {
                    self.world.use_store(what, guard.token().expect("tokens").get());
                }
                tokio::time::sleep(held / 4).await;
            }
        }
        if self.chance.percent(70) { drop(guard.release().await) } else { drop(guard) }
    }

    /// All clients use the same owner here, so no wait is long: they take over from each other.
    async fn want_the_owned_lock(&mut self) {
        let (name, ttl) = OWNED;
        let lock = self.client.client().lock(name).ttl(ttl).owner("the owner").wait(SECOND);
        let acquired = match self.chance.percent(80) {
            true => lock.acquire().await,
            false => match tokio::time::timeout(20 * MILLI, lock.acquire()).await {
                Ok(acquired) => acquired,
                Err(_) => return self.world.cancelled(),
            },
        };
        match acquired {
            Ok(guard) => self.hold_the_owned_lock(ttl, guard).await,
            Err(error) => self.world.tell(format!("{} does not get {name}: {error}", self.number)),
        }
    }

    async fn hold_the_owned_lock(&mut self, ttl: Duration, guard: Guard) {
        let token = guard.token().expect("tokens").get();
        self.world.owned(token, self.number);
        self.world.tell(format!("{} holds the owned lock by {token}", self.number));
        let held = self.chance.span(&(Duration::ZERO..=ttl * 2));
        tokio::select! {
            biased;
            why = guard.lost() => {
                self.world.tell(format!("{} lost it: {why}", self.number));
                self.world.lost(why);
            }
            () = tokio::time::sleep(held) => {}
        }
        if self.chance.percent(50) { drop(guard.release().await) } else { drop(guard) }
    }
}
