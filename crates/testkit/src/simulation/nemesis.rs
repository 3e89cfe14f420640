//! The adversary: it injects faults.

use std::time::Duration;

use latchwork::engine::{Engine, Filter, LockState, Revoke};

use super::day::World;
use super::{LOCKS, OWNED, POOL, SHELF, name};
use crate::history::Fault;
use crate::network::simulated::{Conditions, Network};
use crate::seed::Seed;

const MILLI: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
/// The time until every earlier answer has arrived.
const ANSWERS_ARRIVE: Duration = Duration::from_secs(3);

pub(super) struct Nemesis {
    world: World,
    chance: Seed,
}

impl Nemesis {
    pub(super) fn new(world: World, chance: Seed) -> Self {
        Self { world, chance }
    }

    /// Runs until the day is over; then the network is calm again.
    pub(super) async fn rage(mut self) {
        while self.world.is_morning() {
            self.pass(10 * MILLI, 100 * MILLI).await;
        }
        while !self.world.is_over() {
            self.pass(100 * MILLI, 2 * SECOND).await;
            match self.chance.below(9) {
                0..=1 => self.bad_weather(Conditions::storm()).await,
                2 => self.slow_then_cut_off().await,
                3 => self.bad_weather(Conditions { refused: 100, ..Conditions::calm() }).await,
                4 => self.bad_weather(Conditions { vanished: 50, silent: 50, ..Conditions::calm() }).await,
                5 => self.forget().await,
                6 => self.revoke().await,
                7 => self.sleep(),
                _ => self.set_the_servers_clock().await,
            }
        }
    }

    async fn pass(&mut self, least: Duration, most: Duration) {
        let span = self.chance.span(&(least..=most));
        tokio::time::sleep(span).await;
    }

    /// For all clients, or for one client alone.
    async fn bad_weather(&mut self, conditions: Conditions) {
        let struck = self.some_networks();
        self.weather_over(&struck, conditions).await;
    }

    async fn weather_over(&mut self, struck: &[Network], conditions: Conditions) {
        self.world.recorder.fault_began(Fault::Trouble);
        struck.iter().for_each(|network| network.set(conditions.clone()));
        self.pass(200 * MILLI, 5 * SECOND).await;
        struck.iter().for_each(|network| network.set(Conditions::calm()));
        self.world.recorder.fault_ended(Fault::Trouble);
    }

    /// A client that counts its lease from the arrival of a late answer would trust it for too long, and no
    /// later answer corrects that.
    async fn slow_then_cut_off(&mut self) {
        let struck = self.some_networks();
        self.weather_over(&struck, Conditions { reply: MILLI..=2 * SECOND, ..Conditions::calm() }).await;
        self.weather_over(&struck, Conditions { refused: 100, ..Conditions::calm() }).await;
    }

    fn some_networks(&mut self) -> Vec<Network> {
        let networks = &self.world.networks;
        match self.chance.below(2 * networks.len() as u64) as usize {
            one if one < networks.len() => vec![networks[one].clone()],
            _ => networks.clone(),
        }
    }

    fn some_lock(&mut self) -> &'static str {
        [LOCKS[0].0, LOCKS[1].0, SHELF.0, POOL.0, OWNED.0][self.chance.below(5) as usize]
    }

    /// The server forgets its holders.
    async fn forget(&mut self) {
        let lock = name(self.some_lock());
        self.world.fault(Fault::DataDeleted, true);
        self.world.memory.lose(&lock);
        // A grant from before may still be in transit.
        tokio::time::sleep(ANSWERS_ARRIVE).await;
        self.world.fault(Fault::DataDeleted, false);
    }

    /// An operator revokes a lock: at the end of its lease, or at once.
    async fn revoke(&mut self) {
        let filter = Filter::Name(name(self.some_lock()));
        let found = self.world.memory.inspect(&filter).await.expect("the memory engine answers");
        let Some(state) = found.first() else { return };
        if self.chance.percent(50) {
            return self.take(state, Revoke::AtLeaseEnd).await;
        }
        self.world.fault(Fault::Revoked, true);
        self.take(state, Revoke::Now).await;
        tokio::time::sleep(ANSWERS_ARRIVE).await;
        self.world.fault(Fault::Revoked, false);
    }

    async fn take(&self, state: &LockState, how: Revoke) {
        self.world.memory.revoke(state, how).await.expect("the memory engine answers");
    }

    /// The machine that everything runs on sleeps: clocks continue, timers do not.
    fn sleep(&mut self) {
        let span = self.chance.span(&(100 * MILLI..=15 * SECOND));
        self.world.recorder.fault_began(Fault::HolderPause);
        self.world.machine.sleep(span);
        self.world.server.sleep(span);
        self.world.recorder.fault_ended(Fault::HolderPause);
    }

    /// Leases end early.
    async fn set_the_servers_clock(&mut self) {
        let span = self.chance.span(&(100 * MILLI..=15 * SECOND));
        self.world.fault(Fault::ClockStep, true);
        self.world.server.sleep(span);
        tokio::time::sleep(ANSWERS_ARRIVE).await;
        self.world.fault(Fault::ClockStep, false);
    }
}
