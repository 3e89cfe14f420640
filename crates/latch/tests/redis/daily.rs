//! Warnings of an engine that is as it is.

use std::process::Command;

use testkit::servers::{RedisOptions, RedisServer};

use crate::support::{Place, end};

#[test]
fn a_warning_of_the_engine_comes_once_a_day_for_each_user() {
    let (place, server) = (Place::new(), RedisServer::start(RedisOptions::default()));
    let url = format!("redis://{}/?scheme=getset", server.address());
    let other = format!("{url}&prefix=other");
    let warns = |latch: &mut Command, url: &str| {
        let ended = end(latch.env("LATCH_URL", url));
        assert_eq!(ended.code, Some(0), "{ended:?}");
        ended.err.contains("warning: ")
    };
    let status = || place.latch(["status", "x"]);
    assert!(
        !warns(&mut place.latch(["status", "x", "--quiet"]), &url),
        "not with --quiet, which counts for nothing"
    );
    assert!(warns(&mut status(), &url), "the first time");
    assert!(!warns(&mut status(), &url), "not again");
    assert!(!warns(&mut place.latch(["run", "x", "--", "true"]), &url), "whatever the subcommand");
    assert!(warns(&mut status(), &other), "another engine");
    // A day later.
    let marks = place.path("latchwork/warned");
    for mark in std::fs::read_dir(&marks).unwrap() {
        let mark = mark.unwrap().path();
        assert!(Command::new("touch").args(["-d", "25 hours ago"]).arg(mark).status().unwrap().success());
    }
    assert!(warns(&mut status(), &url), "a day later");
    assert!(!warns(&mut status(), &url), "and not again");
}

#[test]
fn where_it_cannot_be_remembered_the_warning_comes_every_time_and_nothing_fails() {
    let (place, server) = (Place::new(), RedisServer::start(RedisOptions::default()));
    let url = format!("redis://{}/?scheme=getset", server.address());
    std::fs::write(place.path("file"), "").unwrap();
    std::fs::create_dir(place.path("full")).unwrap();
    std::fs::write(place.path("full/latchwork"), "").unwrap();
    for (state, home) in [("file", "nonexistent"), ("nonexistent", "file"), ("full", "nonexistent")] {
        for _ in 0..2 {
            let mut status = place.latch(["status", "x"]);
            status
                .env("XDG_STATE_HOME", place.path(state))
                .env("HOME", place.path(home))
                .env("LATCH_URL", &url);
            let ended = end(status.env_remove("XDG_RUNTIME_DIR"));
            assert_eq!(ended.code, Some(0), "{ended:?}");
            assert_eq!(ended.err.matches("warning: ").count(), 1, "{ended:?}");
        }
    }
    assert!(!place.path("nonexistent").exists());
}
