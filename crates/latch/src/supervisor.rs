//! Supervises the command while the lock is held: its exit, its stops, the signals for it, and the loss of
//! the lock.

use std::time::Duration;

use latchwork::clock::{Clock, Moment};
use latchwork::{Guard, Loss};
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use crate::cli::OnLost;
use crate::guardian::Guardian;
use crate::output::Output;
use crate::process_tree::ProcessTree;
use crate::signals::{self, Signals};
use crate::terminal::Terminal;
use crate::wait::stop_this_process;

/// SIGKILL is sent before the end of the lease, because dying takes time: earlier by this fraction of the
/// remaining lease, but by no more than the maximum.
const KILL_MARGIN_DIVISOR: u32 = 4;
const MAX_KILL_MARGIN: Duration = Duration::from_millis(250);
/// The first and the longest interval between checks whether a terminated command has ended.
const FIRST_POLL_INTERVAL: Duration = Duration::from_millis(2);
const MAX_POLL_INTERVAL: Duration = Duration::from_millis(50);

/// How the command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It exited with this code.
    Exited(u8),
    /// The lock was lost, and `latch` ended the command.
    Lost(Loss),
}

/// The reaction to the loss of the lock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LossPolicy {
    pub(crate) on_lost: OnLost,
    pub(crate) grace: Duration,
    pub(crate) ttl: Duration,
    pub(crate) output: Output,
}

/// A running command under a lock.
pub(crate) struct Supervisor<'a> {
    pub(crate) guard: &'a Guard,
    pub(crate) guardian: &'a mut Guardian,
    pub(crate) command: Pid,
    pub(crate) tree: ProcessTree,
    pub(crate) signals: &'a mut Signals,
    pub(crate) terminal: Option<Terminal>,
    pub(crate) policy: LossPolicy,
    /// Whether SIGTSTP has arrived (^Z in a pipeline), so that `latch` stops with the command.
    stop_requested: bool,
    /// Whether the loss has been reported and the command continues.
    has_warned: bool,
}

enum SupervisorEvent {
    Signal(Signal),
    Lost(Loss),
}

impl<'a> Supervisor<'a> {
    pub(crate) fn new(
        guard: &'a Guard,
        guardian: &'a mut Guardian,
        command: Pid,
        tree: ProcessTree,
        signals: &'a mut Signals,
        terminal: Option<Terminal>,
        policy: LossPolicy,
    ) -> Self {
        let (stop_requested, has_warned) = (false, false);
        Self { guard, guardian, command, tree, signals, terminal, policy, stop_requested, has_warned }
    }

    /// Returns when the command has ended.
    pub(crate) async fn supervise(mut self) -> Outcome {
        loop {
            // Also before the first signal: the command may have ended before the handlers were installed.
            if let Some(code) = self.reap() {
                return Outcome::Exited(code);
            }
            match self.next_event().await {
                SupervisorEvent::Signal(signal) => self.handle_signal(signal),
                SupervisorEvent::Lost(loss) if self.policy.on_lost == OnLost::Kill => {
                    return self.terminate(loss).await;
                }
                SupervisorEvent::Lost(loss) => {
                    self.has_warned = true;
                    self.report_loss(loss);
                }
            }
        }
    }

    fn report_loss(&self, loss: Loss) {
        self.policy.output.lost(self.guard.name(), loss, self.policy.on_lost);
    }

    async fn next_event(&mut self) -> SupervisorEvent {
        tokio::select! {
            biased;
            signal = self.signals.next() => SupervisorEvent::Signal(signal),
            loss = self.guard.lost(), if !self.has_warned => SupervisorEvent::Lost(loss),
        }
    }

    /// The exit code, once the command has ended. Also handles stops of the command.
    fn reap(&mut self) -> Option<u8> {
        let flags = WaitPidFlag::WNOHANG | WaitPidFlag::WUNTRACED | WaitPidFlag::WCONTINUED;
        loop {
            match waitpid(self.command, Some(flags)) {
                Ok(WaitStatus::Exited(_, code)) => return Some(code as u8),
                Ok(WaitStatus::Signaled(_, signal, _)) => return Some(signals::exit_code(signal)),
                Ok(WaitStatus::Stopped(_, signal)) => self.stopped(signal),
                Ok(WaitStatus::StillAlive) => return None,
                Ok(_) => {}
                Err(nix::errno::Errno::EINTR) => {}
                // Only this function reaps the child. If it was reaped all the same, its exit code is
                // unknown.
                Err(_) => return Some(1),
            }
        }
    }

    fn handle_signal(&mut self, signal: Signal) {
        match signal {
            Signal::SIGCHLD => self.guardian.replace_if_dead(),
            Signal::SIGCONT => self.resume(),
            signal => {
                self.stop_requested |= signal == Signal::SIGTSTP;
                self.send(signal);
            }
        }
    }

    fn send(&self, signal: Signal) {
        self.guardian.wait_until_signals_blocked();
        self.tree.signal(self.command, signal);
    }

    fn lend_terminal(&mut self) -> bool {
        self.terminal.as_mut().is_some_and(|terminal| terminal.lend(self.tree.group))
    }

    /// The command was stopped.
    fn stopped(&mut self, signal: Signal) {
        let wants_terminal = matches!(signal, Signal::SIGTTIN | Signal::SIGTTOU);
        if wants_terminal && self.lend_terminal() {
            return self.send(Signal::SIGCONT);
        }
        let in_foreground = self.terminal.as_ref().is_some_and(Terminal::is_lent);
        if in_foreground || wants_terminal || self.stop_requested {
            self.stop_with_command();
        }
        // Otherwise the command alone was stopped, for example by a debugger: the lock is kept.
    }

    /// Stops this process too, because a shell expects the whole job to stop.
    fn stop_with_command(&mut self) {
        self.stop_requested = false;
        if let Some(terminal) = &mut self.terminal {
            terminal.take_back();
        }
        let (name, ttl) = (self.guard.name(), humantime::format_duration(self.policy.ttl));
        let message = format!("stopped; unless continued, the lock {name:?} expires after its ttl ({ttl})");
        self.policy.output.notice(&message);
        stop_this_process();
        self.resume();
    }

    /// Continues the command, unless the lock was lost meanwhile: then the loss event ends the command
    /// instead.
    fn resume(&mut self) {
        if self.policy.on_lost == OnLost::Kill && !self.guard.is_certain() {
            return;
        }
        if self.terminal.is_some() {
            self.lend_terminal();
        }
        self.send(Signal::SIGCONT);
    }

    /// Ends the command and all its descendants: with SIGTERM while the lease lasts, then with SIGKILL.
    async fn terminate(&mut self, loss: Loss) -> Outcome {
        let kill_at = self.kill_at(loss);
        self.report_loss(loss);
        if Clock::boottime().now() < kill_at {
            self.send(Signal::SIGTERM);
            self.send(Signal::SIGCONT); // a stopped process would not handle SIGTERM
        }
        let (mut reaped, mut interval) = (false, FIRST_POLL_INTERVAL);
        loop {
            let kills = Clock::boottime().now() >= kill_at;
            let alive = if kills { self.tree.kill_at_once(self.command) } else { self.tree.is_alive() };
            reaped = reaped || self.reap_terminated();
            if reaped && !alive {
                return Outcome::Lost(loss);
            }
            // Not past the moment of SIGKILL.
            let until_kill = kill_at.since(Clock::boottime().now());
            let pause = if until_kill.is_zero() { interval } else { interval.min(until_kill) };
            tokio::time::sleep(pause).await;
            interval = (interval * 2).min(MAX_POLL_INTERVAL);
        }
    }

    /// Whether the command has ended. Its exit code and its stops no longer matter.
    fn reap_terminated(&self) -> bool {
        !matches!(waitpid(self.command, Some(WaitPidFlag::WNOHANG)), Ok(WaitStatus::StillAlive))
    }

    /// When SIGKILL is sent.
    fn kill_at(&self, loss: Loss) -> Moment {
        let now = Clock::boottime().now();
        let left = match loss {
            // Another client may hold the lock already.
            Loss::Removed | Loss::SessionEnded | Loss::TakenOver | Loss::Copied => Duration::ZERO,
            _ => self.guard.lease_end().since(now),
        };
        now.after(self.policy.grace.min(left - (left / KILL_MARGIN_DIVISOR).min(MAX_KILL_MARGIN)))
    }
}
