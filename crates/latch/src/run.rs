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
use crate::supervisor::{Ending, Policy, Supervisor};
use crate::target::Target;
use crate::terminal::Terminal;
use crate::wait_report::{News, WaitReport};
use crate::waiting;
use crate::{elect, environment, first_connection, keep_fd, nested};

/// Runs the command; the exit code is its own if it ran to its end under the lock.
pub(crate) fn run(options: &RunOptions, target: &Target, output: Output) -> Result<u8, Failure> {
    run_while(options, target, output, &Held::Lock)
}

/// What is held while the command runs.
pub(crate) enum Held<'a> {
    Lock,
    /// The leadership, and what others are told of the leader.
    Leading(&'a [u8]),
}

/// The same while something else is held.
pub(crate) fn run_while(
    options: &RunOptions,
    target: &Target,
    output: Output,
    held: &Held<'_>,
) -> Result<u8, Failure> {
    nested::refuse_to_wait_for_itself(options, target)?;
    let runtime = Builder::new_current_thread().enable_all().build().map_err(no_resources)?;
    let code = runtime.block_on(hold_and_run(options, target, output, held));
    runtime.shutdown_background();
    code
}

async fn hold_and_run(
    options: &RunOptions,
    target: &Target,
    output: Output,
    held: &Held<'_>,
) -> Result<u8, Failure> {
    let mut signals = Signals::listen().map_err(no_resources)?;
    let mut report = WaitReport::new(&options.name, output);
    let news = report.news();
    let Connection { client, session } = connect(options, target, output, &mut report, &mut signals).await?;
    let note = options.note.describe(&options.command);
    let client = client.with_whole_note(&note);
    report.connected(&client, &note);
    let (wait, connecting) = wait_that_is_left(options, report.began());
    let acquiring = async {
        let guard = match held {
            Held::Lock => describe_lock(&client, options, wait, news).acquire().await,
            Held::Leading(value) => elect::campaign(&client, options, (wait, news), value).await,
        };
        guard.map_err(Failure::from)
    };
    let acquired = waiting::wait_for(acquiring, &mut report, &mut signals).await;
    let guard = acquired.map_err(|failure| match failure.code() {
        failure::TIMED_OUT if !connecting.is_zero() => {
            let hint = format!("the first connection took {} of the wait limit", rounded(connecting));
            failure.or_code(options.conflict_exit_code).hint(hint)
        }
        _ => failure.or_code(options.conflict_exit_code),
    })?;
    report.granted();
    let mut command = Command::new(&options.command[0]);
    command.args(&options.command[1..]);
    environment::describe(&mut command, target, &guard, options.ttl());
    if options.keep_fd {
        // Nobody is left to forward a signal later; the runtime looks for news when it gets a turn.
        tokio::task::yield_now().await;
        if let Some(signal) = signals.pending_end() {
            let _ = guard.release().await;
            return Err(Failure::silent(signals::exit_code(signal)));
        }
        return Err(keep_fd::become_command(command, session, guard).await);
    }
    let code = run_guarded(options, command, session, guard, &mut signals, output).await;
    // The release got all the time that was useful. The drop waits no longer for an unfinished one.
    let client = client.with_drop_timeout(Duration::ZERO);
    // The command may have been asked to end, and `latch` with it.
    if options.at_least.is_some() && !signals.was_end_asked() {
        stay(&client, &mut signals, output).await;
    }
    code
}

/// Connects. The wait limit includes the wait for the server. A database file is opened at once or not at all.
async fn connect(
    options: &RunOptions,
    target: &Target,
    output: Output,
    report: &mut WaitReport,
    signals: &mut Signals,
) -> Result<Connection, Failure> {
    let is_file = target.url.scheme() == "sqlite";
    if is_file || options.no_wait || options.wait.is_some_and(|limit| limit.is_zero()) {
        // Also a file may take long: another process can have it locked.
        return waiting::wait_for(Connection::open(&target.url, output), report, signals).await;
    }
    let (began, news) = (report.began(), report.news());
    let end = options.wait.map(|limit| began.after(limit));
    let connecting = first_connection::connect(&target.url, output, (began, end), &news);
    waiting::wait_for(connecting, report, signals).await
}

/// The wait limit for the lock, and the time that the first connection took from it. Less than 100 ms is not counted, so
/// that messages name the limit as it was given.
fn wait_that_is_left(options: &RunOptions, began: Moment) -> (Wait, Duration) {
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

/// Stays while the lock is kept, unless it is told to end.
async fn stay(client: &Client, signals: &mut Signals, output: Output) {
    let mut kept = std::pin::pin!(client.close());
    loop {
        tokio::select! {
            biased;
            signal = signals.next() => if signals::asks_to_end(signal) { return },
            closed = &mut kept => {
                return closed.unwrap_or_else(|error| output.notice(&error.to_string()));
            }
        }
    }
}

fn describe_lock(client: &Client, options: &RunOptions, wait: Wait, news: Arc<News>) -> Lock {
    let lifetime = if options.keep_fd { Lifetime::Session } else { Lifetime::Lease };
    client
        .lock(&options.name)
        .ttl(options.ttl())
        .wait(wait)
        .stop_margin(options.grace)
        .lifetime(lifetime)
        .hold_at_least(options.at_least.unwrap_or_default())
        .on_waiting(move |state| news.hear(state))
}

/// The command's processes are watched over by us, and by the guardian in case we are killed.
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
    // Before the command: there must be no instant in which it runs unguarded.
    let mut guardian = match Guardian::start(session, mark.clone(), options.ttl()) {
        Ok(guardian) => guardian,
        Err(error) => {
            let _ = guard.release().await;
            return Err(no_resources(error));
        }
    };
    let group = guardian.group();
    let mut terminal = Terminal::open();
    if let Some(terminal) = &mut terminal {
        // From here on the terminal sends its signals to the group, and the guardian is in it.
        guardian.wait_until_deaf();
        terminal.lend_at_start(group);
    }
    let ending = match command.process_group(group.as_raw()).spawn() {
        Err(error) => Err(cannot_run(&command, &error)),
        Ok(child) => {
            let tree = ProcessTree { group, mark, guardian: group };
            let policy =
                Policy { on_lost: options.on_lost, grace: options.grace, ttl: options.ttl(), output };
            let child = Pid::from_raw(child.id() as i32);
            Ok(Supervisor::new(&guard, &mut guardian, child, tree, signals, terminal, policy).watch().await)
        }
    };
    guardian.dismiss();
    let released = release(guard).await;
    guardian.bury();
    let code = settle(ending?, released, options.on_lost, output);
    mention_survivors(group, output);
    code
}

/// Releases the lock. Waits for the reply only until the lease ends by itself: after that the reply is of no
/// use, and the parent process is waiting for this one to exit.
async fn release(guard: Guard) -> latchwork::Result<()> {
    let (name, lease_end) = (guard.name().clone(), guard.lease_end());
    let left = lease_end.since(Clock::boottime().now());
    tokio::time::timeout(left, guard.release()).await.unwrap_or_else(|_| {
        let message = format!(
            "lock {name:?}: its release was not answered before the lease ended; it comes free by itself"
        );
        Err(Error::new(ErrorKind::Unreachable, message).with_effect(Effect::Unknown))
    })
}

/// The exit code, from how the command ended and from what the engine said to the release.
fn settle(
    ending: Ending,
    released: latchwork::Result<()>,
    on_lost: OnLost,
    output: Output,
) -> Result<u8, Failure> {
    match (ending, released) {
        (Ending::Lost(_), _) => Ok(failure::LOST),
        (Ending::Exited(code), Ok(())) => Ok(code),
        // Lost so shortly before its end that no renewal told us: the command may have run beside another holder.
        (Ending::Exited(_), Err(error)) if error.kind() == ErrorKind::Lost && on_lost == OnLost::Kill => {
            Err(error.into())
        }
        (Ending::Exited(code), Err(error)) => {
            output.notice(&error.to_string());
            Ok(code)
        }
    }
}

fn mention_survivors(group: Pid, output: Output) {
    if process_tree::group_runs(group) {
        output.notice(
            "the command left processes behind, which run on without the lock; --keep-fd keeps it for them",
        );
    }
}

/// Why a command could not be started, with the exit codes of a shell.
pub(crate) fn cannot_run(command: &Command, error: &io::Error) -> Failure {
    let program = Path::new(command.get_program());
    let code = match error.kind() {
        io::ErrorKind::NotFound => failure::NOT_FOUND,
        // One folder of PATH that may not be read turns "not found" into "denied".
        io::ErrorKind::PermissionDenied if !is_in_sight(program) => failure::NOT_FOUND,
        _ => failure::NOT_EXECUTABLE,
    };
    Failure::new(code, format!("cannot run {:?}: {error}", command.get_program()))
}

fn is_in_sight(program: &Path) -> bool {
    let is_path = program.as_os_str().as_encoded_bytes().contains(&b'/');
    let folders = std::env::var_os("PATH").unwrap_or_default();
    is_path || std::env::split_paths(&folders).any(|folder| folder.join(program).exists())
}

pub(crate) fn no_resources(error: io::Error) -> Failure {
    Failure::new(failure::UNUSABLE, format!("cannot start: {error}"))
}
