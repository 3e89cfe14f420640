//! The installation of the servers: on the machine, or in a folder of their own, as `./test versions` unpacks
//! them.

use std::env;
use std::path::{Path, PathBuf};

/// Names the folder. `crates/xtask/src/versions/` is the other side; it also puts the programs first in
/// `PATH`.
const VARIABLE: &str = "TESTKIT_SERVERS_ROOT";

/// The folder, if it contains this path. Anything else comes from the machine.
pub(super) fn root_with(place: &str) -> Option<PathBuf> {
    env::var_os(VARIABLE).map(PathBuf::from).filter(|root| root.join(place).exists())
}

/// A path that a Debian package installs: `usr/share/java/zookeeper.jar`.
pub(super) fn installed(place: &str) -> PathBuf {
    root_with(place).as_deref().unwrap_or(Path::new("/")).join(place)
}
