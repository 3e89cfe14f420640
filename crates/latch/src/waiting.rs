//! Waiting for the lock, and breaking the wait off.

use std::pin::pin;

use nix::sys::signal::{self, Signal};
use nix::unistd::Pid;

use crate::failure::Failure;
use crate::signals::{self, Signals};
use crate::wait_report::WaitReport;

/// Does `work`, and reports the wait for it. A signal that asks to end breaks it off.
pub(crate) async fn wait_for<T>(
    work: impl Future<Output = Result<T, Failure>>,
    report: &mut WaitReport,
    signals: &mut Signals,
) -> Result<T, Failure> {
    let end = {
        let mut work = pin!(work);
        loop {
            tokio::select! {
                biased;
                done = &mut work => {
                    report.clear();
                    return done;
                }
                signal = signals.next() => match signal {
                    Signal::SIGTSTP => stop_myself(),
                    signal if signals::asks_to_end(signal) => break signal,
                    _ => {}
                },
                () = report.refresh() => {}
            }
        }
    };
    report.clear();
    report.withdrawn().await;
    Err(Failure::silent(signals::exit_code(end)))
}

/// Stops this process as ^Z would; returns when it is continued.
pub(crate) fn stop_myself() {
    let _ = signal::kill(Pid::this(), Signal::SIGSTOP);
}
