//! Locks that are held and only renewed.

use std::time::Duration;

use latchwork::clock::Clock;
use latchwork::{Client, Guard};
use tokio::task::JoinHandle;

use super::figures::Figures;
use super::usage::Usage;
use crate::Result;

/// How many tasks take and release the locks.
const HANDS: usize = 64;

/// Which locks, and for how long.
pub(super) struct Terms {
    pub(super) url: String,
    pub(super) locks: u32,
    pub(super) ttl: Duration,
    /// With less left than that, a renewal is late.
    pub(super) late: Duration,
    pub(super) seconds: u64,
}

/// Takes the locks and watches them.
pub(super) async fn run(terms: &Terms) -> Result<Figures> {
    let (clock, client) = (Clock::boottime(), latchwork::connect(&terms.url).await?);
    // Threads and tables that one lock needs are no part of what another costs.
    client.lock("crowd/warm").ttl(terms.ttl).acquire().await?.release().await?;
    let (before, start) = (Usage::now()?, clock.now());
    let guards = take(&client, terms).await?;
    let (taken, after) = (clock.now().since(start), Usage::now()?);
    let watch = Watch::over(&guards, terms).await?;
    let watched = clock.now().since(start) - taken;
    let cpu = Usage::now()?.cpu - after.cpu;
    let share = |of: Duration| 100.0 * of.as_secs_f64() / watched.as_secs_f64();
    Ok(Figures::new([
        ("bytes/lock", after.bytes_each(&before, terms.locks)),
        ("taken in s", taken.as_secs_f64()),
        ("CPU % of a core", share(cpu.saturating_sub(watch.looking))),
        ("and for looking on %", share(watch.looking)),
        ("renewed", watch.renewed as f64),
        ("looks", watch.looks as f64),
        ("late", watch.late as f64),
        ("least left s", watch.least.as_secs_f64()),
        ("uncertain", watch.uncertain as f64),
        ("lost", give_back(guards).await? as f64),
    ]))
}

/// By many hands: a server far away is not waited for by one lock after the other.
async fn take(client: &Client, terms: &Terms) -> Result<Vec<Guard>> {
    let hand = |first: usize| -> JoinHandle<Result<Vec<Guard>>> {
        let (client, ttl, locks) = (client.clone(), terms.ttl, terms.locks as usize);
        tokio::spawn(async move {
            let mut guards = Vec::with_capacity(locks / HANDS + 1);
            for number in (first..locks).step_by(HANDS) {
                guards.push(client.lock(format!("crowd/{number}")).ttl(ttl).acquire().await?);
            }
            Ok(guards)
        })
    };
    let mut guards = Vec::with_capacity(terms.locks as usize);
    for hand in (0..HANDS).map(hand).collect::<Vec<_>>() {
        guards.append(&mut hand.await??);
    }
    Ok(guards)
}

/// How many were lost: a release says whether the lock was held to its end.
async fn give_back(mut guards: Vec<Guard>) -> Result<usize> {
    let (mut hands, each) = (Vec::new(), guards.len().div_ceil(HANDS).max(1));
    while !guards.is_empty() {
        let share = guards.split_off(guards.len().saturating_sub(each));
        hands.push(tokio::spawn(async move {
            let mut lost = 0;
            for guard in share {
                lost += usize::from(guard.release().await.is_err());
            }
            lost
        }));
    }
    let mut lost = 0;
    for hand in hands {
        lost += hand.await?;
    }
    Ok(lost)
}

/// What was seen of the leases, once a second.
struct Watch {
    due: Duration,
    looks: u64,
    /// Looks at a lease whose renewal was due.
    late: u64,
    /// Looks at a lock that was not held for certain.
    uncertain: u64,
    least: Duration,
    /// How many locks were renewed at least once.
    renewed: usize,
    /// Processor time that only looking on took.
    looking: Duration,
}

impl Watch {
    async fn over(guards: &[Guard], terms: &Terms) -> Result<Self> {
        let (due, least, looking) = (terms.late, terms.ttl, Duration::ZERO);
        let mut watch = Self { due, looks: 0, late: 0, uncertain: 0, least, renewed: 0, looking };
        let first = watch.timed(|_| guards.iter().map(|guard| guard.lease_end()).collect::<Vec<_>>())?;
        let mut second = tokio::time::interval(Duration::from_secs(1));
        second.tick().await;
        for _ in 0..terms.seconds {
            second.tick().await;
            watch.timed(|watch| watch.look(guards))?;
        }
        watch.timed(|watch| {
            let later = guards.iter().zip(first).filter(|(guard, first)| guard.lease_end() > *first);
            watch.renewed = later.count();
        })?;
        Ok(watch)
    }

    /// Looks on, and counts what that costs apart from the renewals.
    fn timed<T>(&mut self, look: impl FnOnce(&mut Self) -> T) -> Result<T> {
        let before = Usage::of_this_thread()?;
        let seen = look(self);
        self.looking += Usage::of_this_thread()?.saturating_sub(before);
        Ok(seen)
    }

    fn look(&mut self, guards: &[Guard]) {
        for guard in guards {
            let left = guard.remaining();
            self.least = self.least.min(left);
            self.late += u64::from(left < self.due);
            self.uncertain += u64::from(!guard.is_certain());
        }
        self.looks += guards.len() as u64;
    }
}
