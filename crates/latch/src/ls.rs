//! `latch ls [PREFIX]`: every lock in use, one line each.

use clap::Args;
use latchwork::engine::Filter;
use serde::Serialize;

use crate::connection::with_client;
use crate::failure::Failure;
use crate::layout;
use crate::lock_view::LockView;
use crate::output::{Output, Report};
use crate::target::Target;

/// List the locks that somebody holds or waits for
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
                  latch ls                                             every lock in use\n  \
                  latch ls orders/                                     those whose names start so\n  \
                  latch ls --json | jq -r '.locks[] | select((.waiters // []) != []) | .name'\n\n\
                  Sorted by name. Exit code 0, also if there are none.")]
pub(crate) struct LsOptions {
    /// Only names that start so
    #[arg(default_value = "", hide_default_value = true)]
    prefix: String,
}

/// The locks in use.
#[derive(Debug, Serialize)]
struct Locks {
    locks: Vec<LockView>,
}

/// Prints the list.
pub(crate) fn run(options: &LsOptions, target: &Target, output: Output) -> Result<u8, Failure> {
    let filter = Filter::Prefix(options.prefix.clone());
    let (mut states, promised) = with_client(target, output, async |client| {
        Ok((client.inspect(&filter).await?, client.guarantees()))
    })?;
    states.sort_by(|a, b| a.name.cmp(&b.name));
    let found = Locks { locks: states.iter().map(|state| LockView::new(state, &promised)).collect() };
    if found.locks.is_empty() {
        output.remark(&no_locks(&options.prefix));
    }
    output.print(&found)?;
    Ok(0)
}

impl Locks {
    /// In a third of the screen: one long name must not push the rest of every line off it. In more if two
    /// names would look the same.
    fn names(&self, width: Option<usize>) -> Vec<String> {
        let titles: Vec<_> = self.locks.iter().map(LockView::title).collect();
        let Some(width) = width else { return titles };
        let rooms = [width / 3, width / 2, width * 2 / 3];
        rooms.into_iter().find_map(|room| layout::shortened_apart(&titles, room)).unwrap_or(titles)
    }
}

impl Report for Locks {
    fn text(&self, width: Option<usize>) -> String {
        const HEAD: [&str; 5] = ["NAME", "HELD FOR", "LEASE LEFT", "WAITING", "HOLDER"];
        if self.locks.is_empty() {
            return String::new();
        }
        let head = HEAD.map(str::to_owned);
        let rows = self.locks.iter().zip(self.names(width)).map(|(lock, name)| row(lock, name));
        let rows: Vec<_> = std::iter::once(head).chain(rows).collect();
        layout::table(&rows, width)
    }
}

fn row(lock: &LockView, name: String) -> [String; 5] {
    let waiting = lock.waiters.as_ref().map_or_else(|| "-".to_owned(), |waiters| waiters.len().to_string());
    let (held_for, lease_left) = lock
        .holders
        .first()
        .map_or_else(|| ("-".to_owned(), "-".to_owned()), |holder| (holder.how_long(), holder.lease_left()));
    [name, held_for, lease_left, waiting, lock.who()]
}

fn no_locks(prefix: &str) -> String {
    match prefix {
        "" => "no lock is held, and nobody waits for one".to_owned(),
        prefix => format!("no lock whose name starts with {prefix:?} is held or waited for"),
    }
}
