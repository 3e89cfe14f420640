//! Passes alone: tasks of one runtime hand one lock round, and only every 32nd pass is timed.
//!
//! A look at the clock in every turn, as the workloads have it, would be a third of what a pass of a mutex costs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use crate::Result;
use crate::contend::AsyncLock;
use crate::turn::{Tally, Turn};
use crate::window::Window;

/// Passes between two looks at the clock. Far fewer than the 255 after which our lock goes back to its engine, so that
/// most blocks are of passes only.
pub(crate) const BLOCK: u64 = 32;

/// Runs one task for each lock, all of which are the same, until the window closes.
pub(crate) async fn run<L: AsyncLock>(locks: Vec<L>, window: Window) -> Result<Tally> {
    let baton = Arc::new(Baton::new(locks.len()));
    let task = |(task, lock)| {
        let baton = baton.clone();
        tokio::spawn(async move {
            let done = take_turns(lock, task, &baton, window).await;
            // Whoever is left alone has nobody to pass to, and would never see the end.
            baton.end_if(done.is_err());
            done
        })
    };
    let running: Vec<_> = (0..).zip(locks).map(task).collect();
    let mut all = Tally::default();
    for task in running {
        let mut tally = task.await??;
        all.counted += tally.counted;
        all.turns.append(&mut tally.turns);
    }
    Ok(all)
}

async fn take_turns<L: AsyncLock>(lock: L, task: u64, baton: &Baton, window: Window) -> Result<Tally> {
    let mut tally = Tally::default();
    while !baton.is_over() {
        baton.asks(task, true);
        let guard = lock.acquire().await?;
        baton.asks(task, false);
        if baton.ends_a_block(task) {
            let acquired = window.now();
            tally.turns.push(Turn { task, asked: acquired, acquired, released: acquired });
            baton.end_if(acquired >= window.length);
        }
        // Released with nobody in line, it would not be passed but be free, and be had again by the same task.
        baton.wait_for_another(task).await;
        lock.release(guard).await?;
        tally.counted += 1;
    }
    Ok(tally)
}

/// What the tasks know in common. Apart from `asking`, written by who holds the lock, which orders it.
struct Baton {
    /// Which tasks are in line, or one step from it.
    asking: Vec<AtomicBool>,
    last: AtomicU64,
    passes: AtomicU64,
    over: AtomicBool,
}

impl Baton {
    fn new(tasks: usize) -> Self {
        let asking = (0..tasks).map(|_| AtomicBool::new(false)).collect();
        let [last, passes] = [u64::MAX, 0].map(AtomicU64::new);
        Self { asking, last, passes, over: AtomicBool::new(false) }
    }

    fn asks(&self, task: u64, asks: bool) {
        self.asking[task as usize].store(asks, Relaxed);
    }

    async fn wait_for_another(&self, task: u64) {
        while !self.is_anyone_behind(task) && !self.is_over() {
            // The other's thread may wait for this core: without it, a pass would last as long as a time slice.
            std::thread::yield_now();
            tokio::task::yield_now().await;
        }
    }

    /// Begins with the neighbour, who mostly is the next.
    fn is_anyone_behind(&self, task: u64) -> bool {
        let (before, after) = self.asking.split_at(task as usize + 1);
        after.iter().chain(before).any(|asks| asks.load(Relaxed))
    }

    /// Counts the turn of `task` if another had the one before; whether that was the last pass of a block.
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
    fn only_a_turn_after_anothers_is_a_pass() {
        let baton = Baton::new(2);
        let ended = (0..BLOCK * 3).filter(|turn| baton.ends_a_block(turn / 2 % 2)).count();
        // Two turns each: half of them are passes, which makes one block and a half.
        assert_eq!((ended, baton.passes.load(Relaxed)), (1, BLOCK * 3 / 2));
    }

    #[tokio::test]
    async fn every_turn_is_passed_on() -> Result<()> {
        let lock = Arc::new(tokio::sync::Mutex::new(()));
        let window = Window::new(Clock::boottime().now(), 20);
        let tally = run(vec![lock.clone(), lock], window).await?;
        let passes = tally.turns.len() as u64 * BLOCK;
        // The last block is not full, and at the end each task may have one turn more.
        assert!(passes > 0 && tally.counted - passes < BLOCK + 2, "{passes} in {} turns", tally.counted);
        Ok(())
    }
}
