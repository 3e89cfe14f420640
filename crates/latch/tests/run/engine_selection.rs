//! The selection of the engine, and that its password is never printed.

use std::fs;

use crate::support::{Ended, TestDir, assert_clean_error, end};

const WHERE: &str = "echo $LATCH_URL";

#[test]
fn flags_precede_the_environment_and_in_it_a_file_precedes_a_url() {
    let dir = TestDir::new();
    let url = |name: &str| format!("sqlite:{}", dir.path(name).display());
    for name in ["flag-file", "env-file"] {
        fs::write(dir.path(name), format!("{}\n", url(&format!("{name}.db")))).unwrap();
    }
    let said = |options: &[&str], files: bool| {
        let mut latch = dir.script("x", options, WHERE);
        latch.env("LATCH_URL", url("env.db"));
        if files {
            latch.env("LATCH_URL_FILE", dir.path("env-file"));
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
    let dir = TestDir::new();
    let url = format!("sqlite:{}", dir.path("before.db").display());
    assert_eq!(end(&mut dir.latch(["--url", &url, "run", "x", "--", "sh", "-c", WHERE])).out.trim(), url);
}

#[test]
fn a_nested_latch_finds_the_same_file() {
    let dir = TestDir::new();
    fs::write(dir.path("url"), format!("sqlite:{}\n", dir.path("from-file.db").display())).unwrap();
    let script = format!("cd /; {} run y -- sh -c 'echo $LATCH_URL_FILE'", env!("CARGO_BIN_EXE_latch"));
    let ended = end(&mut dir.script("x", &["--url-file", "url"], &script));
    assert!(ended.out.trim().ends_with("/url") && ended.out.starts_with('/'), "{ended:?}");
}

#[test]
fn a_password_is_shown_nowhere() {
    let dir = TestDir::new();
    let show = |ended: &Ended| assert!(!format!("{ended:?}").contains("canary"), "{ended:?}");
    for content in
        ["redis://u:canary@127.0.0.1:1/", "canary", "sqlite://u:canary@h/x", "memory:?canary=canary&canary=1"]
    {
        fs::write(dir.path("url"), content).unwrap();
        let ended = end(&mut dir.script("x", &["--no-wait", "--url-file", "url"], "true"));
        assert!(matches!(ended.code, Some(64 | 69)), "{ended:?}");
        show(&ended);
        show(&end(dir.script("x", &["--no-wait"], "true").env("LATCH_URL", content)));
    }
    let ended = end(&mut dir.script("x", &["--url", "memory://u:canary@h/"], "env"));
    assert!(ended.err.contains("--url-file"), "{ended:?}");
    show(&ended);
}

#[test]
fn a_bad_url_or_file_is_a_clear_error() {
    let dir = TestDir::new();
    fs::write(dir.path("empty"), "\n").unwrap();
    fs::write(dir.path("binary"), b"\xff\xfe").unwrap();
    for (options, says) in [
        (&["--url", "sqlit:/x"][..], "did you mean \"sqlite:\"?"),
        (&["--url", "nonsense"], "not an engine URL"),
        (&["--url", "sqlite:/x?mode=ro"], "\"mode\""),
        (&["--url-file", "missing"], "missing"),
        (&["--url-file", "empty"], "is empty"),
        (&["--url-file", "binary"], "UTF-8"),
        (&["--url-file", "."], "cannot read"),
    ] {
        assert_clean_error(&end(&mut dir.script("x", options, "true")), 64, says);
    }
}

#[test]
fn an_error_names_the_setting_that_chose_the_engine() {
    let dir = TestDir::new();
    for (name, content) in
        [("nonsense", "nonsense"), ("typo", "redis://h/?prefx=1"), ("missing", "sqlite:/no/such/x.db")]
    {
        fs::write(dir.path(name), content).unwrap();
        let file = format!("{:?} (", dir.path(name));
        let ended = end(&mut dir.script("x", &["--url-file", name], "true"));
        assert_clean_error(&ended, 64, &format!("hint: the URL is in the file {file}"));
        assert!(ended.err.contains("--url-file") && !ended.err.contains("LATCH_URL"), "{ended:?}");
        let ended = end(dir.script("x", &[], "true").env("LATCH_URL_FILE", dir.path(name)));
        assert_clean_error(&ended, 64, &format!("{file}LATCH_URL_FILE)"));
        let ended = end(&mut dir.script("x", &["--url", content], "true"));
        assert_clean_error(&ended, 64, "hint: ");
        assert!(ended.err.contains("--url") && !ended.err.contains("LATCH_URL"), "{ended:?}");
        let ended = end(dir.script("x", &[], "true").env("LATCH_URL", content));
        assert_clean_error(&ended, 64, "LATCH_URL");
        assert!(!ended.err.contains("--url"), "{ended:?}");
    }
}

#[test]
fn an_error_about_a_name_or_a_ttl_does_not_mention_the_engine() {
    let dir = TestDir::new();
    for (name, options) in [("", &[][..]), ("x", &["--ttl", "1ms"])] {
        let ended = end(&mut dir.script(name, options, "true"));
        assert_clean_error(&ended, 64, "");
        assert!(!ended.err.contains("LATCH_URL"), "{ended:?}");
    }
}

#[test]
fn a_password_in_an_argument_causes_a_warning_and_a_url_without_one_does_not() {
    let dir = TestDir::new();
    for (url, is_told) in [
        ("redis://u:canary@127.0.0.1:1/", true),
        ("redis://127.0.0.1:1/?password=canary", true),
        ("redlock://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3/?password.2=canary", true),
        ("redis://u@127.0.0.1:1/?prefix=x", false),
    ] {
        let ended = end(&mut dir.script("x", &["--no-wait", "--url", url], "true"));
        let told = ended.err.contains("warning: a password in --url shows in ps");
        assert_eq!((ended.code.is_some_and(|code| code != 0), told), (true, is_told), "{url}: {ended:?}");
        assert!(!ended.err.contains("canary"), "{ended:?}");
    }
}

#[test]
fn a_password_in_a_file_that_every_user_can_read_causes_a_warning() {
    use std::os::unix::fs::PermissionsExt;
    let dir = TestDir::new();
    for (content, mode, is_told) in [
        ("redis://u:canary@127.0.0.1:1/", 0o644, true),
        ("redis://u:canary@127.0.0.1:1/", 0o640, false),
        ("redis://u@127.0.0.1:1/", 0o644, false),
    ] {
        fs::write(dir.path("url"), content).unwrap();
        fs::set_permissions(dir.path("url"), fs::Permissions::from_mode(mode)).unwrap();
        let ended = end(&mut dir.script("x", &["--no-wait", "--url-file", "url"], "true"));
        let told = ended.err.contains("warning: every user can read the password in ")
            && ended.err.contains("url\"; chmod o-r it");
        assert_eq!(told, is_told, "{mode:o} {content}: {ended:?}");
        assert!(!ended.err.contains("canary"), "{ended:?}");
    }
}
