//! Which engine is used, and that its password is shown nowhere.

use std::fs;

use crate::support::{Ended, Place, assert_clean_error, end};

const WHERE: &str = "echo $LATCH_URL";

#[test]
fn flags_beat_the_environment_and_a_file_beats_a_url_there() {
    let place = Place::new();
    let url = |name: &str| format!("sqlite:{}", place.path(name).display());
    for name in ["flag-file", "env-file"] {
        fs::write(place.path(name), format!("{}\n", url(&format!("{name}.db")))).unwrap();
    }
    let said = |options: &[&str], files: bool| {
        let mut latch = place.script("x", options, WHERE);
        latch.env("LATCH_URL", url("env.db"));
        if files {
            latch.env("LATCH_URL_FILE", place.path("env-file"));
        }
        end(&mut latch).out.trim().to_owned()
    };
    assert_eq!(said(&["--url", &url("flag.db")], true), url("flag.db"));
    assert_eq!(said(&["--url-file", "flag-file"], true), url("flag-file.db"));
    assert_eq!(said(&[], true), url("env-file.db"));
    assert_eq!(said(&[], false), url("env.db"));
}

#[test]
fn url_flags_may_stand_before_the_subcommand() {
    let place = Place::new();
    let url = format!("sqlite:{}", place.path("before.db").display());
    assert_eq!(end(&mut place.latch(["--url", &url, "run", "x", "--", "sh", "-c", WHERE])).out.trim(), url);
}

#[test]
fn a_nested_latch_finds_the_same_file() {
    let place = Place::new();
    fs::write(place.path("url"), format!("sqlite:{}\n", place.path("from-file.db").display())).unwrap();
    let script = format!("cd /; {} run y -- sh -c 'echo $LATCH_URL_FILE'", env!("CARGO_BIN_EXE_latch"));
    let ended = end(&mut place.script("x", &["--url-file", "url"], &script));
    assert!(ended.out.trim().ends_with("/url") && ended.out.starts_with('/'), "{ended:?}");
}

#[test]
fn a_password_is_shown_nowhere() {
    let place = Place::new();
    let show = |ended: &Ended| assert!(!format!("{ended:?}").contains("canary"), "{ended:?}");
    for content in
        ["redis://u:canary@127.0.0.1:1/", "canary", "sqlite://u:canary@h/x", "memory:?canary=canary&canary=1"]
    {
        fs::write(place.path("url"), content).unwrap();
        let ended = end(&mut place.script("x", &["--no-wait", "--url-file", "url"], "true"));
        assert!(matches!(ended.code, Some(64 | 69)), "{ended:?}");
        show(&ended);
        show(&end(place.script("x", &["--no-wait"], "true").env("LATCH_URL", content)));
    }
    let ended = end(&mut place.script("x", &["--url", "memory://u:canary@h/"], "env"));
    assert!(ended.err.contains("--url-file"), "{ended:?}");
    show(&ended);
}

#[test]
fn a_bad_url_or_file_is_a_clear_error() {
    let place = Place::new();
    fs::write(place.path("empty"), "\n").unwrap();
    fs::write(place.path("binary"), b"\xff\xfe").unwrap();
    for (options, says) in [
        (&["--url", "sqlit:/x"][..], "did you mean \"sqlite:\"?"),
        (&["--url", "nonsense"], "not an engine URL"),
        (&["--url", "sqlite:/x?mode=ro"], "\"mode\""),
        (&["--url-file", "missing"], "missing"),
        (&["--url-file", "empty"], "is empty"),
        (&["--url-file", "binary"], "UTF-8"),
        (&["--url-file", "."], "cannot read"),
    ] {
        assert_clean_error(&end(&mut place.script("x", options, "true")), 64, says);
    }
}
