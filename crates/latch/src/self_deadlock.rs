//! A nested `latch` never waits for a lock that an outer `latch` holds: that would be a deadlock.

use std::env;
use std::process::Command;
use std::time::Duration;

use nix::unistd::Pid;

use crate::cli::RunOptions;
use crate::failure::{Failure, USAGE};
use crate::fingerprint::fingerprint;
use crate::process_tree;
use crate::target::Target;

/// The locks of this run and of outer ones: `PID.START.MARK` of each, joined by colons. An entry counts only
/// while its process lives, so that a daemon that outlives its run can take the lock again.
pub(crate) const HELD_VARIABLE: &str = "LATCH_HELD";

/// Refuses to wait for a lock that an outer run holds: that run ends only after this one.
///
/// # Errors
/// A usage error, unless the call does not wait: then the lock is simply busy.
pub(crate) fn refuse(options: &RunOptions, target: &Target) -> Result<(), Failure> {
    if options.no_wait || options.wait == Some(Duration::ZERO) {
        return Ok(());
    }
    let (mark, held) = (mark(&options.name, target), env::var(HELD_VARIABLE).unwrap_or_default());
    if mark.is_none() || !held.split(':').any(|entry| is_held(entry) == mark.as_deref()) {
        return Ok(());
    }
    let message =
        format!("lock {:?}: an outer latch holds it, and each would wait for the other to end", options.name);
    Err(Failure::new(USAGE, message).hint(
        "use another name, or remove the inner latch; a job that runs after the outer latch has ended unsets LATCH_HELD",
    ))
}

/// Appends the lock that is held now to [`HELD_VARIABLE`] of the command.
pub(crate) fn record(command: &mut Command, name: &str, target: &Target) {
    let pid = Pid::this();
    let Some((mark, start)) = mark(name, target).zip(process_tree::start_of(pid)) else { return };
    let entry = format!("{pid}.{start}.{mark}");
    match env::var(HELD_VARIABLE) {
        Ok(outer) if !outer.is_empty() => command.env(HELD_VARIABLE, format!("{outer}:{entry}")),
        _ => command.env(HELD_VARIABLE, entry),
    };
}

/// The mark of an entry whose process lives.
fn is_held(entry: &str) -> Option<&str> {
    let mut parts = entry.split('.');
    let (pid, start, mark) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?, parts.next()?);
    (process_tree::start_of(Pid::from_raw(pid)) == Some(start)).then_some(mark)
}

/// Identifies the lock and its engine. `None` if no other process can see the lock.
fn mark(name: &str, target: &Target) -> Option<String> {
    (target.url.scheme() != "memory").then(|| fingerprint(&[&target.canonical(), name]))
}
