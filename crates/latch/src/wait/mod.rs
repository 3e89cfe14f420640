//! The wait for a lock, and its end by a signal.

pub(crate) mod progress;
mod reporter;
mod updates;

use std::pin::pin;

use nix::sys::signal::{self, Signal};
use nix::unistd::Pid;

pub(crate) use self::reporter::WaitReporter;
pub(crate) use self::updates::WaitUpdates;
use crate::failure::Failure;
use crate::signals::{self, Signals};

/// Runs `work` and reports the wait for it. A termination signal ends the wait.
pub(crate) async fn wait_for<T>(
    work: impl Future<Output = Result<T, Failure>>,
    reporter: &mut WaitReporter,
    signals: &mut Signals,
) -> Result<T, Failure> {
    let termination = {
        let mut work = pin!(work);
        loop {
            tokio::select! {
                biased;
                done = &mut work => {
                    reporter.clear();
                    return done;
                }
                signal = signals.next() => match signal {
                    Signal::SIGTSTP => stop_this_process(),
                    signal if signals::is_termination(signal) => break signal,
                    _ => {}
                },
                () = reporter.refresh() => {}
            }
        }
    };
    reporter.clear();
    reporter.withdrawn().await;
    Err(Failure::silent(signals::exit_code(termination)))
}

/// Stops this process as ^Z would. Returns when the process is continued.
pub(crate) fn stop_this_process() {
    let _ = signal::kill(Pid::this(), Signal::SIGSTOP);
}
