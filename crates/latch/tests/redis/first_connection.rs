//! A job that starts before its server.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::process::Command;

use nix::sys::signal::Signal;
use testkit::servers::{Certificates, RedisOptions, RedisServer, RedisTls};

use crate::support::{Running, TestDir, end, eventually};

const NOBODY: &str = "redis://127.0.0.1:1";

fn job(dir: &TestDir, url: &str, options: &[&str]) -> Command {
    let mut latch = dir.script("x", options, "echo ran");
    latch.env("LATCH_URL", url);
    latch
}

/// A server that answers every request with this error.
fn failing_with(words: &'static str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let mut bytes = [0; 4096];
                while let Ok(1..) = stream.read(&mut bytes) {
                    let requests = bytes.iter().filter(|byte| **byte == b'*').count().max(1);
                    bytes.fill(0);
                    if stream.write_all(format!("-{words}\r\n").repeat(requests).as_bytes()).is_err() {
                        return;
                    }
                }
            });
        }
    });
    address
}

#[test]
fn a_job_that_starts_before_its_server_waits_and_reports_it() {
    for options in [&["--wait", "60s"][..], &[]] {
        let (dir, server) = (TestDir::new(), RedisServer::start(RedisOptions::default()));
        server.kill();
        let mut job = job(&dir, &format!("redis://{}", server.address()), options);
        let job = Running::from(job.stderr(File::create(dir.path("err")).unwrap()).spawn().unwrap());
        eventually("it reports the wait", || dir.read("err").contains("trying again: redis at "));
        server.restart();
        let ended = job.finish();
        assert_eq!(ended.code, Some(0), "{ended:?} {}", dir.read("err"));
        assert!(dir.read("err").contains("got \"x\" after "), "{}", dir.read("err"));
    }
}

#[test]
fn the_wait_limit_counts_from_the_start_and_an_unreachable_server_is_no_busy_lock() {
    let dir = TestDir::new();
    let ended = end(&mut job(&dir, NOBODY, &["--wait", "1s", "-E", "0"]));
    assert_eq!(ended.code, Some(69), "{ended:?}");
    assert!(ended.err.contains("could not connect within 1s (--wait): redis at 127.0.0.1:1"), "{ended:?}");
    let loading = format!("redis://{}", failing_with("LOADING Redis is loading the dataset in memory"));
    let ended = end(&mut job(&dir, &loading, &["--wait", "1s", "--quiet"]));
    assert_eq!(ended.code, Some(69), "{ended:?}");
    assert!(ended.err.contains("could not connect within 1s") && ended.err.contains("LOADING"), "{ended:?}");
    assert!(!ended.err.contains("waiting"), "{ended:?}");
}

/// With retries, each of these would wait forever.
#[test]
fn an_error_that_a_retry_cannot_solve_fails_at_once() {
    let (dir, server) = (TestDir::new(), RedisServer::start(RedisOptions::default()));
    let certificates = Certificates::make();
    let tls = RedisTls { ca: certificates.ca(), identity: certificates.server(), clients_need_one: false };
    let tls = RedisServer::start(RedisOptions { tls: Some(tls), ..Default::default() });
    let address = server.address();
    for (url, options, code) in [
        (NOBODY.to_owned(), &["--no-wait"][..], 69),
        (NOBODY.to_owned(), &["--wait", "0"], 69),
        (format!("redis://user:wrong@{address}"), &[], 69),
        (format!("rediss://{}", tls.address()), &[], 69),
        (format!("redis://{address}/99"), &[], 64),
        (format!("redis://{address}?quarantine=maybe"), &[], 64),
    ] {
        let ended = end(&mut job(&dir, &url, options));
        assert_eq!((ended.code, ended.out.as_str()), (Some(code), ""), "{url}: {ended:?}");
        assert!(!ended.err.contains("trying again"), "{url}: {ended:?}");
    }
}

#[test]
fn a_signal_ends_the_wait_for_the_server() {
    let dir = TestDir::new();
    let mut job = job(&dir, NOBODY, &[]);
    let job = Running::from(job.stderr(File::create(dir.path("err")).unwrap()).spawn().unwrap());
    eventually("it waits", || dir.read("err").contains("trying again"));
    job.signal(Signal::SIGTERM);
    assert_eq!(job.finish().code, Some(143));
}
