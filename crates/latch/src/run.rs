//! `latch run NAME -- CMD`: runs a command while holding a lock.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use latchwork::clock::{Clock, Moment};
use latchwork::engine::Lifetime;
use latchwork::{Client, Effect, Error, ErrorKind, Guard, Lock, Wait};
use nix::unistd::Pid;
use tokio::runtime::Builder;

use crate::cli::{OnLost, RunOptions};
use crate::connection::Connection;
use crate::duration::rounded;
use crate::failure::{self, Failure};
use crate::guardian::Guardian;
use crate::output::Output;
use crate::process_tree::{self, ProcessTree};
use crate::signals::{self, Signals};
use crate::supervisor::{LossPolicy, Outcome, Supervisor};
use crate::target::Target;
use crate::terminal::Terminal;
use crate::wait::{WaitReporter, WaitUpdates};
use crate::{elect, environment, first_connection, keep_fd, self_deadlock, wait};

/// Runs the command. Returns the command's own exit code if it ended under the lock.
pub(crate) fn run(options: &RunOptions, target: &Target, output: Output) -> Result<u8, Failure> {
    run_holding(options, target, output, &Holding::Lock)
}

/// The lock or leadership that `latch` holds while the command runs.
pub(crate) enum Holding<'a> {
    Lock,
    /// The leadership of an election, with the leader's value.
    Leadership(&'a [u8]),
}

/// Runs the command while holding a lock or a leadership.
pub(crate) fn run_holding(
    options: &RunOptions,
    target: &Target,
    output: Output,
    holding: &Holding<'_>,
) -> Result<u8, Failure> {
    self_deadlock::refuse(options, target)?;
    let runtime = Builder::new_current_thread().enable_all().build().map_err(cannot_start)?;
    let code = runtime.block_on(hold_and_run(options, target, output, holding));
    runtime.shutdown_background();
    code
}

async fn hold_and_run(
    options: &RunOptions,
    target: &Target,
    output: Output,
    holding: &Holding<'_>,
) -> Result<u8, Failure> {
    let mut signals = Signals::listen().map_err(cannot_start)?;
    let mut reporter = WaitReporter::new(&options.name, output);
    let updates = reporter.updates();
    let Connection { client, session } =
        connect(options, target, output, &mut reporter, &mut signals).await?;
    let note = options.note.describe(&options.command);
    let client = client.with_whole_note(&note);
    reporter.connected(&client, &note);
    let (wait, connecting) = remaining_wait(options, reporter.began());
    let acquiring = async {
        let guard = match holding {
            Holding::Lock => build_lock(&client, options, wait, updates).acquire().await,
            Holding::Leadership(value) => elect::campaign(&client, options, (wait, updates), value).await,
        };
        guard.map_err(Failure::from)
    };
    let acquired = wait::wait_for(acquiring, &mut reporter, &mut signals).await;
    let guard = acquired.map_err(|failure| match failure.code() {
        failure::TIMED_OUT if !connecting.is_zero() => {
            let hint =
                format!("the first connection took {} of the wait limit (--wait)", rounded(connecting));
            failure.or_code(options.conflict_exit_code).hint(hint)
        }
        _ => failure.or_code(options.conflict_exit_code),
    })?;
    reporter.granted();
    let mut command = Command::new(&options.command[0]);
    command.args(&options.command[1..]);
    environment::describe(&mut command, target, &guard, options.ttl());
    if options.keep_fd {
        // No process is left to forward a later signal. The runtime checks for signals when it is yielded to.
        tokio::task::yield_now().await;
        if let Some(signal) = signals.pending_termination() {
            let _ = guard.release().await;
            return Err(Failure::silent(signals::exit_code(signal)));
        }
        return Err(keep_fd::become_command(command, session, guard).await);
    }
    let code = run_guarded(options, command, session, guard, &mut signals, output).await;
    // The release had all the time that was useful: the drop of the client does not wait for an unfinished
    // one.
    let client = client.with_drop_timeout(Duration::ZERO);
    // A termination signal for the command is one for `latch` too.
    if options.at_least.is_some() && !signals.termination_requested() {
        wait_for_at_least(&client, &mut signals, output).await;
    }
    code
}

/// Connects. The wait limit includes the wait for the server. The opening of a database file is not retried.
async fn connect(
    options: &RunOptions,
    target: &Target,
    output: Output,
    reporter: &mut WaitReporter,
    signals: &mut Signals,
) -> Result<Connection, Failure> {
    let is_file = target.url.scheme() == "sqlite";
    if is_file || options.no_wait || options.wait.is_some_and(|limit| limit.is_zero()) {
        // The opening of a file may take long too: another process can have it locked.
        return wait::wait_for(Connection::open(&target.url, output), reporter, signals).await;
    }
    let (began, updates) = (reporter.began(), reporter.updates());
    let end = options.wait.map(|limit| began.after(limit));
    let connecting = first_connection::connect(&target.url, output, (began, end), &updates);
    wait::wait_for(connecting, reporter, signals).await
}

/// The wait limit for the lock, and the time that the first connection took from it. Less than 100 ms is not
/// counted, so that messages name the limit as it was given.
fn remaining_wait(options: &RunOptions, began: Moment) -> (Wait, Duration) {
    let took = Clock::boottime().now().since(began);
    let took = match took.as_millis() {
        ..100 => Duration::ZERO,
        _ => Duration::from_millis(took.as_millis() as u64),
    };
    match (options.no_wait, options.wait) {
        (true, _) => (Wait::Never, Duration::ZERO),
        (false, None) => (Wait::Forever, Duration::ZERO),
        (false, Some(limit)) if limit.is_zero() => (Wait::Never, Duration::ZERO),
        (false, Some(limit)) => (Wait::UpTo(limit.saturating_sub(took)), took),
    }
}

/// Waits until the lock has been held for `--at-least`, or until a termination signal.
async fn wait_for_at_least(client: &Client, signals: &mut Signals, output: Output) {
    let mut closing = std::pin::pin!(client.close());
    loop {
        tokio::select! {
            biased;
            signal = signals.next() => if signals::is_termination(signal) { return },
            closed = &mut closing => {
                return closed.unwrap_or_else(|error| output.notice(&error.to_string()));
            }
        }
    }
}

fn build_lock(client: &Client, options: &RunOptions, wait: Wait, updates: Arc<WaitUpdates>) -> Lock {
    let lifetime = if options.keep_fd { Lifetime::Session } else { Lifetime::Lease };
    client
        .lock(&options.name)
        .ttl(options.ttl())
        .wait(wait)
        .stop_margin(options.grace)
        .lifetime(lifetime)
        .hold_at_least(options.at_least.unwrap_or_default())
        .on_waiting(move |state| updates.publish(state))
}

/// Runs the command under supervision. The guardian ends the command if this process is killed.
async fn run_guarded(
    options: &RunOptions,
    mut command: Command,
    session: Option<OwnedFd>,
    guard: Guard,
    signals: &mut Signals,
    output: Output,
) -> Result<u8, Failure> {
    let mark = process_tree::new_mark();
    environment::mark(&mut command, &mark);
    // Before the command: it must never run without a guardian.
    let mut guardian = match Guardian::start(session, mark.clone(), options.ttl()) {
        Ok(guardian) => guardian,
        Err(error) => {
            let _ = guard.release().await;
            return Err(cannot_start(error));
        }
    };
    let group = guardian.group();
    let mut terminal = Terminal::open();
    if let Some(terminal) = &mut terminal {
        // From here on the terminal sends its signals to the group, which includes the guardian.
        guardian.wait_until_signals_blocked();
        terminal.lend_at_start(group);
    }
    let outcome = match command.process_group(group.as_raw()).spawn() {
        Err(error) => Err(cannot_run(&command, &error)),
        Ok(child) => {
            let tree = ProcessTree { group, mark, guardian: group };
            let policy =
                LossPolicy { on_lost: options.on_lost, grace: options.grace, ttl: options.ttl(), output };
            let child = Pid::from_raw(child.id() as i32);
            let supervisor = Supervisor::new(&guard, &mut guardian, child, tree, signals, terminal, policy);
            Ok(supervisor.supervise().await)
        }
    };
    guardian.dismiss();
    let released = release(guard).await;
    guardian.reap();
    let code = exit_code(outcome?, released, options.on_lost, output);
    report_survivors(group, output);
    code
}

/// Releases the lock. Waits for the reply only until the lease ends by itself: after that the reply is of no
/// use, and the parent process is waiting for this one to exit.
async fn release(guard: Guard) -> latchwork::Result<()> {
    let (name, lease_end) = (guard.name().clone(), guard.lease_end());
    let left = lease_end.since(Clock::boottime().now());
    tokio::time::timeout(left, guard.release()).await.unwrap_or_else(|_| {
        let message = format!(
            "lock {name:?}: no reply to the release before the lease ended; the lock is free without it"
        );
        Err(Error::new(ErrorKind::Unreachable, message).with_effect(Effect::Unknown))
    })
}

/// The exit code, from the outcome of the command and the engine's reply to the release.
fn exit_code(
    outcome: Outcome,
    released: latchwork::Result<()>,
    on_lost: OnLost,
    output: Output,
) -> Result<u8, Failure> {
    match (outcome, released) {
        (Outcome::Lost(_), _) => Ok(failure::LOST),
        (Outcome::Exited(code), Ok(())) => Ok(code),
        // Lost so shortly before the exit that no renewal reported it: the command may have run beside
        // another holder.
        (Outcome::Exited(_), Err(error)) if error.kind() == ErrorKind::Lost && on_lost == OnLost::Kill => {
            Err(error.into())
        }
        (Outcome::Exited(code), Err(error)) => {
            output.notice(&error.to_string());
            Ok(code)
        }
    }
}

fn report_survivors(group: Pid, output: Output) {
    if process_tree::group_runs(group) {
        output.notice(
            "processes of the command still run, without the lock; with --keep-fd they would hold it",
        );
    }
}

/// The failure to start a command, with the exit codes of a shell.
pub(crate) fn cannot_run(command: &Command, error: &io::Error) -> Failure {
    let program = Path::new(command.get_program());
    let code = match error.kind() {
        io::ErrorKind::NotFound => failure::NOT_FOUND,
        // One folder of PATH that may not be read turns "not found" into "permission denied".
        io::ErrorKind::PermissionDenied if !exists_in_path(program) => failure::NOT_FOUND,
        _ => failure::NOT_EXECUTABLE,
    };
    Failure::new(code, format!("cannot run {:?}: {error}", command.get_program()))
}

fn exists_in_path(program: &Path) -> bool {
    let is_path = program.as_os_str().as_encoded_bytes().contains(&b'/');
    let folders = std::env::var_os("PATH").unwrap_or_default();
    is_path || std::env::split_paths(&folders).any(|folder| folder.join(program).exists())
}

pub(crate) fn cannot_start(error: io::Error) -> Failure {
    Failure::new(failure::UNUSABLE, format!("cannot start: {error}"))
}
