//! The loops that every side runs: one for locks that are awaited, one for locks that block the thread.
//!
//! Both note the same times at the same places, so that sides differ in their locks alone.

use std::future::Future;
use std::time::Duration;

use crate::Result;
use crate::sample::{Sample, WorkerResult};
use crate::window::Window;

/// Turns between two looks at the clock where only their number counts: looking costs as much as a free mutex.
const CYCLES_PER_CLOCK_READ: u64 = 64;
/// Room for so many turns, lest a growing log stop the clock's subject.
const EXPECTED_SAMPLES: usize = 1 << 16;

/// How a task goes through its turns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pacing {
    /// How long a turn lasts; `None`: no longer than it must.
    pub(crate) hold: Option<Duration>,
    /// How long a task sleeps after its release. Blocks the thread, because tokio's timers tick in milliseconds.
    pub(crate) pause: Option<Duration>,
    /// Reads the clock once in a turn instead of twice: a wait then counts from the turn before.
    pub(crate) reads_clock_once: bool,
}

/// A lock that is awaited.
pub(crate) trait AsyncLock: Send + Sync + 'static {
    type Guard: Send;
    fn acquire(&self) -> impl Future<Output = Result<Self::Guard>> + Send;
    fn release(&self, guard: Self::Guard) -> impl Future<Output = Result<()>> + Send;
}

/// A lock that blocks the thread.
pub(crate) trait BlockingLock {
    fn acquire(&mut self) -> Result<()>;
    fn release(&mut self) -> Result<()>;
    /// What belongs to the next release and not to this acquire, done after the time was taken.
    fn prepare_release(&mut self) -> Result<()> {
        Ok(())
    }
}

/// Takes turns until the window closes, noting each. The last turn may lie past the end: it tells how long was waited.
pub(crate) async fn contend<L: AsyncLock>(
    lock: L,
    task: u64,
    window: Window,
    pace: Pacing,
) -> Result<Vec<Sample>> {
    let mut samples = Vec::with_capacity(EXPECTED_SAMPLES);
    // From the window's start: a task that others keep from running waits too.
    let mut requested = 0;
    loop {
        let guard = lock.acquire().await?;
        let acquired = window.now();
        let mut released = acquired;
        if let Some(hold) = pace.hold {
            tokio::time::sleep(hold).await;
            released = window.now();
        }
        lock.release(guard).await?;
        samples.push(Sample { task, requested, acquired, released });
        if acquired >= window.length {
            return Ok(samples);
        }
        pace.pause.into_iter().for_each(std::thread::sleep);
        requested = if pace.reads_clock_once { acquired } else { window.now() };
    }
}

/// As [`contend`], on a thread.
pub(crate) fn contend_blocking(
    lock: &mut impl BlockingLock,
    task: impl Fn(usize) -> u64,
    window: Window,
    pace: Pacing,
) -> Result<Vec<Sample>> {
    let mut samples = Vec::with_capacity(EXPECTED_SAMPLES);
    let mut requested = 0;
    loop {
        lock.acquire()?;
        let acquired = window.now();
        let mut released = acquired;
        lock.prepare_release()?;
        if let Some(hold) = pace.hold {
            std::thread::sleep(hold);
            released = window.now();
        }
        lock.release()?;
        samples.push(Sample { task: task(samples.len()), requested, acquired, released });
        if acquired >= window.length {
            return Ok(samples);
        }
        pace.pause.into_iter().for_each(std::thread::sleep);
        requested = window.now();
    }
}

/// Counts turns until the window closes, without noting them.
pub(crate) async fn count<L: AsyncLock>(lock: L, window: Window) -> Result<WorkerResult> {
    let (start, mut counted) = (window.now(), 0);
    loop {
        for _ in 0..CYCLES_PER_CLOCK_READ {
            let guard = lock.acquire().await?;
            lock.release(guard).await?;
        }
        counted += CYCLES_PER_CLOCK_READ;
        let now = window.now();
        if now >= window.length {
            return Ok(WorkerResult { counted, nanos: now - start, samples: Vec::new() });
        }
    }
}

/// As [`count`], on a thread.
pub(crate) fn count_blocking(lock: &mut impl BlockingLock, window: Window) -> Result<WorkerResult> {
    let (start, mut counted) = (window.now(), 0);
    loop {
        for _ in 0..CYCLES_PER_CLOCK_READ {
            lock.acquire()?;
            lock.release()?;
        }
        counted += CYCLES_PER_CLOCK_READ;
        let now = window.now();
        if now >= window.length {
            return Ok(WorkerResult { counted, nanos: now - start, samples: Vec::new() });
        }
    }
}
