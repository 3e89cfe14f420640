//! `latch status`.

use latchwork::engine::Filter;

use crate::helpers::{Background, document};
use crate::support::{TestDir, assert_clean_error, end, eventually};

#[test]
fn a_held_lock_shows_its_holder_token_and_lease_and_the_queue_in_order() {
    let dir = TestDir::new();
    let holder = dir.hold("x", &["--ttl", "1h"], "echo $LATCH_TOKEN > token; sleep 60");
    let waiters =
        [Background::waiting(&dir, "x"), Background::waiting(&dir, "x"), Background::waiting(&dir, "x")];
    eventually("the token is written", || dir.read("token").ends_with('\n'));
    let token = dir.read("token").trim().to_owned();

    let ended = end(&mut dir.latch(["status", "x"]));
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""));
    let lines: Vec<Vec<_>> = ended.out.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[..2], [["lock", "x"], ["state", "held"]]);
    assert!(lines[2].join(" ").ends_with(&format!(" sh (pid {})", holder.id())), "{ended:?}");
    assert_eq!(lines[3], ["token", &token]);
    assert_eq!(lines[4][0], "since");
    assert_eq!(lines[5][..3], ["lease", "left", "59m"]);
    let queue = ended.out.lines().skip_while(|line| !line.starts_with("waiting"));
    for ((position, waiter), line) in (1..).zip(&waiters).zip(queue) {
        let shown = [format!(" {position}. "), format!(" sh (pid {}) ", waiter.id())];
        assert!(shown.iter().all(|part| line.contains(part)), "{line}");
    }

    let lock = document(&mut dir.latch(["status", "x", "--json"]));
    assert_eq!((&lock["name"], &lock["held"]), (&"x".into(), &true.into()));
    let held = &lock["holders"][0];
    assert_eq!(held["token"], token.as_str());
    assert_eq!(held["engine_token"], (token.parse::<u64>().unwrap() >> 8).to_string());
    assert!((1..=3_600_000).contains(&held["lease_left_ms"].as_u64().unwrap()), "{lock}");
    assert!(held["for_ms"].is_u64() && held["since"].as_str().unwrap().ends_with('Z'), "{lock}");
    for (index, waiter) in waiters.iter().enumerate() {
        let note = lock["waiters"][index]["note"].as_str().unwrap();
        assert!(note.ends_with(&format!(" sh (pid {})", waiter.id())), "{lock}");
    }
}

#[test]
fn the_claim_in_json_is_the_one_the_engine_knows() {
    let dir = TestDir::new();
    let _holder = dir.hold("x", &[], "sleep 60");
    let lock = document(&mut dir.latch(["status", "x", "--json"]));
    let known = dir.inspect("x").unwrap().holders[0].id.to_string();
    assert_eq!(lock["holders"][0]["claim"], known);
}

#[test]
fn an_unused_name_is_free() {
    let dir = TestDir::new();
    let ended = end(&mut dir.latch(["status", "nobody's"]));
    let shown = "lock   nobody's\nstate  free\n";
    assert_eq!((ended.code, ended.out.as_str(), ended.err.as_str()), (Some(0), shown, ""));
    let lock = document(&mut dir.latch(["status", "nobody's", "--json"]));
    assert_eq!(lock, serde_json::json!({"name": "nobody's", "held": false, "holders": [], "waiters": []}));
}

#[test]
fn one_name_is_not_mistaken_for_another_that_starts_the_same() {
    let dir = TestDir::new();
    let _holder = dir.hold("xy", &[], "sleep 60");
    assert_eq!(document(&mut dir.latch(["status", "x", "--json"]))["held"], false);
}

#[test]
fn an_invalid_name_is_refused_before_a_database_is_created() {
    let dir = TestDir::new();
    for (name, says) in [("", "empty"), (&*"x".repeat(513), "at most 512"), ("two\nlines", "U+000A")] {
        assert_clean_error(&end(&mut dir.latch(["status", name])), 64, says);
        assert_clean_error(&end(&mut dir.latch(["release", "--force", name])), 64, says);
    }
    assert!(!dir.path("locks.db").exists());
}

#[test]
fn a_claim_without_a_lease_says_what_ends_it() {
    let dir = TestDir::new();
    let holder = dir.hold("x", &["--keep-fd"], "sleep 60");
    assert!(end(&mut dir.latch(["status", "x"])).out.contains("held until its last process ends"));
    let lock = document(&mut dir.latch(["status", "x", "--json"]));
    assert!(lock["holders"][0]["lease_left_ms"].is_null(), "{lock}");
    drop(holder);
}

#[test]
fn without_a_name_status_shows_the_engine_its_url_and_its_load() {
    let dir = TestDir::new();
    let _holders = [dir.hold("a", &[], "sleep 60"), dir.hold("b", &[], "sleep 60")];
    let _waiter = Background::waiting(&dir, "b");
    let ended = end(&mut dir.latch(["status"]));
    for says in ["engine         sqlite", &dir.url(), "LATCH_URL", "2 held, 1 waiting", "one machine only"] {
        assert!(ended.out.contains(says), "no {says:?} in {ended:?}");
    }
    let engine = document(&mut dir.latch(["status", "--json"]));
    assert_eq!((&engine["engine"], &engine["url"]), (&"sqlite".into(), &dir.url().into()));
    assert_eq!((&engine["locks_held"], &engine["waiters"]), (&2.into(), &1.into()));
    assert_eq!(engine["guarantees"]["fair"], true);
}

#[test]
fn status_names_the_setting_that_selected_the_engine() {
    let dir = TestDir::new();
    std::fs::write(dir.path("url"), dir.url()).unwrap();
    let url = dir.url();
    for (flags, from) in
        [(&["--url", &url][..], "--url"), (&["--url-file", "url"], "--url-file"), (&[], "LATCH_URL")]
    {
        let status = document(&mut dir.latch([flags, &["status", "--json"]].concat()));
        assert_eq!(status["url_from"], from);
    }
    let mut latch = dir.latch(["status", "--json"]);
    let status = document(latch.env_remove("LATCH_URL").env("HOME", dir.path("")));
    assert_eq!((&status["url_from"], &status["url"]), (&"default".into(), &"sqlite:".into()));
    let path = dir.path(".local/state/latchwork/locks.db");
    assert_eq!(status["database"], path.to_str().unwrap());
    let ended = end(dir.latch(["status"]).env_remove("LATCH_URL").env("HOME", dir.path("")));
    assert!(ended.out.contains(&format!("database       {}\n", path.display())), "{ended:?}");
}

#[test]
fn an_inspection_leaves_nothing_behind() {
    let dir = TestDir::new();
    for look in [&["status"][..], &["status", "x"], &["ls"], &["release", "x"], &["release", "x", "--force"]]
    {
        end(&mut dir.latch(look.iter().copied()));
        let sessions = std::fs::read_dir(dir.path("locks.db-sessions")).unwrap();
        assert_eq!(sessions.count(), 0, "no session outlives its look: {look:?}");
    }
    let locks = dir.with_client(async |client| client.inspect(&Filter::Prefix(String::new())).await);
    assert!(locks.unwrap().is_empty());
}
