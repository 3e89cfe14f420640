//! Standstills of the machine: a thread that sleeps for 10 ms at a time records each late wake-up. A failed
//! case is printed with the standstills during it.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

const TICK: Duration = Duration::from_millis(10);
/// Shorter delays are usual on a busy machine.
const MIN_STANDSTILL: Duration = Duration::from_millis(100);

/// The standstills since the start.
pub(crate) struct Standstills(Mutex<Vec<Standstill>>);

/// The start and the duration of a standstill.
#[derive(Clone, Copy)]
pub(crate) struct Standstill {
    at: Instant,
    pub(crate) duration: Duration,
}

impl Standstills {
    /// Records them until the process ends.
    pub(crate) fn record() -> &'static Self {
        let standstills: &'static Self = Box::leak(Box::new(Self(Mutex::new(Vec::new()))));
        std::thread::spawn(|| {
            loop {
                let at = Instant::now();
                std::thread::sleep(TICK);
                let duration = at.elapsed() - TICK;
                if duration >= MIN_STANDSTILL {
                    let mut all = standstills.0.lock().unwrap_or_else(PoisonError::into_inner);
                    all.push(Standstill { at, duration });
                }
            }
        });
        standstills
    }

    /// The standstills that overlap this time.
    pub(crate) fn between(&self, from: Instant, to: Instant) -> Vec<Standstill> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().filter(|stop| stop.at < to && stop.at + stop.duration > from).copied().collect()
    }
}

impl Standstill {
    /// Its start, counted from `from`, and its duration, as text.
    pub(crate) fn describe(&self, from: Instant) -> String {
        let after = self.at.saturating_duration_since(from);
        format!("{:.1}s in, for {} ms", after.as_secs_f64(), self.duration.as_millis())
    }
}
