//! `latch status [NAME]`: the engine, or one lock with its holders and its queue.

use clap::Args;
use latchwork::engine::{Filter, LockState};
use latchwork::{Client, ErrorKind, Guarantees, LockName};
use serde::Serialize;

use crate::connection::with_client;
use crate::environment::shown_url;
use crate::failure::Failure;
use crate::guarantees_view::GuaranteesView;
use crate::lock_view::{LockView, inspect};
use crate::output::{Output, Report};
use crate::sanitize::sanitize;
use crate::target::Target;
use crate::text_layout;

/// Show the holder and the queue of a lock, or the engine in use
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
                  latch status                                 show the engine, its URL and the number of locks\n  \
                  latch status nightly                         show holder, token, lease and queue\n  \
                  latch status nightly --json | jq -e .held    test in a script whether the lock is held\n\n\
                  The exit code is 0 whether the lock is held or free. An unused name is a free lock.")]
pub(crate) struct StatusOptions {
    /// The lock; without a name, the engine is shown
    name: Option<String>,
}

/// The engine, where it is, and the number of its locks.
#[derive(Debug, Serialize)]
struct EngineStatus {
    engine: &'static str,
    url: String,
    url_from: &'static str,
    /// The file of `sqlite:`, which a URL without a path does not contain.
    database: Option<String>,
    /// `None` if the engine cannot list locks.
    locks_held: Option<usize>,
    /// `None` also if the engine cannot list waiters.
    waiters: Option<usize>,
    guarantees: GuaranteesView,
    #[serde(skip)]
    promised: Guarantees,
}

/// Prints the lock or the engine.
pub(crate) fn run(options: &StatusOptions, target: &Target, output: Output) -> Result<u8, Failure> {
    match &options.name {
        // Before the engine is opened: an invalid name must not create a database.
        Some(name) => of_lock(&LockName::new(name)?, target, output)?,
        None => of_engine(target, output)?,
    }
    Ok(0)
}

fn of_lock(name: &LockName, target: &Target, output: Output) -> Result<(), Failure> {
    let view = async |client: &Client| Ok(LockView::new(&inspect(client, name).await?, &client.guarantees()));
    output.print(&with_client(target, output, view)?)
}

fn of_engine(target: &Target, output: Output) -> Result<(), Failure> {
    let status = with_client(target, output, async |client| {
        let locks = match client.inspect(&Filter::Prefix(String::new())).await {
            Ok(locks) => Some(locks),
            Err(error) if error.kind() == ErrorKind::Unsupported => None,
            Err(error) => return Err(error.into()),
        };
        Ok(EngineStatus::new(target, client.guarantees(), locks.as_deref()))
    })?;
    output.print(&status)
}

impl EngineStatus {
    fn new(target: &Target, promised: Guarantees, locks: Option<&[LockState]>) -> Self {
        Self {
            engine: promised.engine,
            url: shown_url(target),
            url_from: target.origin,
            database: target.database().map(|path| path.to_string_lossy().into_owned()),
            locks_held: locks.map(|locks| locks.iter().filter(|lock| !lock.holders.is_empty()).count()),
            waiters: locks
                .filter(|_| promised.lists_waiters)
                .map(|locks| locks.iter().map(|lock| lock.waiters.len()).sum()),
            guarantees: GuaranteesView::new(&promised),
            promised,
        }
    }
}

impl Report for EngineStatus {
    fn text(&self, width: Option<usize>) -> String {
        let order = if self.promised.fair { "in arrival order" } else { "in no order" };
        let wake = if self.promised.pushes { "woken by the release" } else { "polling" };
        let tokens = self.promised.tokens.unwrap_or("none: a store cannot refuse a former holder");
        let locks = match (self.locks_held, self.waiters) {
            (Some(held), Some(waiting)) => format!("{held} held, {waiting} waiting"),
            (Some(held), None) => format!("{held} held; this engine cannot list waiters"),
            _ => "this engine cannot list locks; use latch status NAME".to_owned(),
        };
        let mut rows = vec![
            ("engine", self.engine.to_owned()),
            ("url", format!("{} (from {})", sanitize(&self.url), self.url_from)),
        ];
        rows.extend(self.database.as_ref().map(|path| ("database", sanitize(path))));
        rows.extend([
            ("locks", locks),
            ("tokens", tokens.to_owned()),
            ("waiters", format!("{order}, {wake}")),
            ("killed holder", self.promised.dead_holder.to_owned()),
            ("beware", self.promised.beware.to_owned()),
            ("more", "latch ls, latch engines".to_owned()),
        ]);
        text_layout::two_columns(&rows, width)
    }
}

impl Report for LockView {
    fn text(&self, width: Option<usize>) -> String {
        let mut rows = vec![("lock", self.title()), ("state", self.state())];
        rows.extend(self.holders.iter().flat_map(|holder| holder.rows()));
        if self.waiters.is_none() {
            rows.push(("waiting", "unknown: this engine cannot list waiters".to_owned()));
        }
        for (place, waiter) in self.waiters.iter().flatten().enumerate() {
            let label = if place == 0 { "waiting" } else { "" };
            rows.push((label, format!("{}. {} (for {})", place + 1, waiter.who(), waiter.how_long())));
        }
        text_layout::two_columns(&rows, width)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json;

    #[test]
    fn the_status_does_not_contain_the_password_of_the_url() {
        let text = "redis://user:canary@host/0?password=canary&prefix=x";
        let target =
            Target { url: text.parse().unwrap(), text: text.into(), file: None, origin: "--url-file" };
        let promised = latchwork::engine::Registry::builtin().guarantees().remove(0);
        let status = EngineStatus::new(&target, promised, Some(&[]));
        for shown in [status.text(None), json::line(&status)] {
            assert!(shown.contains("redis://user@host/0?prefix=x") && !shown.contains("canary"), "{shown}");
        }
    }
}
