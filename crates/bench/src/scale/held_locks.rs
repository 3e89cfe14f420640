//! The cost of locks that are held and only renewed.

use std::time::Duration;

use latchwork::clock::Clock;
use latchwork::{Client, Guard};
use tokio::task::JoinHandle;

use super::figures::Figures;
use super::process_usage::ProcessUsage;
use crate::Result;

/// The number of tasks that acquire and release the locks.
const TASKS: usize = 64;

/// The locks, and how long they are held.
pub(super) struct HeldLocks {
    pub(super) url: String,
    pub(super) locks: u32,
    pub(super) ttl: Duration,
    /// A renewal is late if less than this is left of the lease.
    pub(super) late: Duration,
    pub(super) seconds: u64,
}

/// Acquires the locks and observes their leases.
pub(super) async fn run(options: &HeldLocks) -> Result<Figures> {
    let (clock, client) = (Clock::boottime(), latchwork::connect(&options.url).await?);
    // The first lock creates threads and tables, which are not part of the cost of another lock.
    client.lock("crowd/warm").ttl(options.ttl).acquire().await?.release().await?;
    let (before, start) = (ProcessUsage::now()?, clock.now());
    let guards = acquire_all(&client, options).await?;
    let (taken, after) = (clock.now().since(start), ProcessUsage::now()?);
    let watch = LeaseWatch::over(&guards, options).await?;
    let watched = clock.now().since(start) - taken;
    let cpu = ProcessUsage::now()?.cpu - after.cpu;
    let share = |of: Duration| 100.0 * of.as_secs_f64() / watched.as_secs_f64();
    Ok(Figures::new([
        ("bytes/lock", after.bytes_each(&before, options.locks)),
        ("taken in s", taken.as_secs_f64()),
        ("CPU % of a core", share(cpu.saturating_sub(watch.own_cpu))),
        ("and for own_cpu on %", share(watch.own_cpu)),
        ("renewed", watch.renewed as f64),
        ("looks", watch.checks as f64),
        ("late", watch.late as f64),
        ("least left s", watch.least.as_secs_f64()),
        ("uncertain", watch.uncertain as f64),
        ("lost", release_all(guards).await? as f64),
    ]))
}

/// By many tasks: a server far away is not waited for by one lock after the other.
async fn acquire_all(client: &Client, options: &HeldLocks) -> Result<Vec<Guard>> {
    let task = |first: usize| -> JoinHandle<Result<Vec<Guard>>> {
        let (client, ttl, locks) = (client.clone(), options.ttl, options.locks as usize);
        tokio::spawn(async move {
            let mut guards = Vec::with_capacity(locks / TASKS + 1);
            for number in (first..locks).step_by(TASKS) {
                guards.push(client.lock(format!("crowd/{number}")).ttl(ttl).acquire().await?);
            }
            Ok(guards)
        })
    };
    let mut guards = Vec::with_capacity(options.locks as usize);
    for task in (0..TASKS).map(task).collect::<Vec<_>>() {
        guards.append(&mut task.await??);
    }
    Ok(guards)
}

/// Releases the locks. Returns the number of lost ones: a release reports whether the lock was held until
/// then.
async fn release_all(mut guards: Vec<Guard>) -> Result<usize> {
    let (mut tasks, each) = (Vec::new(), guards.len().div_ceil(TASKS).max(1));
    while !guards.is_empty() {
        let share = guards.split_off(guards.len().saturating_sub(each));
        tasks.push(tokio::spawn(async move {
            let mut lost = 0;
            for guard in share {
                lost += usize::from(guard.release().await.is_err());
            }
            lost
        }));
    }
    let mut lost = 0;
    for task in tasks {
        lost += task.await?;
    }
    Ok(lost)
}

/// Observations of the leases, once a second.
struct LeaseWatch {
    due: Duration,
    checks: u64,
    /// Looks at a lease whose renewal was due.
    late: u64,
    /// Looks at a lock that was not held for certain.
    uncertain: u64,
    least: Duration,
    /// The number of locks that were renewed at least once.
    renewed: usize,
    /// Processor time that only own_cpu on took.
    own_cpu: Duration,
}

impl LeaseWatch {
    async fn over(guards: &[Guard], options: &HeldLocks) -> Result<Self> {
        let (due, least, own_cpu) = (options.late, options.ttl, Duration::ZERO);
        let mut watch = Self { due, checks: 0, late: 0, uncertain: 0, least, renewed: 0, own_cpu };
        let first = watch.timed(|_| guards.iter().map(|guard| guard.lease_end()).collect::<Vec<_>>())?;
        let mut second = tokio::time::interval(Duration::from_secs(1));
        second.tick().await;
        for _ in 0..options.seconds {
            second.tick().await;
            watch.timed(|watch| watch.check(guards))?;
        }
        watch.timed(|watch| {
            let later = guards.iter().zip(first).filter(|(guard, first)| guard.lease_end() > *first);
            watch.renewed = later.count();
        })?;
        Ok(watch)
    }

    /// Looks on, and counts what that costs apart from the renewals.
    fn timed<T>(&mut self, check: impl FnOnce(&mut Self) -> T) -> Result<T> {
        let before = ProcessUsage::of_this_thread()?;
        let seen = check(self);
        self.own_cpu += ProcessUsage::of_this_thread()?.saturating_sub(before);
        Ok(seen)
    }

    fn check(&mut self, guards: &[Guard]) {
        for guard in guards {
            let left = guard.remaining();
            self.least = self.least.min(left);
            self.late += u64::from(left < self.due);
            self.uncertain += u64::from(!guard.is_certain());
        }
        self.checks += guards.len() as u64;
    }
}
