//! Warnings that would come with every call: each is given once a day.

use std::env;
use std::fs::{self, DirBuilder};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use latchwork::clock;
use latchwork::engine::EngineUrl;

use crate::fingerprint::fingerprint;
use crate::output::Output;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Warns, unless this user was warned of this, for this engine, less than a day ago. Where that cannot be
/// remembered, the warning comes every time. Two processes that start together may both give it.
pub(crate) fn warn_at_most_daily(output: Output, url: &EngineUrl, warning: &str) {
    if output.is_quiet {
        return;
    }
    let mark = folder().map(|folder| folder.join(fingerprint(&[&url.to_string(), warning])));
    if mark.as_deref().is_some_and(is_recent) {
        return;
    }
    output.warn(warning);
    if let Some(mark) = mark {
        // To forget it is no failure of what the user asked for.
        let _ = remember(&mark);
    }
}

/// A mark from the future is of no use: the clock was set back since.
fn is_recent(mark: &Path) -> bool {
    let now = SystemTime::UNIX_EPOCH + Duration::from_micros(clock::wall_micros());
    let made = fs::symlink_metadata(mark).and_then(|found| found.modified());
    made.is_ok_and(|made| now.duration_since(made).is_ok_and(|age| age < DAY))
}

fn remember(mark: &Path) -> std::io::Result<()> {
    if let Some(folder) = mark.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    // Written anew each time, so that its time of change is now.
    fs::write(mark, "warned\n")
}

/// Below a folder that exists and belongs to this user. With sudo these variables may name another user's
/// folders, and what root made there would lock that user out.
fn folder() -> Option<PathBuf> {
    let me = nix::unistd::geteuid().as_raw();
    let is_mine = |base: &PathBuf| fs::metadata(base).is_ok_and(|found| found.is_dir() && found.uid() == me);
    let base =
        |variable| env::var_os(variable).map(PathBuf::from).filter(|base| base.is_absolute()).filter(is_mine);
    let base = base("XDG_STATE_HOME")
        .or_else(|| base("XDG_RUNTIME_DIR"))
        .or_else(|| base("HOME").map(|home| home.join(".local/state")))?;
    Some(base.join("latchwork/warned"))
}
