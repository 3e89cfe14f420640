//! A `latch` inside the command of another, whose URL has a password.

use testkit::servers::{RedisOptions, RedisServer};

use crate::support::{TestDir, end};

const LATCH: &str = env!("CARGO_BIN_EXE_latch");

fn guarded() -> (RedisServer, String) {
    let acl = vec!["default off".to_owned(), "app on >canary ~* &* +@all".to_owned()];
    let server = RedisServer::start(RedisOptions { acl, ..Default::default() });
    let url = format!("redis://app:canary@{}", server.address());
    (server, url)
}

#[test]
fn the_error_of_an_inner_latch_without_the_password_names_the_cause() {
    let (dir, (_server, url)) = (TestDir::new(), guarded());
    for inner in
        [format!("{LATCH} run b -- true"), format!("{LATCH} status"), format!("{LATCH} --url $LATCH_URL ls")]
    {
        let ended = end(dir.script("a", &[], &inner).env("LATCH_URL", &url));
        assert!(matches!(ended.code, Some(64 | 69)), "{ended:?}");
        assert!(ended.err.contains("hint: the URL comes from the outer latch run"), "{inner}: {ended:?}");
        assert!(ended.err.contains("--url-file") && !ended.err.contains("canary"), "{ended:?}");
    }
    // The content of a pipe can be read only once, so the inner latch has no file.
    let piped = format!("{LATCH} --url-file <(echo '{url}') run a -- {LATCH} run b -- true");
    let mut bash = std::process::Command::new("bash");
    let ended = end(bash.args(["-c", &piped]).current_dir(dir.path("")));
    assert!(matches!(ended.code, Some(64 | 69)), "{ended:?}");
    assert!(ended.err.contains("in a regular file (--url-file)"), "{ended:?}");
    // An inner latch with a URL of its own is not affected by the outer one.
    let ended = end(dir
        .script("a", &[], &format!("LATCH_URL=redis://x@127.0.0.1:1/ {LATCH} status"))
        .env("LATCH_URL", &url));
    assert!(ended.err.contains("LATCH_URL") && !ended.err.contains("outer"), "{ended:?}");
}

#[test]
fn an_inner_latch_finds_the_file_of_the_outer_one() {
    let (dir, (_server, url)) = (TestDir::new(), guarded());
    std::fs::write(dir.path("url"), url).unwrap();
    assert!(std::process::Command::new("chmod").arg("600").arg(dir.path("url")).status().unwrap().success());
    let script = format!(
        "cd /; {LATCH} run b -- {LATCH} run c -- echo ran; {LATCH} run --no-wait a -- echo two; {LATCH} run a -- echo two"
    );
    let ended = end(&mut dir.script("a", &["--url-file", "url"], &script));
    assert_eq!((ended.code, ended.out.as_str()), (Some(64), "ran\n"), "{ended:?}");
    assert!(ended.err.contains("held by") && ended.err.contains("would wait for the other"), "{ended:?}");
}
