//! The signals `latch` listens to.

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

/// Handlers for everything the command should hear of, and for the end of children.
pub(crate) struct Signals {
    streams: Vec<(Signal, unix::Signal)>,
    was_end_asked: bool,
}

impl Signals {
    /// Listens from now on. What was ignored at the start stays ignored, so that nohup works.
    pub(crate) fn listen() -> io::Result<Self> {
        let ignored = ignored_at_start();
        let heard = FORWARDED.into_iter().filter(|signal| ignored & bit(*signal) == 0);
        // The end of a child is always heard: an ignored SIGCHLD would also throw its exit code away.
        let streams = heard
            .chain([Signal::SIGCHLD])
            .map(|signal| Ok((signal, unix::signal(SignalKind::from_raw(signal as i32))?)))
            .collect::<io::Result<_>>()?;
        Ok(Self { streams, was_end_asked: false })
    }

    /// The next signal. May be dropped at any time.
    pub(crate) async fn next(&mut self) -> Signal {
        let signal = poll_fn(|context| {
            let mut streams = self.streams.iter_mut();
            let arrived =
                streams.find_map(|(signal, stream)| stream.poll_recv(context).is_ready().then_some(*signal));
            arrived.map_or(Poll::Pending, Poll::Ready)
        })
        .await;
        self.was_end_asked |= asks_to_end(signal);
        signal
    }

    /// Whether a signal has asked to end so far, also one that was passed on to the command.
    pub(crate) fn was_end_asked(&self) -> bool {
        self.was_end_asked
    }

    /// A signal that already arrived and asks to end.
    pub(crate) fn pending_end(&mut self) -> Option<Signal> {
        let mut context = Context::from_waker(Waker::noop());
        let mut ends = self.streams.iter_mut().filter(|(signal, _)| asks_to_end(*signal));
        ends.find_map(|(signal, stream)| stream.poll_recv(&mut context).is_ready().then_some(*signal))
    }
}

/// Whether whoever sends this signal wants the process to end.
pub(crate) fn asks_to_end(signal: Signal) -> bool {
    matches!(signal, Signal::SIGTERM | Signal::SIGINT | Signal::SIGHUP | Signal::SIGQUIT)
}

/// The exit code that stands for an end by a signal.
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
