//! The commands of a scripted process. LOCK is a name; every answer is one line.
//!
//! - `hold LOCK MILLIS`: acquires the lock if it is free, with that ttl; `held TOKEN`, `busy`, or an error.
//! - `certain LOCK`, `remaining LOCK`: the local state of the guard, without waiting.
//! - `lost LOCK MILLIS`: waits for the loss that long; the reason and whether the lease still ran, or `no`.
//! - `write LOCK STORE`, `overwrite STORE`: writes to a store, with the token and without.
//! - `release LOCK`, `drop LOCK`, `leak LOCK`, `close`, `inspect`, `disconnect`, `connect`.
//! - `clocks`: monotonic, since boot, wall, in milliseconds.
//! - `fork SOCKET`: forks; the parent answers `parent`, the fork goes on at the socket. `reap`: how the fork ended.
//! - `thread LOCK`: a thread acquires the lock into a thread-local variable, and ends.
//! - `return`, `exit`, `panic`: ends the process with all its guards.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use latchwork::blocking;
use latchwork::clock::{Clock, wall_micros};
use nix::sys::wait::wait;
use nix::time::{ClockId, clock_gettime};
use testkit::store::Store;

use super::channel::CommandChannel;
use super::either_client::{EitherClient, EitherGuard};

/// Longer than any test.
const FORK_LIFETIME_SECONDS: u32 = 60;

/// The state of one process.
pub(super) struct CommandLoop {
    url: String,
    client: Option<EitherClient>,
    guards: HashMap<String, EitherGuard>,
    channel: CommandChannel,
}

impl CommandLoop {
    pub(super) fn new(url: &str, client: EitherClient, channel: CommandChannel) -> Self {
        Self { url: url.to_owned(), client: Some(client), guards: HashMap::new(), channel }
    }

    /// Executes commands until the input or the process ends.
    pub(super) async fn run(mut self) {
        while let Some(command) = self.channel.read_command() {
            let words: Vec<&str> = command.split(' ').collect();
            let answer = match words[..] {
                ["return"] => return,
                ["exit"] => std::process::exit(0),
                ["panic"] => std::panic::resume_unwind(Box::new("as told")),
                ["fork", socket] => self.fork(socket),
                ["reap"] => format!("{:?}", wait().expect("the process has forked")),
                ["thread", name] => self.in_a_thread(name),
                ["clocks"] => clocks(),
                [verb, name] => self.use_lock(verb, name).await,
                [verb, name, more] => self.use_lock_with(verb, name, more).await,
                [verb] => self.use_client(verb).await,
                _ => unknown(&command),
            };
            self.channel.write_answer(&answer);
        }
    }

    async fn use_client(&mut self, verb: &str) -> String {
        match verb {
            "close" => return report(self.client().close().await),
            "inspect" => match self.client().inspect().await {
                Ok(locks) => return locks.len().to_string(),
                Err(error) => return report(Err(error)),
            },
            "disconnect" => self.client = None,
            // Not in the runtime of the former client: a fork shares that runtime's descriptors with its
            // parent.
            "connect" => self.client = Some(EitherClient::connect_blocking(&self.url).await),
            _ => unknown(verb),
        }
        report(Ok(()))
    }

    async fn use_lock(&mut self, verb: &str, name: &str) -> String {
        match verb {
            "certain" => return self.guards[name].held().is_certain().to_string(),
            "remaining" => return self.guards[name].held().remaining().as_millis().to_string(),
            "release" => return report(self.guard(name).release().await),
            "drop" => drop(self.guard(name)),
            "leak" => std::mem::forget(self.guard(name)),
            "overwrite" => Store::open(Path::new(name)).write_unchecked("the subject"),
            _ => unknown(verb),
        }
        report(Ok(()))
    }

    async fn use_lock_with(&mut self, verb: &str, name: &str, more: &str) -> String {
        match verb {
            "hold" => self.hold(name, millis(more)).await,
            "lost" => self.lost(name, millis(more)).await,
            "write" => {
                let token = self.guards[name].held().token().expect("the engine has tokens");
                format!("{:?}", Store::open(Path::new(more)).write(token, "the subject"))
            }
            _ => unknown(verb),
        }
    }

    fn client(&self) -> &EitherClient {
        self.client.as_ref().expect("the process is connected")
    }

    fn guard(&mut self, name: &str) -> EitherGuard {
        self.guards.remove(name).expect("the lock is held by this process")
    }

    async fn hold(&mut self, name: &str, ttl: Duration) -> String {
        match self.client().take(name, ttl).await {
            Ok(Some(guard)) => {
                let token = guard.held().token().expect("the engine has tokens");
                self.guards.insert(name.to_owned(), guard);
                format!("held {token}")
            }
            Ok(None) => "busy".to_owned(),
            Err(error) => report(Err(error)),
        }
    }

    /// "In time" means before the lease can end.
    async fn lost(&self, name: &str, within: Duration) -> String {
        let guard = &self.guards[name];
        let loss = guard.lost(within).await;
        let in_time = Clock::boottime().now() < guard.held().lease_end();
        match loss {
            Some(loss) if in_time => format!("{} in time", loss.label()),
            Some(loss) => format!("{} late", loss.label()),
            None => "no".to_owned(),
        }
    }

    /// The one call that returns in two processes.
    fn fork(&mut self, socket: &str) -> String {
        let parent = std::process::id();
        nix::unistd::sync();
        if std::process::id() == parent {
            return "parent".to_owned();
        }
        // No test kills the fork if it has failed, and a fork that hangs does not notice the end of its test.
        nix::unistd::alarm::set(FORK_LIFETIME_SECONDS);
        self.channel = CommandChannel::of_a_fork(socket);
        "fork".to_owned()
    }

    /// The variable is created before the lock is acquired, so it is dropped after the runtime's own
    /// thread-local state.
    fn in_a_thread(&self, name: &str) -> String {
        thread_local!(static HELD: RefCell<Option<blocking::Guard>> = const { RefCell::new(None) });
        let (url, name) = (self.url.clone(), name.to_owned());
        let thread = std::thread::spawn(move || {
            HELD.with(|held| {
                let client = blocking::connect(&url).expect("the engine accepts the connection");
                *held.borrow_mut() = client.lock(&name).try_acquire().expect("the engine answers");
                held.borrow().is_some()
            })
        });
        thread.join().map_or("panicked".to_owned(), |held| held.to_string())
    }
}

fn unknown<T>(command: &str) -> T {
    panic!("{command:?} is no command; see the top of commands.rs")
}

fn millis(text: &str) -> Duration {
    Duration::from_millis(text.parse().expect("milliseconds"))
}

fn report(result: latchwork::Result<()>) -> String {
    match result {
        Ok(()) => "ok".to_owned(),
        Err(error) => format!("{:?}: {error}", error.kind()),
    }
}

#[allow(
    clippy::disallowed_methods,
    reason = "this is the clock that must not be used, to show that it stands"
)]
fn clocks() -> String {
    let monotonic = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("there is one");
    let boot = Clock::boottime().now().as_micros() / 1_000;
    format!("{} {boot} {}", Duration::from(monotonic).as_millis(), wall_micros() / 1_000)
}
