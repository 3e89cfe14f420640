//! The signals that `latch` handles.

use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll, Waker};

use nix::sys::signal::Signal;
use tokio::signal::unix::{self, SignalKind};

const FORWARDED: [Signal; 9] = [
    Signal::SIGTERM,
    Signal::SIGINT,
    Signal::SIGHUP,
    Signal::SIGQUIT,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGTSTP,
    Signal::SIGCONT,
    Signal::SIGWINCH,
];

/// Handlers for the signals that are forwarded to the command, and for SIGCHLD.
pub(crate) struct Signals {
    streams: Vec<(Signal, unix::Signal)>,
    termination_requested: bool,
}

impl Signals {
    /// Installs the handlers. A signal that was ignored at the start stays ignored, so that nohup works.
    pub(crate) fn listen() -> io::Result<Self> {
        let ignored = ignored_at_start();
        let forwarded = FORWARDED.into_iter().filter(|signal| ignored & bit(*signal) == 0);
        // SIGCHLD always has a handler: if it were ignored, the kernel would discard the exit codes of
        // children.
        let streams = forwarded
            .chain([Signal::SIGCHLD])
            .map(|signal| Ok((signal, unix::signal(SignalKind::from_raw(signal as i32))?)))
            .collect::<io::Result<_>>()?;
        Ok(Self { streams, termination_requested: false })
    }

    /// The next signal. Cancel safe.
    pub(crate) async fn next(&mut self) -> Signal {
        let signal = poll_fn(|context| {
            let mut streams = self.streams.iter_mut();
            let arrived =
                streams.find_map(|(signal, stream)| stream.poll_recv(context).is_ready().then_some(*signal));
            arrived.map_or(Poll::Pending, Poll::Ready)
        })
        .await;
        self.termination_requested |= is_termination(signal);
        signal
    }

    /// Whether a termination signal has arrived so far, forwarded ones included.
    pub(crate) fn termination_requested(&self) -> bool {
        self.termination_requested
    }

    /// A termination signal that has already arrived.
    pub(crate) fn pending_termination(&mut self) -> Option<Signal> {
        let mut context = Context::from_waker(Waker::noop());
        let mut terminations = self.streams.iter_mut().filter(|(signal, _)| is_termination(*signal));
        terminations.find_map(|(signal, stream)| stream.poll_recv(&mut context).is_ready().then_some(*signal))
    }
}

/// Whether this signal requests the end of the process.
pub(crate) fn is_termination(signal: Signal) -> bool {
    matches!(signal, Signal::SIGTERM | Signal::SIGINT | Signal::SIGHUP | Signal::SIGQUIT)
}

/// The exit code of a process that was ended by this signal.
pub(crate) fn exit_code(signal: Signal) -> u8 {
    128 + signal as i32 as u8
}

fn bit(signal: Signal) -> u64 {
    1 << (signal as u32 - 1)
}

fn ignored_at_start() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
