//! `latch ls [PREFIX]`: every lock in use, one line each.

use clap::Args;
use latchwork::engine::Filter;
use serde::Serialize;

use crate::connection::with_client;
use crate::failure::Failure;
use crate::lock_view::LockView;
use crate::output::{Output, Report};
use crate::target::Target;
use crate::text_layout;

/// List the locks that are held or waited for
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
                  latch ls                                             list every lock in use\n  \
                  latch ls orders/                                     only names that start with orders/\n  \
                  latch ls --json | jq -r '.locks[] | select((.waiters // []) != []) | .name'\n\n\
                  Sorted by name. The exit code is 0 even if no lock is in use.")]
pub(crate) struct LsOptions {
    /// Only names that start with this text
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
        output.text_notice(&no_locks(&options.prefix));
    }
    output.print(&found)?;
    Ok(0)
}

impl Locks {
    /// Truncated to a third of the terminal, because one long name must not push the other columns off it.
    /// Wider if two names would look the same.
    fn names(&self, width: Option<usize>) -> Vec<String> {
        let titles: Vec<_> = self.locks.iter().map(LockView::title).collect();
        let Some(width) = width else { return titles };
        let widths = [width / 3, width / 2, width * 2 / 3];
        widths.into_iter().find_map(|width| text_layout::truncate_distinct(&titles, width)).unwrap_or(titles)
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
        text_layout::table(&rows, width)
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
        "" => "no lock is held or waited for".to_owned(),
        prefix => format!("no lock whose name starts with {prefix:?} is held or waited for"),
    }
}
