//! `latch status [NAME]`: the engine at a glance, or who holds a lock and who waits for it.

use clap::Args;
use latchwork::engine::{Filter, LockState};
use latchwork::{Client, ErrorKind, Guarantees, LockName};
use serde::Serialize;

use crate::connection::with_client;
use crate::environment::shown_url;
use crate::failure::Failure;
use crate::guarantees_view::GuaranteesView;
use crate::layout;
use crate::lock_view::{LockView, look};
use crate::output::{Output, Report};
use crate::sanitize::sanitize;
use crate::target::Target;

/// Show who holds a lock and who waits for it, or which engine is in use
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
                  latch status                                 which engine, where, how many locks\n  \
                  latch status nightly                         holder, token, lease, queue\n  \
                  latch status nightly --json | jq -e .held    a test for scripts\n\n\
                  Exit code 0 whether the lock is held or free. A name that nobody uses is free.")]
pub(crate) struct StatusOptions {
    /// The lock; without it, the engine
    name: Option<String>,
}

/// The engine at a glance.
#[derive(Debug, Serialize)]
struct EngineStatus {
    engine: &'static str,
    url: String,
    url_from: &'static str,
    /// The file of `sqlite:`, which the URL may leave open.
    database: Option<String>,
    /// `None` where locks can only be asked for by name.
    locks_held: Option<usize>,
    /// `None` also where the engine cannot tell who waits.
    waiters: Option<usize>,
    guarantees: GuaranteesView,
    #[serde(skip)]
    promised: Guarantees,
}

/// Prints it.
pub(crate) fn run(options: &StatusOptions, target: &Target, output: Output) -> Result<u8, Failure> {
    match &options.name {
        // Checked before anything is opened: a wrong name must not make a database.
        Some(name) => of_lock(&LockName::new(name)?, target, output)?,
        None => of_engine(target, output)?,
    }
    Ok(0)
}

fn of_lock(name: &LockName, target: &Target, output: Output) -> Result<(), Failure> {
    let view = async |client: &Client| Ok(LockView::new(&look(client, name).await?, &client.guarantees()));
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
        let tokens = self.promised.tokens.unwrap_or("none: nothing can refuse a former holder");
        let locks = match (self.locks_held, self.waiters) {
            (Some(held), Some(waiting)) => format!("{held} held, {waiting} waiting"),
            (Some(held), None) => format!("{held} held; how many wait is unknown here"),
            _ => "cannot be listed here; ask by name".to_owned(),
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
        layout::pairs(&rows, width)
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
        layout::pairs(&rows, width)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json;

    #[test]
    fn a_password_in_the_url_is_shown_to_nobody() {
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
