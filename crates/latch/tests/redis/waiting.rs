//! A wait reports outages and quarantines of the server.

use std::fs::File;

use testkit::servers::{RedisOptions, RedisServer};

use crate::support::{Running, TestDir, eventually};

fn waiter(dir: &TestDir, url: &str, options: &[&str]) -> Running {
    let mut latch = dir.script("x", options, "echo ran >> ran");
    latch.env("LATCH_URL", url);
    Running::from(latch.stderr(File::create(dir.path("err")).unwrap()).spawn().unwrap())
}

fn ran(dir: &TestDir, waiter: Running) -> String {
    let ended = waiter.finish();
    assert_eq!(ended.code, Some(0), "{ended:?} {}", dir.read("err"));
    assert_eq!(dir.read("ran"), "ran\n");
    dir.read("err")
}

#[test]
fn a_waiter_in_quarantine_reports_its_reason_and_its_end() {
    let (dir, server) = (TestDir::new(), RedisServer::start(RedisOptions::default()));
    let url = format!("redis://{}?quarantine=strict&max-ttl=6s", server.address());
    let said = ran(&dir, waiter(&dir, &url, &["--ttl", "2s"]));
    for part in
        ["latch: waiting for \"x\": no lock is granted until 20", "max-ttl", "quarantine=off", "got \"x\""]
    {
        assert!(said.contains(part), "{part:?} in {said}");
    }
    assert!(said.contains(&server.address().to_string()), "{said}");
    assert!(!said.contains("held"), "{said}");
}

#[test]
fn a_waiter_whose_server_is_killed_reports_it_and_continues_after_the_restart() {
    let (dir, server) = (TestDir::new(), RedisServer::start(RedisOptions::default()));
    let url = format!("redis://{}?quarantine=off", server.address());
    server.command(&["SET", "x", "somebody"]);
    let waiter = waiter(&dir, &url, &["--ttl", "2s"]);
    eventually("it waits", || dir.read("err").contains("held"));
    server.kill();
    eventually("it reports the outage", || dir.read("err").contains("failing"));
    server.restart_empty();
    let said = ran(&dir, waiter);
    assert!(said.contains("trying again: redis at ") && said.contains("got \"x\" after "), "{said}");
}

#[test]
fn a_waiter_whose_server_refuses_writes_reports_it() {
    let (dir, server) = (TestDir::new(), RedisServer::start(RedisOptions::default()));
    server.command(&["SET", "x", "somebody"]);
    let waiter = waiter(&dir, &format!("redis://{}?quarantine=off", server.address()), &["--ttl", "2s"]);
    eventually("it waits", || dir.read("err").contains("held"));
    server.command(&["REPLICAOF", "127.0.0.1", "1"]);
    eventually("it reports the outage", || dir.read("err").contains("replica"));
    server.command(&["REPLICAOF", "NO", "ONE"]);
    eventually("it reports its end", || dir.read("err").contains("grants locks again; "));
    server.command(&["DEL", "x"]);
    assert!(ran(&dir, waiter).contains("got \"x\" after "));
}

/// A node of a cluster whose slots are not served.
#[test]
fn a_waiter_whose_cluster_is_down_reports_it() {
    let config = vec![("cluster-enabled".to_owned(), "yes".to_owned())];
    let server = RedisServer::start(RedisOptions { config, ..Default::default() });
    let dir = TestDir::new();
    let waiter = waiter(&dir, &format!("redis://{}?quarantine=off", server.address()), &[]);
    eventually("it reports the outage", || dir.read("err").contains("trying again"));
    assert!(dir.read("err").contains("CLUSTERDOWN"), "{}", dir.read("err"));
    drop(waiter);
}

#[test]
fn in_json_an_outage_and_a_quarantine_have_fields() {
    let (dir, server) = (TestDir::new(), RedisServer::start(RedisOptions::default()));
    server.command(&["SET", "x", "somebody"]);
    let url = format!("redis://{}?quarantine=strict&max-ttl=6s", server.address());
    let waiter = waiter(&dir, &url, &["--ttl", "2s", "--json"]);
    let seen = |field: &str, key: &str| {
        dir.read("err").lines().any(|line| {
            let event: serde_json::Value = serde_json::from_str(line).unwrap_or_default();
            event["event"] == "waiting" && !event[field][key].is_null()
        })
    };
    eventually("it reports the quarantine", || seen("quarantine", "left_ms") && seen("quarantine", "until"));
    server.kill();
    eventually("it reports the outage", || seen("outage", "for_ms") && seen("outage", "kind"));
    drop(waiter);
}
