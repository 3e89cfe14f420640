//! Warnings that every call would repeat. Each is printed once a day.

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

/// Warns, unless this user has had this warning for this engine less than a day ago. If the marker file
/// cannot be written, the warning is repeated every time. Two processes that start together may both print
/// it.
pub(crate) fn warn_once_a_day(output: Output, url: &EngineUrl, warning: &str) {
    if output.is_quiet {
        return;
    }
    let marker = folder().map(|folder| folder.join(fingerprint(&[&url.to_string(), warning])));
    if marker.as_deref().is_some_and(is_recent) {
        return;
    }
    output.warn(warning);
    if let Some(marker) = marker {
        // The subcommand itself succeeds without the marker.
        let _ = touch(&marker);
    }
}

/// A modification time in the future does not count: the clock was set back since.
fn is_recent(marker: &Path) -> bool {
    let now = SystemTime::UNIX_EPOCH + Duration::from_micros(clock::wall_micros());
    let modified = fs::symlink_metadata(marker).and_then(|metadata| metadata.modified());
    modified.is_ok_and(|modified| now.duration_since(modified).is_ok_and(|age| age < DAY))
}

fn touch(marker: &Path) -> std::io::Result<()> {
    if let Some(folder) = marker.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    // Writing the file sets its modification time.
    fs::write(marker, "warned\n")
}

/// The folder of the markers, below a folder that exists and belongs to this user. Under sudo these variables
/// may name another user's folders, and that user could not write to a folder that root created there.
fn folder() -> Option<PathBuf> {
    let own_uid = nix::unistd::geteuid().as_raw();
    let is_own = |base: &PathBuf| {
        fs::metadata(base).is_ok_and(|metadata| metadata.is_dir() && metadata.uid() == own_uid)
    };
    let base =
        |variable| env::var_os(variable).map(PathBuf::from).filter(|base| base.is_absolute()).filter(is_own);
    let base = base("XDG_STATE_HOME")
        .or_else(|| base("XDG_RUNTIME_DIR"))
        .or_else(|| base("HOME").map(|home| home.join(".local/state")))?;
    Some(base.join("latchwork/warned"))
}
