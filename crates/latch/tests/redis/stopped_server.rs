//! `latch run` exits when its command exits, even if the server stops answering.

use std::process::Stdio;
use std::time::Duration;

use latchwork::clock::{Clock, Moment};
use testkit::servers::{RedisOptions, RedisServer};

use crate::support::{Running, TestDir, eventually, runs};

const TTL: Duration = Duration::from_secs(3);

/// Starts `latch`; returns once its command has written its pid.
fn start(dir: &TestDir, server: &RedisServer, script: &str) -> (Running, nix::unistd::Pid) {
    let script = format!("echo $$ > pid; {script}");
    let mut latch = dir.script("x", &["--ttl", "3s"], &script);
    latch.env("LATCH_URL", format!("redis://{}", server.address()));
    let running = Running::from(latch.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    (running, dir.pid("pid"))
}

fn gone(command: nix::unistd::Pid) -> Moment {
    eventually("the command ends", || !runs(command));
    Clock::boottime().now()
}

#[test]
fn the_release_of_a_lost_lock_is_not_waited_for() {
    let (dir, server) = (TestDir::new(), RedisServer::start(RedisOptions::default()));
    let (latch, command) = start(&dir, &server, "exec sleep 60");
    server.pause();
    let ended_at = gone(command);
    let ended = latch.finish();
    let took = Clock::boottime().now().since(ended_at);
    server.resume();
    assert_eq!(ended.code, Some(76), "{ended:?}");
    assert!(took < TTL, "latch stayed for {took:?} after its command: {ended:?}");
}

#[test]
fn a_release_is_waited_for_no_longer_than_its_lease() {
    let (dir, server) = (TestDir::new(), RedisServer::start(RedisOptions::default()));
    let (latch, command) = start(&dir, &server, "while [ ! -e end ]; do sleep 0.02; done; exit 7");
    server.pause();
    std::fs::write(dir.path("end"), "").unwrap();
    let ended_at = gone(command);
    let ended = latch.finish();
    let took = Clock::boottime().now().since(ended_at);
    server.resume();
    assert_eq!(ended.code, Some(7), "{ended:?}");
    assert!(ended.err.contains("lease"), "it says what became of the lock: {ended:?}");
    assert!(took < TTL + TTL / 2, "latch stayed for {took:?} after its command: {ended:?}");
}
