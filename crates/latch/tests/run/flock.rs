//! `flock` and `sqlite:`, as docs/interop.md has it.

use std::process::Command;

use crate::support::{Place, end};

#[test]
fn flock_and_sqlite_do_not_see_each_other_on_one_file() {
    let place = Place::new();
    let flock = |options: &str| {
        let mut flock = Command::new("flock");
        flock.args(options.split_whitespace()).current_dir(place.path(""));
        flock
    };
    assert_eq!(end(&mut place.script("x", &[], "true")).code, Some(0), "there is a database");
    let holder = place.hold("x", &[], "sleep 60");
    assert_eq!(end(&mut flock("-n locks.db true")).code, Some(0), "flock gets it while latch holds");
    drop(holder);
    let latch = env!("CARGO_BIN_EXE_latch");
    let both = format!("locks.db {latch} run --wait 20s x -- echo both");
    let ended = end(flock(&both).env("LATCH_URL", place.url()).env_remove("LATCH_URL_FILE"));
    assert_eq!(
        (ended.code, ended.out.as_str()),
        (Some(0), "both\n"),
        "latch gets it while flock holds: {ended:?}"
    );
}
