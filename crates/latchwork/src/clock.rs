//! The only file that reads clocks and draws random bytes. Clippy's `disallowed-methods` enforces that.
//!
//! Deadlines are counted on `CLOCK_BOOTTIME`, because `CLOCK_MONOTONIC` (and with it [`std::time::Instant`])
//! stops while the machine sleeps, and a lease does not. It is read through libc, so that a preloaded shim
//! can shift it in tests. The memory engine uses tokio's clock instead, which tests can pause.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "the only place for them")]

use std::future::poll_fn;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Poll, ready};
use std::time::Duration;

use nix::time::ClockId;
use tokio::runtime::{self, Handle};
use tokio::time::Sleep;

/// An instant of a [`Clock`], in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(u64);

impl Moment {
    /// Later than every other moment.
    pub const NEVER: Self = Self(u64::MAX);

    /// The moment this many microseconds after the clock's start.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros.saturating_mul(1_000))
    }

    /// Whole microseconds since the clock's start, rounded down.
    pub const fn as_micros(self) -> u64 {
        self.0 / 1_000
    }

    /// The moment this much later; at most [`Moment::NEVER`].
    pub fn after(self, span: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)))
    }

    /// The moment this much earlier; at least the clock's start.
    pub fn before(self, span: Duration) -> Self {
        if self == Self::NEVER {
            return self;
        }
        Self(self.0.saturating_sub(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)))
    }

    /// The time from `earlier` to this moment; zero if `earlier` is later.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// A source of [`Moment`]s, with a timer.
#[derive(Clone, Copy, Debug)]
pub struct Clock(Source);

#[derive(Clone, Copy, Debug)]
enum Source {
    Boottime,
    Tokio { start: tokio::time::Instant },
    Simulated(&'static Simulation),
}

/// Clock and randomness of a simulated machine, so that a run can be repeated exactly: tokio's clock, plus
/// the time for which the machine slept, and numbers derived from a seed.
#[derive(Debug)]
pub struct Simulation {
    start: tokio::time::Instant,
    slept: AtomicU64,
    seed: u64,
    drawn: AtomicU64,
}

impl Simulation {
    /// A machine that starts now. It is never freed, because clocks are copied freely.
    pub fn begin(seed: u64) -> &'static Self {
        let start = tokio::time::Instant::now();
        Box::leak(Box::new(Self { start, slept: AtomicU64::new(0), seed, drawn: AtomicU64::new(0) }))
    }

    /// The clock of the machine.
    pub fn clock(&'static self) -> Clock {
        Clock(Source::Simulated(self))
    }

    /// Advances the clock by this much at once, without the timers: as after a sleep of the machine, or when
    /// its clock is set.
    pub fn sleep(&self, span: Duration) {
        self.slept.fetch_add(span.as_nanos() as u64, Ordering::Relaxed);
    }

    fn now(&self) -> Duration {
        self.start.elapsed() + Duration::from_nanos(self.slept.load(Ordering::Relaxed))
    }

    /// The next number derived from the seed. The keys of the standard hasher are fixed.
    fn number(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.seed, self.drawn.fetch_add(1, Ordering::Relaxed)).hash(&mut hasher);
        hasher.finish()
    }
}

impl Clock {
    /// The time since boot, including sleep. All processes of a machine share this clock.
    pub const fn boottime() -> Self {
        Self(Source::Boottime)
    }

    /// tokio's clock, which tests can pause. Its moments are valid in this process only.
    pub fn tokio() -> Self {
        Self(Source::Tokio { start: tokio::time::Instant::now() })
    }

    /// Whether this is the clock of a runtime, whose timers run inside that runtime only.
    pub(crate) fn lives_in_the_runtime(self) -> bool {
        !matches!(self.0, Source::Boottime)
    }

    /// The present moment.
    pub fn now(self) -> Moment {
        match self.0 {
            Source::Boottime => {
                let now = nix::time::clock_gettime(ClockId::CLOCK_BOOTTIME).map(Duration::from);
                Moment(now.map_or(u64::MAX, |since_boot| since_boot.as_nanos() as u64))
            }
            Source::Tokio { start } => Self::counted_in_the_runtime(start.elapsed()),
            Source::Simulated(machine) => Self::counted_in_the_runtime(machine.now()),
        }
    }

    /// A moment on a clock of the runtime. It starts at one second, so that `before` does not saturate at the
    /// start.
    fn counted_in_the_runtime(since_start: Duration) -> Moment {
        Moment(since_start.as_nanos() as u64 + 1_000_000_000)
    }

    /// Unpredictable bytes, or in a simulation bytes derived from its seed.
    pub(crate) fn random_bytes<const N: usize>(self) -> [u8; N] {
        match self.0 {
            Source::Boottime | Source::Tokio { .. } => random_bytes(),
            Source::Simulated(machine) => {
                let mut bytes = [0; N];
                bytes.chunks_mut(8).for_each(|chunk| {
                    let number = machine.number().to_ne_bytes();
                    chunk.copy_from_slice(&number[..chunk.len()]);
                });
                bytes
            }
        }
    }

    /// Sleeps until `moment` on this clock.
    ///
    /// # Guarantees
    /// Never returns before `moment`, also if the machine sleeps meanwhile.
    ///
    /// # Cancel safety
    /// May be dropped at any time.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// use std::time::Duration;
    ///
    /// use latchwork::clock::Clock;
    ///
    /// let clock = Clock::boottime();
    /// let end = clock.now().after(Duration::from_millis(1));
    /// clock.sleep_until(end).await;
    /// assert!(clock.now() >= end);
    /// # }
    /// ```
    ///
    /// # Implementation
    /// tokio's timers stop while the machine sleeps, so the clock is read again after each timer. A timer
    /// belongs to the runtime on which it was created: a future that is moved to another runtime, because its
    /// own ended, creates a new one.
    pub async fn sleep_until(self, moment: Moment) {
        const LONGEST_TIMER: Duration = Duration::from_secs(60 * 60);
        let mut timer: Option<(runtime::Id, Pin<Box<Sleep>>)> = None;
        poll_fn(|context| {
            loop {
                let now = self.now();
                if now >= moment {
                    return Poll::Ready(());
                }
                let here = Handle::current().id();
                match timer.as_mut().filter(|(runtime, _)| *runtime == here) {
                    Some((_, sleep)) => {
                        ready!(sleep.as_mut().poll(context));
                        timer = None;
                    }
                    None => {
                        let span = moment.since(now).min(LONGEST_TIMER);
                        timer = Some((here, Box::pin(tokio::time::sleep(span))));
                    }
                }
            }
        })
        .await;
    }
}

/// Microseconds since 1970 on the wall clock. For token floors and for display, never for deadlines.
pub fn wall_micros() -> u64 {
    nix::time::clock_gettime(ClockId::CLOCK_REALTIME)
        .map(|now| Duration::from(now).as_micros() as u64)
        .unwrap_or_default()
}

/// The id of the present boot of this machine.
pub(crate) fn boot_id() -> std::io::Result<String> {
    Ok(std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

/// Bytes from the operating system's random generator.
///
/// # Panics
/// If the generator fails: without random bytes, two claims could share an id.
pub fn random_bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).expect("the operating system gives random bytes");
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates_instead_of_wrapping() {
        assert_eq!(Moment::NEVER.after(Duration::from_secs(1)), Moment::NEVER);
        assert_eq!(Moment::NEVER.before(Duration::from_secs(1)), Moment::NEVER);
        assert_eq!(Moment(5).before(Duration::from_secs(1)), Moment(0));
        assert_eq!(Moment(5).since(Moment(9)), Duration::ZERO);
        assert_eq!(Moment(5).after(Duration::MAX), Moment::NEVER);
    }

    #[tokio::test(start_paused = true)]
    async fn the_tokio_clock_follows_paused_time() {
        let clock = Clock::tokio();
        let start = clock.now();
        clock.sleep_until(start.after(Duration::from_secs(90_000))).await;
        assert_eq!(clock.now().since(start).as_secs(), 90_000);
    }
}
