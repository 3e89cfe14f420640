//! Warnings of an engine that every call would repeat.

use std::process::Command;

use testkit::servers::{RedisOptions, RedisServer};

use crate::support::{TestDir, end};

#[test]
fn a_warning_of_the_engine_is_printed_once_a_day_for_each_user() {
    let (dir, server) = (TestDir::new(), RedisServer::start(RedisOptions::default()));
    let url = format!("redis://{}/?scheme=getset", server.address());
    let other = format!("{url}&prefix=other");
    let warns = |latch: &mut Command, url: &str| {
        let ended = end(latch.env("LATCH_URL", url));
        assert_eq!(ended.code, Some(0), "{ended:?}");
        ended.err.contains("warning: ")
    };
    let status = || dir.latch(["status", "x"]);
    assert!(
        !warns(&mut dir.latch(["status", "x", "--quiet"]), &url),
        "not with --quiet, which counts for nothing"
    );
    assert!(warns(&mut status(), &url), "the first time");
    assert!(!warns(&mut status(), &url), "not again");
    assert!(!warns(&mut dir.latch(["run", "x", "--", "true"]), &url), "whatever the subcommand");
    assert!(warns(&mut status(), &other), "another engine");
    // A day later.
    let marks = dir.path("latchwork/warned");
    for mark in std::fs::read_dir(&marks).unwrap() {
        let mark = mark.unwrap().path();
        assert!(Command::new("touch").args(["-d", "25 hours ago"]).arg(mark).status().unwrap().success());
    }
    assert!(warns(&mut status(), &url), "a day later");
    assert!(!warns(&mut status(), &url), "and not again");
}

#[test]
fn without_a_folder_for_markers_the_warning_is_repeated_and_nothing_fails() {
    let (dir, server) = (TestDir::new(), RedisServer::start(RedisOptions::default()));
    let url = format!("redis://{}/?scheme=getset", server.address());
    std::fs::write(dir.path("file"), "").unwrap();
    std::fs::create_dir(dir.path("full")).unwrap();
    std::fs::write(dir.path("full/latchwork"), "").unwrap();
    for (state, home) in [("file", "nonexistent"), ("nonexistent", "file"), ("full", "nonexistent")] {
        for _ in 0..2 {
            let mut status = dir.latch(["status", "x"]);
            status.env("XDG_STATE_HOME", dir.path(state)).env("HOME", dir.path(home)).env("LATCH_URL", &url);
            let ended = end(status.env_remove("XDG_RUNTIME_DIR"));
            assert_eq!(ended.code, Some(0), "{ended:?}");
            assert_eq!(ended.err.matches("warning: ").count(), 1, "{ended:?}");
        }
    }
    assert!(!dir.path("nonexistent").exists());
}
