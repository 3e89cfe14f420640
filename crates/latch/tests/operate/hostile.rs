//! Names, notes and arguments that would steer the terminal, and passwords that must not be printed.

use std::fs;

use crate::helpers::{Background, document, every_look};
use crate::support::{Ended, TestDir, end, eventually};

/// Whether a terminal would act on the character or show something else. `latch` itself writes line ends.
fn steers(c: char) -> bool {
    (c.is_control() && c != '\n')
        || "\u{202e}\u{2066}\u{2069}\u{200b}\u{200f}\u{feff}\u{ad}\u{e0041}".contains(c)
}

#[track_caller]
fn assert_harmless(ended: &Ended) {
    assert!(!ended.out.contains(steers) && !ended.err.contains(steers), "{ended:?}");
    assert!(!ended.err.contains("panicked"), "{ended:?}");
}

#[test]
fn names_and_notes_cannot_steer_the_terminal() {
    let dir = TestDir::new();
    let name = "pay\u{202e}roll\u{200b}\u{feff} \u{2066}x\u{e0041}";
    let note = "\u{1b}[2J\u{1b}]0;owned\u{7}\nfree  \u{9b}31m\u{202e}dlrow\u{200f}";
    let holder =
        Background::start(dir.latch(["run", "--ttl", "1h", "--note", note, name, "--", "sleep", "60"]));
    eventually("it holds", || dir.inspect(name).is_some());
    let looks = every_look(&dir, name);
    looks.iter().for_each(assert_harmless);
    assert!(looks[1].out.contains("pay\\u{202e}roll\\u{200b}"), "{looks:?}");
    assert!(looks[1].out.contains("[2J") && looks[1].out.contains("\\u{202e}dlrow"), "{looks:?}");
    assert_eq!(looks[2].out.lines().count(), 2, "a note is no second line: {looks:?}");
    drop(holder);
}

#[test]
fn json_keeps_the_text_that_a_terminal_shows_escaped() {
    let dir = TestDir::new();
    let name = "pay\u{202e}roll \"x\" 🔒";
    let _holder =
        Background::start(dir.latch(["run", name, "--note", "note \u{202e}\u{1b}x", "--", "sleep", "60"]));
    eventually("it holds", || dir.inspect(name).is_some());
    let lock = document(&mut dir.latch(["status", name, "--json"]));
    assert_eq!(lock["name"], name);
    // Control characters never reach the engine: the library replaces them by spaces.
    assert!(lock["holders"][0]["note"].as_str().unwrap().contains(" note \u{202e} x (pid "), "{lock}");
}

#[test]
fn arguments_cannot_steer_the_terminal() {
    let dir = TestDir::new();
    let evil = "x\u{1b}[2J\nlatch: all is well\u{202e}\u{9b}";
    let option = &format!("--{evil}");
    for arguments in [
        &["status", evil][..],
        &["status", option],
        &["ls", evil],
        &["release", evil],
        &["completions", evil],
        &[evil],
    ] {
        for json in [&[][..], &["--json"]] {
            let ended = end(&mut dir.latch([json, arguments].concat()));
            assert_harmless(&ended);
            assert!(!ended.err.lines().any(|line| line.starts_with("latch: all is well")), "{ended:?}");
        }
    }
}

#[test]
fn a_password_is_shown_nowhere() {
    let dir = TestDir::new();
    let quiet = |ended: &Ended| assert!(!format!("{ended:?}").contains("canary"), "{ended:?}");
    for url in [
        "memory://user:canary@host/",
        "redis://u:canary@127.0.0.1:1/",
        "sqlite://u:canary@h/x",
        "memory:?password=canary",
    ] {
        fs::write(dir.path("url"), url).unwrap();
        for look in
            [&["status"][..], &["status", "x"], &["ls"], &["release", "x"], &["release", "x", "--force"]]
        {
            for json in [&[][..], &["--json"]] {
                quiet(&end(&mut dir.latch([json, &["--url-file", "url"], look].concat())));
                quiet(&end(&mut dir.latch([json, &["--url", url], look].concat())));
            }
        }
    }
}
