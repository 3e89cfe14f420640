//! The alarm: wakes tasks at an instant, even if the runtime or the keeper is blocked, or the machine was
//! suspended.
//!
//! One thread for the whole process, started when the first task waits for a loss. tokio's timers stand still
//! while the machine sleeps, and belong to a runtime that may be busy. A timer on `CLOCK_BOOTTIME` has
//! neither problem.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Mutex;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};

use crate::clock::{Clock, Moment};
use crate::poison::lock_ignoring_poison;

/// Sleeps until `moment` on `clock`.
pub(crate) async fn sleep_until(clock: Clock, moment: Moment) {
    match Alarm::of_this_process() {
        Some(alarm) if !clock.lives_in_the_runtime() => Sleep { alarm, moment, key: None }.await,
        // No thread or descriptor left: the runtime's timers have to do.
        _ => clock.sleep_until(moment).await,
    }
}

/// The sleeping tasks of a process, and their timer.
struct Alarm {
    /// The process that its thread runs in. A fork inherits the timer, and would change its parent's wake-up
    /// with it.
    pid: u32,
    timer: TimerFd,
    sleepers: Mutex<Sleepers>,
}

#[derive(Default)]
struct Sleepers {
    by_time: BTreeMap<(Moment, u64), Waker>,
    last_key: u64,
}

impl Alarm {
    fn of_this_process() -> Option<&'static Self> {
        static ALARM: Mutex<Option<&'static Alarm>> = Mutex::new(None);
        let mut alarm = lock_ignoring_poison(&ALARM);
        if alarm.is_none_or(Self::is_of_another_process) {
            *alarm = Self::start();
        }
        *alarm
    }

    fn is_of_another_process(&self) -> bool {
        self.pid != forkmark::process_id()
    }

    fn start() -> Option<&'static Self> {
        let timer = TimerFd::new(ClockId::CLOCK_BOOTTIME, TimerFlags::TFD_CLOEXEC).ok()?;
        // Lives as long as the process, like its thread.
        let (pid, sleepers) = (forkmark::process_id(), Mutex::default());
        let alarm: &'static Self = Box::leak(Box::new(Self { pid, timer, sleepers }));
        let thread = std::thread::Builder::new().name("latch-alarm".into()).spawn(|| alarm.ring());
        thread.ok().map(|_| alarm)
    }

    fn ring(&self) {
        loop {
            let _ = self.timer.wait();
            self.wake_due();
        }
    }

    fn wake_due(&self) {
        let mut sleepers = lock_ignoring_poison(&self.sleepers);
        let later = sleepers.by_time.split_off(&(Clock::boottime().now(), u64::MAX));
        let due = std::mem::replace(&mut sleepers.by_time, later);
        self.set_for_first(&sleepers);
        drop(sleepers);
        due.into_values().for_each(Waker::wake);
    }

    /// Sets the timer relative to now. It also counts time while the machine sleeps.
    fn set_for_first(&self, sleepers: &Sleepers) {
        let Some(((first, _), _)) = sleepers.by_time.first_key_value() else { return };
        // A timer set to zero would be switched off.
        let span = first.since(Clock::boottime().now()).max(Duration::from_nanos(1));
        let _ = self.timer.set(Expiration::OneShot(TimeSpec::from(span)), TimerSetTimeFlags::empty());
    }

    fn enter(&self, moment: Moment, key: Option<u64>, waker: &Waker) -> u64 {
        let mut sleepers = lock_ignoring_poison(&self.sleepers);
        let key = key.unwrap_or_else(|| {
            sleepers.last_key += 1;
            sleepers.last_key
        });
        let former = sleepers.by_time.insert((moment, key), waker.clone());
        if sleepers.by_time.first_key_value().is_some_and(|((_, first), _)| *first == key) {
            self.set_for_first(&sleepers);
        }
        drop(sleepers);
        // After the mutex is unlocked: a task that ends with its last waker may be a sleeper.
        drop(former);
        key
    }

    fn leave(&self, moment: Moment, key: u64) {
        let gone = lock_ignoring_poison(&self.sleepers).by_time.remove(&(moment, key));
        drop(gone);
    }
}

struct Sleep {
    alarm: &'static Alarm,
    moment: Moment,
    key: Option<u64>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        // A task that began to sleep before a fork checks again after it.
        if Clock::boottime().now() >= self.moment || self.alarm.is_of_another_process() {
            return Poll::Ready(());
        }
        if self.moment != Moment::NEVER {
            self.key = Some(self.alarm.enter(self.moment, self.key, cx.waker()));
        }
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(key) = self.key.filter(|_| !self.alarm.is_of_another_process()) {
            self.alarm.leave(self.moment, key);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// In a runtime without timers: nothing but the alarm can wake these.
    #[test]
    fn sleepers_are_woken_in_order_without_a_timer_of_the_runtime() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(async {
            let clock = Clock::boottime();
            let start = clock.now();
            let after = |millis| async move {
                sleep_until(clock, start.after(Duration::from_millis(millis))).await;
                clock.now().since(start)
            };
            let (late, early, middle) = tokio::join!(after(60), after(20), after(40));
            assert!(early >= Duration::from_millis(20) && early < late, "{early:?} {late:?}");
            assert!(middle >= Duration::from_millis(40) && late >= Duration::from_millis(60));
        });
    }

    /// The future that ends with the last waker of its task.
    struct Task(Mutex<Option<Pin<Box<dyn Future<Output = ()> + Send>>>>);

    impl std::task::Wake for Task {
        fn wake(self: Arc<Self>) {}
    }

    /// As in a small executor, where the wakers own the task.
    #[test]
    fn a_task_that_ends_with_its_last_waker_may_be_a_sleeper() {
        let (sender, done) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let far = Clock::boottime().now().after(Duration::from_secs(3_600));
            let mut moved = Box::pin(sleep_until(Clock::boottime(), far));
            let mut stays = Box::pin(sleep_until(Clock::boottime(), far));
            let task = Arc::new(Task(Mutex::default()));
            assert!(stays.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
            *lock_ignoring_poison(&task.0) = Some(stays);
            let waker = Waker::from(task);
            assert!(moved.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
            drop(waker);
            // Polled by another task now: nothing else refers to the former one.
            assert!(moved.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
            let _ = sender.send(());
        });
        done.recv_timeout(Duration::from_secs(20)).expect("no sleeper waits for itself");
    }

    #[test]
    fn a_cancelled_sleep_is_removed() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        runtime.block_on(async {
            let far = Clock::boottime().now().after(Duration::from_secs(3_600));
            let sleeping = sleep_until(Clock::boottime(), far);
            assert!(tokio::time::timeout(Duration::from_millis(5), sleeping).await.is_err());
            let alarm = Alarm::of_this_process().expect("there are threads");
            assert!(!lock_ignoring_poison(&alarm.sleepers).by_time.keys().any(|(moment, _)| *moment == far));
        });
    }
}
