//! Shares of the machine. The sum of the taken shares never exceeds the machine's cores and memory.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// The cores (in hundredths) and the memory (in mebibytes) of the machine, granted in the order of the
/// requests.
pub(crate) struct Budget {
    cores: u32,
    memory: u32,
    state: Mutex<BudgetState>,
    changed: Condvar,
}

/// A part of the budget, returned when it is dropped.
pub(crate) struct Share<'a> {
    budget: &'a Budget,
    cores: u32,
    memory: u32,
}

/// Cases of a running process go first: their process already takes memory, and it ends when they are done.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Priority {
    CaseOfRunning,
    NewProcess,
}

struct BudgetState {
    cores: u32,
    memory: u32,
    next: u64,
    waiting: [VecDeque<u64>; 2],
}

impl Budget {
    pub(crate) fn new(cores: u32, memory: u32) -> Self {
        let state = BudgetState { cores, memory, next: 0, waiting: [VecDeque::new(), VecDeque::new()] };
        Self { cores, memory, state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Waits for a share. A request for more than the machine has is a request for the whole machine.
    pub(crate) fn take(&self, cores: u32, memory: u32, priority: Priority) -> Share<'_> {
        let (cores, memory) = (cores.min(self.cores), memory.min(self.memory));
        let mut state = self.lock();
        let ticket = state.next;
        state.next += 1;
        state.waiting[priority as usize].push_back(ticket);
        // Strictly in order: a large request would starve if smaller ones could overtake it.
        while !(state.is_first(ticket, priority) && state.cores >= cores && state.memory >= memory) {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.waiting[priority as usize].pop_front();
        state.cores -= cores;
        state.memory -= memory;
        self.changed.notify_all();
        Share { budget: self, cores, memory }
    }

    fn lock(&self) -> MutexGuard<'_, BudgetState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BudgetState {
    fn is_first(&self, ticket: u64, priority: Priority) -> bool {
        let [running, new] = &self.waiting;
        match priority {
            Priority::CaseOfRunning => running.front() == Some(&ticket),
            Priority::NewProcess => running.is_empty() && new.front() == Some(&ticket),
        }
    }
}

impl Drop for Share<'_> {
    fn drop(&mut self) {
        let mut state = self.budget.lock();
        state.cores += self.cores;
        state.memory += self.memory;
        self.budget.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_request_waits_until_its_share_is_free() {
        let budget = Budget::new(200, 1000);
        let first = budget.take(150, 100, Priority::NewProcess);
        let (taken, took) = mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let _all = budget.take(u32::MAX, u32::MAX, Priority::NewProcess);
                taken.send(()).unwrap();
            });
            assert!(took.recv_timeout(Duration::from_millis(50)).is_err(), "more than is free");
            drop(first);
            took.recv().unwrap();
        });
        assert_eq!(budget.lock().cores, 200);
    }

    #[test]
    fn cases_of_running_processes_go_first() {
        let budget = Budget::new(100, 100);
        let first = budget.take(100, 0, Priority::NewProcess);
        let (done, order) = mpsc::channel();
        std::thread::scope(|scope| {
            for (at, priority) in [Priority::NewProcess, Priority::CaseOfRunning].into_iter().enumerate() {
                let (budget, done) = (&budget, done.clone());
                scope.spawn(move || {
                    let _share = budget.take(100, 0, priority);
                    done.send(priority).unwrap();
                });
                while budget.lock().waiting.iter().map(VecDeque::len).sum::<usize>() <= at {
                    std::thread::yield_now();
                }
            }
            drop(first);
        });
        assert!(order.recv().unwrap() == Priority::CaseOfRunning);
    }
}
