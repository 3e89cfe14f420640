//! Bad input and broken surroundings: `latch` works, or fails with the documented exit code and a clear
//! error.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use crate::support::{Ended, TestDir, as_nobody, assert_clean_error, end};

#[test]
fn awkward_names_work_and_bad_ones_are_refused() {
    let dir = TestDir::new();
    let longest = "x".repeat(512);
    for name in
        ["🔒", "../../etc/passwd", "it's \"quoted\"", "'; drop table lock; --", " ", "%00", "a/b", &longest]
    {
        let ended = end(&mut dir.script(name, &[], "printf %s \"$LATCH_NAME\""));
        assert_eq!((ended.code, ended.out.as_str()), (Some(0), name), "{ended:?}");
    }
    for (name, says) in [
        ("", "empty"),
        (&*"x".repeat(513), "at most 512"),
        ("two\nlines", "U+000A"),
        ("bell\u{7}", "U+0007"),
        ("c1\u{9b}31m", "U+009B"),
    ] {
        assert_clean_error(&end(&mut dir.script(name, &[], "echo ran")), 64, says);
    }
}

#[test]
fn names_that_differ_in_case_accent_or_space_are_different_locks() {
    let dir = TestDir::new();
    let _holder = dir.hold("name", &[], "sleep 60");
    for name in ["Name", "namé", "name ", "nam", "name/x"] {
        assert_eq!(end(&mut dir.script(name, &["--no-wait"], "true")).code, Some(0), "{name}");
    }
}

#[test]
fn a_ttl_out_of_range_is_refused_with_the_limit() {
    let dir = TestDir::new();
    for ttl in ["0", "99ms", "1year"] {
        assert_clean_error(&end(&mut dir.script("x", &["--ttl", ttl], "true")), 64, "100ms to 86400s");
    }
}

#[test]
fn a_note_cannot_steer_the_terminal() {
    let dir = TestDir::new();
    let note = "\u{1b}[2J\nlatch: all is well";
    let mut holder = dir.latch(["run", "x", "--note", note, "--", "sh", "-c", "touch up; sleep 60"]);
    let mut holder = holder.spawn().unwrap();
    crate::support::eventually("it holds", || dir.path("up").exists());
    let ended = end(&mut dir.script("x", &["--no-wait"], "true"));
    assert_clean_error(&ended, 75, "all is well");
    assert!(!ended.err.contains('\u{1b}'), "{ended:?}");
    holder.kill().unwrap();
    holder.wait().unwrap();
}

#[test]
fn without_a_home_the_error_names_the_variable_to_set() {
    let dir = TestDir::new();
    let mut latch = dir.script("x", &[], "true");
    let ended = end(latch.env_remove("LATCH_URL").env_remove("HOME"));
    assert_clean_error(&ended, 64, "LATCH_URL=");
}

#[test]
fn a_home_that_does_not_exist_is_not_created() {
    let dir = TestDir::new();
    for command in [&["run", "x", "--", "true"][..], &["status"], &["ls"]] {
        let mut latch = dir.latch(command.iter().copied());
        let ended = end(latch.env_remove("LATCH_URL").env("HOME", dir.path("nonexistent")));
        assert_clean_error(&ended, 64, "HOME is ");
        assert!(ended.err.contains("--url") && ended.err.contains("LATCH_URL"), "{ended:?}");
        assert!(!dir.path("nonexistent").exists());
    }
}

#[test]
fn the_default_database_is_private_to_the_user() {
    let dir = TestDir::new();
    let ended =
        end(dir.script("x", &[], "echo $LATCH_URL").env_remove("LATCH_URL").env("HOME", dir.path("")));
    assert_eq!((ended.code, ended.out.as_str()), (Some(0), "sqlite:\n"), "{ended:?}");
    let folder = fs::metadata(dir.path(".local/state/latchwork")).unwrap();
    assert_eq!(folder.permissions().mode() & 0o777, 0o700);
}

#[test]
fn a_missing_folder_is_named() {
    let dir = TestDir::new();
    let ended = end(&mut dir.script("x", &["--url", "sqlite:/no/such/folder/locks.db"], "true"));
    assert_clean_error(&ended, 64, "/no/such/folder");
    assert!(ended.err.contains("with --url ") && !ended.err.contains("LATCH_URL"), "{ended:?}");
}

#[test]
fn a_corrupt_database_is_named_and_left_alone() {
    let dir = TestDir::new();
    let garbage = "this is no database, and whoever wrote it may want it back ".repeat(40);
    fs::write(dir.path("locks.db"), &garbage).unwrap();
    let ended = end(&mut dir.script("x", &[], "true"));
    assert_clean_error(&ended, 69, "locks.db");
    assert!(ended.err.contains("LATCH_URL"), "{ended:?}");
    assert_eq!(dir.read("locks.db"), garbage);
}

#[test]
fn a_database_this_user_may_not_use_is_named() {
    let dir = TestDir::new();
    let unreadable = end(&mut as_nobody(&dir, &prepared(&dir, 0o000)));
    assert_clean_error(&unreadable, 69, "locks.db");
    assert!(unreadable.err.contains("LATCH_URL"), "{unreadable:?}");
    let read_only = end(&mut as_nobody(&dir, &prepared(&dir, 0o444)));
    assert_clean_error(&read_only, 69, "locks.db");
    assert!(read_only.err.contains("LATCH_URL"), "{read_only:?}");
}

/// Creates the database, then sets this mode for all of its files.
fn prepared(dir: &TestDir, mode: u32) -> Command {
    let latch = dir.script("x", &[], "true");
    let files = ["locks.db", "locks.db-wal", "locks.db-shm"].map(|name| dir.path(name));
    let rights = |mode| {
        files.iter().filter(|file| file.exists()).for_each(|file| {
            fs::set_permissions(file, fs::Permissions::from_mode(mode)).unwrap();
        })
    };
    rights(0o600);
    assert_eq!(end(&mut dir.script("x", &[], "true")).code, Some(0));
    rights(mode);
    latch
}

#[test]
fn a_full_disk_is_an_error_and_not_a_hang() {
    let dir = TestDir::new();
    let disk = dir.path("disk");
    fs::create_dir(&disk).unwrap();
    let mount =
        Command::new("mount").args(["-t", "tmpfs", "-o", "size=64k", "none"]).arg(&disk).output().unwrap();
    if !mount.status.success() {
        println!(
            "skipped: this user may not mount a tmpfs: {}",
            String::from_utf8_lossy(&mount.stderr).trim()
        );
        return;
    }
    let ended = run_on_full(&dir);
    assert!(Command::new("umount").arg("-l").arg(&disk).status().unwrap().success());
    assert_clean_error(&ended, 69, "disk");
    assert_eq!(ended.out, "");
}

fn run_on_full(dir: &TestDir) -> Ended {
    let _ = fs::write(dir.path("disk/filler"), vec![0; 1 << 20]);
    end(&mut dir.script(
        "x",
        &["--url", &format!("sqlite:{}", dir.path("disk/locks.db").display())],
        "echo ran",
    ))
}
