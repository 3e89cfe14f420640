//! The measured loops of every side: one for async locks, one for locks that block the thread.
//!
//! Both read the clock at the same points, so that sides differ in their locks alone.

use std::future::Future;
use std::time::Duration;

use crate::Result;
use crate::sample::{Sample, WorkerResult};
use crate::window::Window;

/// Cycles between two reads of the clock where only their number counts: a read costs as much as a free
/// mutex.
const CYCLES_PER_CLOCK_READ: u64 = 64;
/// The reserved capacity: growing the vector would interrupt the measured loop.
const EXPECTED_SAMPLES: usize = 1 << 16;

/// The pacing of a task's cycles.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pacing {
    /// How long the lock is held; `None`: as short as possible.
    pub(crate) hold: Option<Duration>,
    /// How long a task sleeps after its release. Blocks the thread, because tokio's timers tick in
    /// milliseconds.
    pub(crate) pause: Option<Duration>,
    /// Reads the clock once in a cycle instead of twice: a wait then counts from the cycle before.
    pub(crate) reads_clock_once: bool,
}

/// An async lock.
pub(crate) trait AsyncLock: Send + Sync + 'static {
    type Guard: Send;
    fn acquire(&self) -> impl Future<Output = Result<Self::Guard>> + Send;
    fn release(&self, guard: Self::Guard) -> impl Future<Output = Result<()>> + Send;
}

/// A lock that blocks the thread.
pub(crate) trait BlockingLock {
    fn acquire(&mut self) -> Result<()>;
    fn release(&mut self) -> Result<()>;
    /// Work that belongs to the next release and not to this acquire. Called after the time was taken.
    fn prepare_release(&mut self) -> Result<()> {
        Ok(())
    }
}

/// Acquires and releases until the window closes, and records each cycle. The last cycle may lie past the
/// end: it shows the length of the last wait.
pub(crate) async fn contend<L: AsyncLock>(
    lock: L,
    task: u64,
    window: Window,
    pace: Pacing,
) -> Result<Vec<Sample>> {
    let mut samples = Vec::with_capacity(EXPECTED_SAMPLES);
    // From the window's start: a task that the scheduler delays waits too.
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

/// As [`contend`], for a blocking lock.
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

/// Counts cycles until the window closes, without recording them.
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

/// As [`count`], for a blocking lock.
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
