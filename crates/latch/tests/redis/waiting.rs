//! A wait tells of the server's troubles.

use std::fs::File;

use testkit::servers::{RedisOptions, RedisServer};

use crate::support::{Place, Running, eventually};

fn waiter(place: &Place, url: &str, options: &[&str]) -> Running {
    let mut latch = place.script("x", options, "echo ran >> ran");
    latch.env("LATCH_URL", url);
    Running::from(latch.stderr(File::create(place.path("err")).unwrap()).spawn().unwrap())
}

fn ran(place: &Place, waiter: Running) -> String {
    let ended = waiter.finish();
    assert_eq!(ended.code, Some(0), "{ended:?} {}", place.read("err"));
    assert_eq!(place.read("ran"), "ran\n");
    place.read("err")
}

#[test]
fn a_waiter_in_quarantine_says_why_and_until_when() {
    let (place, server) = (Place::new(), RedisServer::start(RedisOptions::default()));
    let url = format!("redis://{}?quarantine=strict&max-ttl=6s", server.address());
    let said = ran(&place, waiter(&place, &url, &["--ttl", "2s"]));
    for part in
        ["latch: waiting for \"x\": no lock is granted until 20", "max-ttl", "quarantine=off", "got \"x\""]
    {
        assert!(said.contains(part), "{part:?} in {said}");
    }
    assert!(said.contains(&server.address().to_string()), "{said}");
    assert!(!said.contains("held"), "{said}");
}

#[test]
fn a_waiter_whose_server_is_killed_says_so_and_goes_on_when_it_is_back() {
    let (place, server) = (Place::new(), RedisServer::start(RedisOptions::default()));
    let url = format!("redis://{}?quarantine=off", server.address());
    server.command(&["SET", "x", "somebody"]);
    let waiter = waiter(&place, &url, &["--ttl", "2s"]);
    eventually("it waits", || place.read("err").contains("held"));
    server.kill();
    eventually("it tells of the outage", || place.read("err").contains("failing"));
    server.restart_empty();
    let said = ran(&place, waiter);
    assert!(said.contains("trying again: redis at ") && said.contains("got \"x\" after "), "{said}");
}

#[test]
fn a_waiter_whose_server_refuses_writes_says_so() {
    let (place, server) = (Place::new(), RedisServer::start(RedisOptions::default()));
    server.command(&["SET", "x", "somebody"]);
    let waiter = waiter(&place, &format!("redis://{}?quarantine=off", server.address()), &["--ttl", "2s"]);
    eventually("it waits", || place.read("err").contains("held"));
    server.command(&["REPLICAOF", "127.0.0.1", "1"]);
    eventually("it tells of the outage", || place.read("err").contains("replica"));
    server.command(&["REPLICAOF", "NO", "ONE"]);
    eventually("it tells of its end", || place.read("err").contains("grants locks again; "));
    server.command(&["DEL", "x"]);
    assert!(ran(&place, waiter).contains("got \"x\" after "));
}

/// A node of a cluster whose slots nobody serves.
#[test]
fn a_waiter_whose_cluster_is_down_says_so() {
    let config = vec![("cluster-enabled".to_owned(), "yes".to_owned())];
    let server = RedisServer::start(RedisOptions { config, ..Default::default() });
    let place = Place::new();
    let waiter = waiter(&place, &format!("redis://{}?quarantine=off", server.address()), &[]);
    eventually("it tells of the outage", || place.read("err").contains("trying again"));
    assert!(place.read("err").contains("CLUSTERDOWN"), "{}", place.read("err"));
    drop(waiter);
}

#[test]
fn for_programs_an_outage_and_a_quarantine_have_fields() {
    let (place, server) = (Place::new(), RedisServer::start(RedisOptions::default()));
    server.command(&["SET", "x", "somebody"]);
    let url = format!("redis://{}?quarantine=strict&max-ttl=6s", server.address());
    let waiter = waiter(&place, &url, &["--ttl", "2s", "--json"]);
    let seen = |field: &str, key: &str| {
        place.read("err").lines().any(|line| {
            let event: serde_json::Value = serde_json::from_str(line).unwrap_or_default();
            event["event"] == "waiting" && !event[field][key].is_null()
        })
    };
    eventually("it tells of the quarantine", || seen("quarantine", "left_ms") && seen("quarantine", "until"));
    server.kill();
    eventually("it tells of the outage", || seen("outage", "for_ms") && seen("outage", "kind"));
    drop(waiter);
}
