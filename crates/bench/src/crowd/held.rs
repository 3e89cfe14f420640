//! Locks that are held and only renewed.

use std::time::Duration;

use latchwork::Guard;
use latchwork::clock::Clock;

use super::figures::Figures;
use super::usage::Usage;
use crate::Result;

pub(super) const TTL: Duration = Duration::from_secs(30);

/// Takes `locks` locks and watches them for so many seconds.
pub(super) async fn run(locks: u32, seconds: u64) -> Result<Figures> {
    let (clock, client) = (Clock::boottime(), latchwork::connect("memory:").await?);
    // Threads and tables that one lock needs are no part of what another costs.
    client.lock("crowd/warm").ttl(TTL).acquire().await?.release().await?;
    let (before, start) = (Usage::now()?, clock.now());
    let mut guards = Vec::with_capacity(locks as usize);
    for number in 0..locks {
        guards.push(client.lock(format!("crowd/{number}")).ttl(TTL).acquire().await?);
    }
    let (taken, after) = (clock.now().since(start), Usage::now()?);
    let watch = Watch::over(&guards, seconds).await?;
    let watched = clock.now().since(start) - taken;
    let cpu = Usage::now()?.cpu - after.cpu;
    let share = |of: Duration| 100.0 * of.as_secs_f64() / watched.as_secs_f64();
    Ok(Figures::new([
        ("bytes/lock", after.bytes_each(&before, locks)),
        ("taken in s", taken.as_secs_f64()),
        ("CPU % of a core", share(cpu.saturating_sub(watch.looking))),
        ("and for looking on %", share(watch.looking)),
        ("renewed", watch.renewed as f64),
        ("looks", watch.looks as f64),
        ("late", watch.late as f64),
        ("least left s", watch.least.as_secs_f64()),
        ("lost", lost(guards).await as f64),
    ]))
}

/// What was seen of the leases, once a second.
struct Watch {
    looks: u64,
    /// Looks at a lease with less than half of it left: its renewal was due after a third, a tenth of that more at most.
    late: u64,
    least: Duration,
    /// How many locks were renewed at least once.
    renewed: usize,
    /// Processor time that only looking on took.
    looking: Duration,
}

impl Watch {
    async fn over(guards: &[Guard], seconds: u64) -> Result<Self> {
        let mut watch = Self { looks: 0, late: 0, least: TTL, renewed: 0, looking: Duration::ZERO };
        let first = watch.timed(|_| guards.iter().map(|guard| guard.lease_end()).collect::<Vec<_>>())?;
        let mut second = tokio::time::interval(Duration::from_secs(1));
        second.tick().await;
        for _ in 0..seconds {
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
        let before = Usage::now()?.cpu;
        let seen = look(self);
        self.looking += Usage::now()?.cpu.saturating_sub(before);
        Ok(seen)
    }

    fn look(&mut self, guards: &[Guard]) {
        let late = TTL / 2;
        for left in guards.iter().map(|guard| guard.remaining()) {
            self.least = self.least.min(left);
            self.late += u64::from(left < late);
        }
        self.looks += guards.len() as u64;
    }
}

/// A release says whether the lock was held to its end.
async fn lost(guards: Vec<Guard>) -> usize {
    let mut lost = 0;
    for guard in guards {
        lost += usize::from(guard.release().await.is_err());
    }
    lost
}
