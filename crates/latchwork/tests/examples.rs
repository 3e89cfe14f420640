//! Every example runs, on sqlite where it takes an engine. `./test` runs `cargo build --workspace --examples`
//! first.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The folder of the built examples, beside that of the tests.
fn folder() -> PathBuf {
    let test = std::env::current_exe().expect("a test has a path");
    test.parent().and_then(Path::parent).expect("in target").join("examples")
}

#[track_caller]
fn run(example: &str, arguments: &[&str]) -> String {
    let done = Command::new(folder().join(example))
        .args(arguments)
        .output()
        .expect("cargo build --workspace --examples makes it");
    let (out, err) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success(), "{example}: {out}{err}");
    out.into_owned()
}

fn place() -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let url = format!("sqlite:{}", folder.path().join("locks.db").display());
    (folder, url)
}

#[test]
fn many_readers_are_told_of_a_change() {
    let (_folder, url) = place();
    for arguments in [&[][..], &[url.as_str()]] {
        assert!(run("config_watch", arguments).contains("10 readers were told"));
    }
}

#[test]
fn one_process_waits_until_another_has_set_the_result() {
    let (_folder, url) = place();
    let said = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| run("task_result", &[&url]));
        run("task_result", &[&url, "42"]);
        waiting.join().expect("no panic")
    });
    assert_eq!(said, "the result is 42\n");
    assert_eq!(run("task_result", &[]), "the result is 42\n");
}

#[test]
fn the_standby_takes_over() {
    let (_folder, url) = place();
    for arguments in [&[][..], &[url.as_str()]] {
        let said = run("main_and_standby", arguments);
        for line in ["main serves in term", "standby serves in term", "terms only rise: true"] {
            assert!(said.contains(line), "{said}");
        }
    }
}

#[test]
fn with_a_version_it_sells_exactly_what_there_is_and_without_it_more() {
    let said = run("red_packet", &[]);
    assert!(said.contains("with the version:    200 buyers, 50 packets, 50 sold, 0 left"), "{said}");
}

#[test]
fn a_hundred_items_are_sold_in_two_segments() {
    let (_folder, url) = place();
    run("segments", &[&url]);
}

#[test]
fn no_example_is_forgotten() {
    let examples =
        std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/examples")).expect("there are some");
    for example in examples {
        let name =
            example.expect("readable").path().file_stem().expect("a name").to_string_lossy().into_owned();
        // A test of the documents compares that one with README.md.
        let is_run = include_str!("examples.rs").contains(&format!("{name:?}"));
        assert!(is_run || name == "readme", "no test runs {name}");
    }
}
