//! The local handoff alone: tasks of one runtime pass one lock round, and only every 32nd pass is timed.
//!
//! To read the clock in every cycle, as the other workloads do, would cost a third of a pass of a mutex.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use crate::Result;
use crate::contend::AsyncLock;
use crate::sample::{Sample, WorkerResult};
use crate::window::Window;

/// Passes between two reads of the clock. Far fewer than the 255 after which Latchwork's lock goes back to
/// its engine, so that most blocks consist of passes only.
pub(crate) const BLOCK: u64 = 32;

/// Runs one task for each lock until the window closes. All of them are the same lock.
pub(crate) async fn run<L: AsyncLock>(locks: Vec<L>, window: Window) -> Result<WorkerResult> {
    let state = Arc::new(HandoffState::new(locks.len()));
    let task = |(task, lock)| {
        let state = state.clone();
        tokio::spawn(async move {
            let done = run_cycles(lock, task, &state, window).await;
            // A task that is left alone has no waiter to pass to, and would never see the end.
            state.end_if(done.is_err());
            done
        })
    };
    let running: Vec<_> = (0..).zip(locks).map(task).collect();
    let mut all = WorkerResult::default();
    for task in running {
        let mut result = task.await??;
        all.counted += result.counted;
        all.samples.append(&mut result.samples);
    }
    Ok(all)
}

async fn run_cycles<L: AsyncLock>(
    lock: L,
    task: u64,
    state: &HandoffState,
    window: Window,
) -> Result<WorkerResult> {
    let mut result = WorkerResult::default();
    while !state.is_over() {
        state.set_requesting(task, true);
        let guard = lock.acquire().await?;
        state.set_requesting(task, false);
        if state.ends_a_block(task) {
            let acquired = window.now();
            result.samples.push(Sample { task, requested: acquired, acquired, released: acquired });
            state.end_if(acquired >= window.length);
        }
        // Without a waiter, a release would not pass the lock: it would be free, and this task would acquire
        // it again.
        state.wait_for_waiter(task).await;
        lock.release(guard).await?;
        result.counted += 1;
    }
    Ok(result)
}

/// The state that the tasks share. Apart from `requesting`, only the lock's holder writes it, so the lock
/// orders writes.
struct HandoffState {
    /// The tasks that are in the queue, or about to enter it.
    requesting: Vec<AtomicBool>,
    last: AtomicU64,
    passes: AtomicU64,
    over: AtomicBool,
}

impl HandoffState {
    fn new(tasks: usize) -> Self {
        let requesting = (0..tasks).map(|_| AtomicBool::new(false)).collect();
        let [last, passes] = [u64::MAX, 0].map(AtomicU64::new);
        Self { requesting, last, passes, over: AtomicBool::new(false) }
    }

    fn set_requesting(&self, task: u64, requesting: bool) {
        self.requesting[task as usize].store(requesting, Relaxed);
    }

    async fn wait_for_waiter(&self, task: u64) {
        while !self.has_waiter(task) && !self.is_over() {
            // Another task's thread may wait for this core: without the yield, a pass would last as long as a
            // time slice.
            std::thread::yield_now();
            tokio::task::yield_now().await;
        }
    }

    /// Begins with the neighbour, which usually is the next waiter.
    fn has_waiter(&self, task: u64) -> bool {
        let (before, after) = self.requesting.split_at(task as usize + 1);
        after.iter().chain(before).any(|requesting| requesting.load(Relaxed))
    }

    /// Counts a pass if another task held the lock before. Returns whether that was the last pass of a block.
    fn ends_a_block(&self, task: u64) -> bool {
        if self.last.load(Relaxed) == task {
            return false;
        }
        let passes = self.passes.load(Relaxed) + 1;
        self.last.store(task, Relaxed);
        self.passes.store(passes, Relaxed);
        passes.is_multiple_of(BLOCK)
    }

    fn end_if(&self, over: bool) {
        if over {
            self.over.store(true, Relaxed);
        }
    }

    fn is_over(&self) -> bool {
        self.over.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use latchwork::clock::Clock;

    use super::*;

    #[test]
    fn only_a_cycle_after_that_of_another_task_is_a_pass() {
        let state = HandoffState::new(2);
        let ended = (0..BLOCK * 3).filter(|cycle| state.ends_a_block(cycle / 2 % 2)).count();
        // Two cycles each: half of them are passes, which makes one block and a half.
        assert_eq!((ended, state.passes.load(Relaxed)), (1, BLOCK * 3 / 2));
    }

    #[tokio::test]
    async fn every_cycle_ends_with_a_pass() -> Result<()> {
        let lock = Arc::new(tokio::sync::Mutex::new(()));
        let window = Window::new(Clock::boottime().now(), 20);
        let result = run(vec![lock.clone(), lock], window).await?;
        let passes = result.samples.len() as u64 * BLOCK;
        // The last block is not full, and at the end each task may have one cycle more.
        assert!(passes > 0 && result.counted - passes < BLOCK + 2, "{passes} in {} turns", result.counted);
        Ok(())
    }
}
