//! `latch run` below another `latch run`: a lock that an outer run holds is never waited for.

use std::env;
use std::process::Command;
use std::time::Duration;

use nix::unistd::Pid;

use crate::cli::RunOptions;
use crate::failure::{Failure, USAGE};
use crate::fingerprint::fingerprint;
use crate::process_tree;
use crate::target::Target;

/// The locks of this run and of outer ones: `PID.START.MARK` of each, joined by colons. An entry counts only while
/// its process lives, so that a daemon that a run left behind may take the lock again.
pub(crate) const HELD_VARIABLE: &str = "LATCH_HELD";

/// Refuses to wait for a lock that an outer run holds: that run ends only after this one.
///
/// # Errors
/// A usage error. Not for a call that does not wait: to that the lock is simply busy.
pub(crate) fn refuse_to_wait_for_itself(options: &RunOptions, target: &Target) -> Result<(), Failure> {
    if options.no_wait || options.wait == Some(Duration::ZERO) {
        return Ok(());
    }
    let (mark, held) = (mark(&options.name, target), env::var(HELD_VARIABLE).unwrap_or_default());
    if mark.is_none() || !held.split(':').any(|entry| is_held(entry) == mark.as_deref()) {
        return Ok(());
    }
    let message = format!(
        "lock {:?}: the latch that this one runs under holds it, and each would wait for the other to end",
        options.name
    );
    Err(Failure::new(USAGE, message)
        .hint("use another name, or no second latch; a job that is to run afterwards unsets LATCH_HELD"))
}

/// Tells the command of the lock that is held now, after those of outer runs.
pub(crate) fn add(command: &mut Command, name: &str, target: &Target) {
    let me = Pid::this();
    let Some((mark, start)) = mark(name, target).zip(process_tree::start_of(me)) else { return };
    let entry = format!("{me}.{start}.{mark}");
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

/// Which lock of which engine. None where no other process sees the lock.
fn mark(name: &str, target: &Target) -> Option<String> {
    (target.url.scheme() != "memory").then(|| fingerprint(&[&target.canonical(), name]))
}
