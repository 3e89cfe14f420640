//! A process that locks with redis-py.

use std::time::Duration;

use testkit::python::Script;

use super::harness::{HazardHarness, LOCK};

const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/redis_hazards/redis_py.py");
/// The newest release at the time of writing.
const PACKAGE: &str = "redis==8.1.0";

/// A running `redis_py.py`, whose only lock is [`LOCK`] with leases of this length.
///
/// Call it before one of our clients connects: the first time it installs a package, and blocks the thread
/// for that long.
pub(crate) fn start(harness: &HazardHarness, lease: Duration) -> Script {
    let args = [harness.server.port().to_string(), LOCK.to_owned(), lease.as_secs_f64().to_string()];
    Script::start(PACKAGE, PROGRAM, &args.each_ref().map(String::as_str))
}
