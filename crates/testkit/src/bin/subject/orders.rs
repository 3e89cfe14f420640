//! What a subject can be told. LOCK is a name; every answer is one line.
//!
//! - `hold LOCK MILLIS [MOST]`: takes it if it is free, with that ttl and max_hold; `held TOKEN`, `busy`, or an error.
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

use super::hands::{Grip, Hands, Wish};
use super::talk::Talk;

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
                ["hold", name, ttl] => self.hold(Wish { name, ttl: millis(ttl), max_hold: None }).await,
                ["hold", name, ttl, most] => {
                    self.hold(Wish { name, ttl: millis(ttl), max_hold: Some(millis(most)) }).await
                }
                ["lost", name, within] => self.lost(name, millis(within)).await,
                ["release", name] => said(self.grip(name).release().await),
                ["drop", name] => {
                    drop(self.grip(name));
                    said(Ok(()))
                }
                ["leak", name] => {
                    std::mem::forget(self.grip(name));
                    said(Ok(()))
                }
                ["close"] => said(self.hands().close().await),
                ["inspect"] => match self.hands().inspect().await {
                    Ok(locks) => locks.len().to_string(),
                    Err(error) => said(Err(error)),
                },
                ["disconnect"] => {
                    drop(self.hands.take());
                    said(Ok(()))
                }
                // Not in the runtime it had: a fork's shares its descriptors with the parent's.
                ["connect"] => {
                    self.hands = Some(Hands::in_no_runtime(&self.url).await);
                    said(Ok(()))
                }
                ["certain", name] => self.grips[name].held().is_certain().to_string(),
                ["remaining", name] => self.grips[name].held().remaining().as_millis().to_string(),
                ["write", name, store] => {
                    let token = self.grips[name].held().token().expect("the engine has tokens");
                    format!("{:?}", Store::open(Path::new(store)).write(token, "the subject"))
                }
                ["overwrite", store] => {
                    Store::open(Path::new(store)).write_unchecked("the subject");
                    said(Ok(()))
                }
                ["clocks"] => clocks(),
                ["reap"] => format!("{:?}", wait().expect("it has forked")),
                ["thread", name] => self.in_a_thread(name),
                _ => panic!("{order:?} is no order; see the top of orders.rs"),
            };
            self.talk.say(&answer);
        }
    }

    fn hands(&self) -> &Hands {
        self.hands.as_ref().expect("it is connected")
    }

    fn grip(&mut self, name: &str) -> Grip {
        self.grips.remove(name).expect("it was told to hold that")
    }

    async fn hold(&mut self, wish: Wish<'_>) -> String {
        match self.hands().take(&wish).await {
            Ok(Some(grip)) => {
                let token = grip.held().token().expect("the engine has tokens");
                self.grips.insert(wish.name.to_owned(), grip);
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
