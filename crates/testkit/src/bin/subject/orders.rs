//! What a subject can be told. LOCK is a name; every answer is one line.
//!
//! - `hold LOCK MILLIS`: takes it if it is free, with that ttl; `held TOKEN`, `busy`, or an error.
//! - `certain LOCK`, `remaining LOCK`: what is known of it, without waiting for anything.
//! - `lost LOCK MILLIS`: waits for its loss that long; the reason and whether the lease still ran, or `no`.
//! - `write LOCK STORE`, `overwrite STORE`: to a store, with the token and without.
//! - `release LOCK`, `drop LOCK`, `leak LOCK`, `close`, `inspect`, `disconnect`, `connect`.
//! - `clocks`: monotonic, since boot, wall, in milliseconds.
//! - `fork SOCKET`: forks; the parent answers `parent`, the fork goes on at the socket. `reap`: how the fork ended.
//! - `thread LOCK`: a thread takes it into a variable of its own, and ends.
//! - `return`, `exit`, `panic`: ends with whatever it has.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use latchwork::blocking;
use latchwork::clock::{Clock, wall_micros};
use nix::sys::wait::wait;
use nix::time::{ClockId, clock_gettime};
use testkit::store::Store;

use super::hands::{Grip, Hands};
use super::talk::Talk;

/// In seconds; longer than any test.
const LIFE_OF_A_FORK: u32 = 60;

/// One subject's state.
pub(super) struct Orders {
    url: String,
    hands: Option<Hands>,
    grips: HashMap<String, Grip>,
    talk: Talk,
}

impl Orders {
    pub(super) fn new(url: &str, hands: Hands, talk: Talk) -> Self {
        Self { url: url.to_owned(), hands: Some(hands), grips: HashMap::new(), talk }
    }

    /// Does what it is told until it is told to end, or nothing more.
    pub(super) async fn follow(mut self) {
        while let Some(order) = self.talk.hear() {
            let words: Vec<&str> = order.split(' ').collect();
            let answer = match words[..] {
                ["return"] => return,
                ["exit"] => std::process::exit(0),
                ["panic"] => std::panic::resume_unwind(Box::new("as told")),
                ["fork", socket] => self.fork(socket),
                ["reap"] => format!("{:?}", wait().expect("it has forked")),
                ["thread", name] => self.in_a_thread(name),
                ["clocks"] => clocks(),
                [verb, name] => self.use_lock(verb, name).await,
                [verb, name, more] => self.use_lock_with(verb, name, more).await,
                [verb] => self.use_client(verb).await,
                _ => unknown(&order),
            };
            self.talk.say(&answer);
        }
    }

    async fn use_client(&mut self, verb: &str) -> String {
        match verb {
            "close" => return said(self.hands().close().await),
            "inspect" => match self.hands().inspect().await {
                Ok(locks) => return locks.len().to_string(),
                Err(error) => return said(Err(error)),
            },
            "disconnect" => self.hands = None,
            // Not in the runtime it had: a fork's shares its descriptors with the parent's.
            "connect" => self.hands = Some(Hands::in_no_runtime(&self.url).await),
            _ => unknown(verb),
        }
        said(Ok(()))
    }

    async fn use_lock(&mut self, verb: &str, name: &str) -> String {
        match verb {
            "certain" => return self.grips[name].held().is_certain().to_string(),
            "remaining" => return self.grips[name].held().remaining().as_millis().to_string(),
            "release" => return said(self.grip(name).release().await),
            "drop" => drop(self.grip(name)),
            "leak" => std::mem::forget(self.grip(name)),
            "overwrite" => Store::open(Path::new(name)).write_unchecked("the subject"),
            _ => unknown(verb),
        }
        said(Ok(()))
    }

    async fn use_lock_with(&mut self, verb: &str, name: &str, more: &str) -> String {
        match verb {
            "hold" => self.hold(name, millis(more)).await,
            "lost" => self.lost(name, millis(more)).await,
            "write" => {
                let token = self.grips[name].held().token().expect("the engine has tokens");
                format!("{:?}", Store::open(Path::new(more)).write(token, "the subject"))
            }
            _ => unknown(verb),
        }
    }

    fn hands(&self) -> &Hands {
        self.hands.as_ref().expect("it is connected")
    }

    fn grip(&mut self, name: &str) -> Grip {
        self.grips.remove(name).expect("it was told to hold that")
    }

    async fn hold(&mut self, name: &str, ttl: Duration) -> String {
        match self.hands().take(name, ttl).await {
            Ok(Some(grip)) => {
                let token = grip.held().token().expect("the engine has tokens");
                self.grips.insert(name.to_owned(), grip);
                format!("held {token}")
            }
            Ok(None) => "busy".to_owned(),
            Err(error) => said(Err(error)),
        }
    }

    /// In time is before the lease can end.
    async fn lost(&self, name: &str, within: Duration) -> String {
        let grip = &self.grips[name];
        let loss = grip.lost(within).await;
        let in_time = Clock::boottime().now() < grip.held().lease_end();
        match loss {
            Some(loss) if in_time => format!("{} in time", loss.label()),
            Some(loss) => format!("{} late", loss.label()),
            None => "no".to_owned(),
        }
    }

    /// The one place where two processes come out.
    fn fork(&mut self, socket: &str) -> String {
        let parent = std::process::id();
        nix::unistd::sync();
        if std::process::id() == parent {
            return "parent".to_owned();
        }
        // Nobody kills a fork whose test has failed, and one that hangs does not hear that its test has ended.
        nix::unistd::alarm::set(LIFE_OF_A_FORK);
        self.talk = Talk::of_a_fork(socket);
        "fork".to_owned()
    }

    /// The variable is made before the lock is taken, so it is dropped after what the runtime keeps for the thread.
    fn in_a_thread(&self, name: &str) -> String {
        thread_local!(static HELD: RefCell<Option<blocking::Guard>> = const { RefCell::new(None) });
        let (url, name) = (self.url.clone(), name.to_owned());
        let thread = std::thread::spawn(move || {
            HELD.with(|held| {
                let client = blocking::connect(&url).expect("the engine is there");
                *held.borrow_mut() = client.lock(&name).try_acquire().expect("the engine answers");
                held.borrow().is_some()
            })
        });
        thread.join().map_or("panicked".to_owned(), |held| held.to_string())
    }
}

fn unknown<T>(order: &str) -> T {
    panic!("{order:?} is no order; see the top of orders.rs")
}

fn millis(text: &str) -> Duration {
    Duration::from_millis(text.parse().expect("milliseconds"))
}

fn said(result: latchwork::Result<()>) -> String {
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
