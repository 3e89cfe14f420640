//! `--system`, on a `/var/lib` of the test's own.

use std::process::Command;

use crate::support::{Ended, TestDir, as_nobody, end};

/// Two users of the group, and one outside it.
const SETUP: &str = "
    mount -t tmpfs none /var/lib || exit 99
    as() { user=$1; group=$2; shift 2; setpriv --reuid=$user --regid=$user --groups=$group $LATCH \"$@\"; }
    alice() { as 64001 64000 --system \"$@\"; }
    bob() { as 64002 64000 --system \"$@\"; }
    carol() { as 64003 64003 --system \"$@\"; }
    root() { $LATCH --system \"$@\"; }
    until_there() { for _ in $(seq 1000); do [ -e $1 ] && return; sleep 0.02; done; exit 98; }
";

/// Runs a script as root with an empty `/var/lib`. `None` if this user may not mount one.
fn run_as_root(script: &str) -> Option<Ended> {
    let dir = TestDir::new();
    // A copy of `latch` that every user can run.
    let latch = as_nobody(&dir, &dir.latch([]));
    let latch = latch.get_args().last().map_or(latch.get_program(), |copy| copy).to_owned();
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", &format!("{SETUP}{script}")]);
    command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("LATCH", latch);
    let ended = end(command.env("HOME", dir.path("")).current_dir("/"));
    if matches!(ended.code, Some(1 | 99)) && ended.out.is_empty() && !ended.err.contains("latch: ") {
        println!("skipped: this user may not mount a tmpfs: {}", ended.err.trim());
        return None;
    }
    Some(ended)
}

#[test]
fn a_missing_shared_folder_is_not_created_and_the_hint_shows_how_to() {
    for who in ["alice", "root"] {
        let Some(ended) = run_as_root(&format!("{who} run x -- true; echo code $?; ls /var/lib")) else {
            return;
        };
        assert_eq!(ended.out, "code 69\n", "{ended:?}");
        assert!(ended.err.contains("install -d -m 2770 -g GROUP /var/lib/latchwork\n"), "{ended:?}");
    }
}

#[test]
fn users_of_the_group_share_locks_in_the_folder_that_the_hint_creates() {
    for (first, second) in [("alice", "bob"), ("root", "alice"), ("alice", "root")] {
        let script = format!(
            "umask 077; install -d -m 2770 -g 64000 /var/lib/latchwork; cd /var/lib/latchwork
            {first} run x -- sh -c 'touch up; sleep 0.5; echo first' & until_there up
            {second} run -q x -- echo second; wait
            {second} run y -- sh -c 'touch again; sleep 0.5; echo third' & until_there again
            {first} run -q y -- echo fourth; wait"
        );
        let Some(ended) = run_as_root(&script) else { return };
        assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{first} {second}: {ended:?}");
        assert_eq!(ended.out, "first\nsecond\nthird\nfourth\n", "{first} {second}: {ended:?}");
    }
}

#[test]
fn the_error_for_a_user_outside_the_group_names_the_purpose_of_the_folder() {
    let script =
        "install -d -m 2770 -g 64000 /var/lib/latchwork; alice run x -- true; carol run x -- true; echo $?";
    let Some(ended) = run_as_root(script) else { return };
    assert_eq!(ended.out, "69\n", "{ended:?}");
    assert!(
        ended.err.contains("users of one group") && ended.err.contains("install -d -m 2770"),
        "{ended:?}"
    );
    assert!(!ended.err.contains("LATCH_URL"), "{ended:?}");
}

/// Former versions created the folder for root alone.
#[test]
fn the_command_in_the_hint_opens_a_folder_of_root_to_a_group() {
    let script = "umask 077; install -d -m 700 /var/lib/latchwork; root run x -- true; alice run x -- true
        hint=$(alice run x -- true 2>&1 | sed -n 's/^hint: .*: //p' | sed s/GROUP/64000/g); eval \"$hint\" || exit 97
        cd /; alice run x -- sh -c 'touch /var/lib/latchwork/up; sleep 0.5; echo first' & until_there /var/lib/latchwork/up
        bob run -q x -- echo second; wait; root run x -- echo third; carol run x -- true; echo $?";
    let Some(ended) = run_as_root(script) else { return };
    assert_eq!(ended.out, "first\nsecond\nthird\n69\n", "{ended:?}");
}

#[test]
fn status_shows_the_database() {
    let Some(ended) = run_as_root("install -d -m 2770 -g 64000 /var/lib/latchwork; alice status") else {
        return;
    };
    assert!(ended.out.contains("database       /var/lib/latchwork/locks.db\n"), "{ended:?}");
}
