//! Watches over the command while the lock is held: its end, its stops, signals for it, and the loss of the lock.

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
use crate::waiting::stop_myself;

/// How long before the end of the lease force is used at the latest, as a part of what is left of it: dying takes time.
const FORCE_MARGIN: u32 = 4;
const LONGEST_FORCE_MARGIN: Duration = Duration::from_millis(250);
/// The first and the longest pause between looks whether a command that has to end is gone.
const FIRST_LOOK: Duration = Duration::from_millis(2);
const LONGEST_LOOK: Duration = Duration::from_millis(50);

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// By itself, with this exit code.
    Exited(u8),
    /// The lock was lost, and the command was ended.
    Lost(Loss),
}

/// What to do when the lock is lost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Policy {
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
    pub(crate) policy: Policy,
    state: State,
}

/// What changes while the command runs.
struct State {
    /// Whether we were asked to stop (^Z in a pipeline), so that the command's stop is ours too.
    stop_asked: bool,
    warned: bool,
}

enum Event {
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
        policy: Policy,
    ) -> Self {
        let state = State { stop_asked: false, warned: false };
        Self { guard, guardian, command, tree, signals, terminal, policy, state }
    }

    /// Returns when the command is gone.
    pub(crate) async fn watch(mut self) -> Ending {
        loop {
            // Also before the first signal: the command may have ended before anybody listened.
            if let Some(code) = self.reap() {
                return Ending::Exited(code);
            }
            match self.next_event().await {
                Event::Signal(signal) => self.heard(signal),
                Event::Lost(loss) if self.policy.on_lost == OnLost::Kill => return self.put_down(loss).await,
                Event::Lost(loss) => {
                    self.state.warned = true;
                    self.say_lost(loss);
                }
            }
        }
    }

    fn say_lost(&self, loss: Loss) {
        self.policy.output.lost(self.guard.name(), loss, self.policy.on_lost);
    }

    async fn next_event(&mut self) -> Event {
        tokio::select! {
            biased;
            signal = self.signals.next() => Event::Signal(signal),
            loss = self.guard.lost(), if !self.state.warned => Event::Lost(loss),
        }
    }

    /// The exit code, once the command has ended. Deals with its stops on the way.
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
                // Nobody else waits for our child; if it is gone all the same, its code is gone too.
                Err(_) => return Some(1),
            }
        }
    }

    fn heard(&mut self, signal: Signal) {
        match signal {
            Signal::SIGCHLD => self.guardian.replace_if_dead(),
            Signal::SIGCONT => self.resume(),
            signal => {
                self.state.stop_asked |= signal == Signal::SIGTSTP;
                self.send(signal);
            }
        }
    }

    fn send(&self, signal: Signal) {
        self.guardian.wait_until_deaf();
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
        if in_foreground || wants_terminal || self.state.stop_asked {
            self.stop_too();
        }
        // Else somebody stopped the command alone, to look at it: the lock is kept.
    }

    /// A shell expects the whole job to stop.
    fn stop_too(&mut self) {
        self.state.stop_asked = false;
        if let Some(terminal) = &mut self.terminal {
            terminal.take_back();
        }
        let (name, ttl) = (self.guard.name(), humantime::format_duration(self.policy.ttl));
        let message = format!("stopped; unless continued, the lock {name:?} lapses after its ttl ({ttl})");
        self.policy.output.notice(&message);
        stop_myself();
        self.resume();
    }

    /// Continues the command, unless the lock was lost meanwhile: then it is ended instead, by the event of the loss.
    fn resume(&mut self) {
        if self.policy.on_lost == OnLost::Kill && !self.guard.is_certain() {
            return;
        }
        if self.terminal.is_some() {
            self.lend_terminal();
        }
        self.send(Signal::SIGCONT);
    }

    /// Ends everything the command started: gently while the lease lasts, by force from then on.
    async fn put_down(&mut self, loss: Loss) -> Ending {
        let force_at = self.force_at(loss);
        self.say_lost(loss);
        if Clock::boottime().now() < force_at {
            self.send(Signal::SIGTERM);
            self.send(Signal::SIGCONT); // a stopped process would not hear of it
        }
        let (mut reaped, mut pause) = (false, FIRST_LOOK);
        loop {
            let use_force = Clock::boottime().now() >= force_at;
            let alive = if use_force { self.tree.kill_at_once(self.command) } else { self.tree.is_alive() };
            reaped = reaped || self.reap_ending();
            if reaped && !alive {
                return Ending::Lost(loss);
            }
            // Not past the moment from which force is used.
            let until_force = force_at.since(Clock::boottime().now());
            tokio::time::sleep(if until_force.is_zero() { pause } else { pause.min(until_force) }).await;
            pause = (pause * 2).min(LONGEST_LOOK);
        }
    }

    /// Whether the command is gone. It is not asked why, and its stops no longer matter.
    fn reap_ending(&self) -> bool {
        !matches!(waitpid(self.command, Some(WaitPidFlag::WNOHANG)), Ok(WaitStatus::StillAlive))
    }

    fn force_at(&self, loss: Loss) -> Moment {
        let now = Clock::boottime().now();
        let left = match loss {
            // Somebody else may hold it already.
            Loss::Removed | Loss::SessionEnded | Loss::TakenOver | Loss::Copied => Duration::ZERO,
            _ => self.guard.lease_end().since(now),
        };
        now.after(self.policy.grace.min(left - (left / FORCE_MARGIN).min(LONGEST_FORCE_MARGIN)))
    }
}
