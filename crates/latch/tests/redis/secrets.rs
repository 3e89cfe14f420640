//! A password is sent to the server and printed nowhere, with every subcommand and in every failure.

use std::process::Command;

use testkit::servers::{RedisOptions, RedisServer};

use crate::support::{Ended, TestDir, end, eventually};

const USER: &str = "canary-user";
const PASSWORD: &str = "canary-password-7f3a";

/// A server whose only user is this one, with this password.
fn guarded(password: &str) -> RedisServer {
    let acl = vec!["default off".to_owned(), format!("{USER} on >{password} ~* &* +@all")];
    RedisServer::start(RedisOptions { acl, ..Default::default() })
}

fn url(server: &RedisServer) -> String {
    format!("redis://{USER}:{PASSWORD}@{}", server.address())
}

/// Runs `latch` with these arguments, as text and as JSON, with the URL in the environment, in a file and in
/// an argument.
fn every_way(dir: &TestDir, url: &str, arguments: &[&str]) -> Vec<Ended> {
    let file = dir.path("url");
    std::fs::write(&file, url).unwrap();
    let mut all = Vec::new();
    for json in [&[][..], &["--json"]] {
        let latch = |first: &[&str]| dir.latch([first, json, arguments].concat());
        all.push(end(latch(&[]).env("LATCH_URL", url)));
        all.push(end(latch(&[]).env_remove("LATCH_URL").env("LATCH_URL_FILE", &file)));
        all.push(end(latch(&["--url", url]).env_remove("LATCH_URL")));
    }
    all
}

#[track_caller]
fn keeps_the_secret(ended: &Ended) {
    assert!(!format!("{}{}", ended.out, ended.err).contains("7f3a"), "the password was told: {ended:?}");
}

/// Runs `latch` in every way. Each run must end with this exit code.
#[track_caller]
fn ends(dir: &TestDir, url: &str, arguments: &[&str], code: i32) {
    for ended in every_way(dir, url, arguments) {
        assert_eq!(ended.code, Some(code), "{arguments:?}: {ended:?}");
        keeps_the_secret(&ended);
    }
}

/// A `latch run` that holds the lock `x`, killed with its test.
struct Holder(std::process::Child);

impl Holder {
    fn start(dir: &TestDir, server: &RedisServer) -> Self {
        let started = dir.path("started");
        let _ = std::fs::remove_file(&started);
        let script = format!("touch {}; exec sleep 60", started.display());
        let mut latch: Command = dir.latch(["run", "x", "--ttl", "30s", "--", "sh", "-c", &script]);
        let holder = Self(latch.env("LATCH_URL", url(server)).spawn().unwrap());
        eventually("it holds", || started.exists());
        holder
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn no_subcommand_prints_the_password_on_success() {
    let (dir, server) = (TestDir::new(), guarded(PASSWORD));
    let url = url(&server);
    ends(&dir, &url, &["run", "free", "--", "env"], 0);
    ends(&dir, &url, &["run", "free", "--", "sh", "-c", "exit 7"], 7);
    ends(&dir, &url, &["engines"], 0);
    let _holder = Holder::start(&dir, &server);
    ends(&dir, &url, &["status", "x"], 0);
    ends(&dir, &url, &["ls"], 0);
    ends(&dir, &url, &["run", "x", "--no-wait", "--", "true"], 75);
    ends(&dir, &url, &["run", "x", "--wait", "800ms", "--", "true"], 124);
    // The hint has a command to type, which must not contain the URL as it was given.
    ends(&dir, &url, &["release", "x", "--now"], 64);
    let taken = end(dir.latch(["release", "x", "--now", "--force"]).env("LATCH_URL", &url));
    assert_eq!(taken.code, Some(0), "{taken:?}");
    keeps_the_secret(&taken);
}

#[test]
fn no_subcommand_prints_the_password_if_it_is_wrong_or_the_server_is_unreachable() {
    let (dir, wrong) = (TestDir::new(), guarded("another"));
    let nobody = format!("redis://{USER}:{PASSWORD}@127.0.0.1:1");
    for url in [url(&wrong), nobody] {
        for arguments in [&["run", "x", "--wait", "300ms", "--", "true"][..], &["status", "x"], &["ls"]] {
            ends(&dir, &url, arguments, 69);
        }
        ends(&dir, &url, &["release", "x", "--force"], 69);
        ends(&dir, &url, &["release", "x"], 64);
    }
}

#[test]
fn no_subcommand_prints_the_password_if_the_url_is_wrong() {
    let (dir, server) = (TestDir::new(), guarded(PASSWORD));
    let address = server.address();
    for url in [
        format!("redis://{USER}:{PASSWORD}@{address}/?quarantine={PASSWORD}"),
        format!("redis://{USER}:{PASSWORD}@{address}/?pass={PASSWORD}"),
        format!("redis://{USER}:{PASSWORD}@{address}/99"),
        format!("redis://{PASSWORD}@{address}"),
        format!("redis://:a/{PASSWORD}@{address}"),
        format!("reddis://:{PASSWORD}@{address}"),
        format!("redis//:{PASSWORD}@{address}"),
    ] {
        for arguments in [&["run", "x", "--", "true"][..], &["status", "x"], &["ls"]] {
            ends(&dir, &url, arguments, 64);
        }
    }
}

/// Users of the machine can read the environment of their own processes, and the arguments of all processes.
#[test]
fn a_command_that_runs_under_a_lock_is_not_given_the_password() {
    let (dir, server) = (TestDir::new(), guarded(PASSWORD));
    let seen = end(dir.latch(["run", "x", "--", "env"]).env("LATCH_URL", url(&server)));
    let shown = format!("LATCH_URL=redis://{USER}@{}\n", server.address());
    assert!(seen.code == Some(0) && seen.out.contains(&shown), "{seen:?}");
    keeps_the_secret(&seen);
}

#[test]
fn a_loss_while_the_command_runs_does_not_print_the_password() {
    let (dir, server) = (TestDir::new(), guarded(PASSWORD));
    let started = dir.path("started");
    let script = format!("touch {}; exec sleep 60", started.display());
    // Time for a renewal that fails, even if the machine stands still for half a second: a lease without a
    // renewal ends for another reason.
    let mut latch = dir.latch(["run", "x", "--ttl", "3s", "--grace", "100ms", "--", "sh", "-c", &script]);
    let running = std::thread::spawn({
        let url = url(&server);
        move || end(latch.env("LATCH_URL", url))
    });
    eventually("it holds", || started.exists());
    server.kill();
    let ended = running.join().unwrap();
    assert_eq!(ended.code, Some(76), "{ended:?}");
    assert!(ended.err.contains("could not be reached"), "{ended:?}");
    keeps_the_secret(&ended);
}
