//! A job that starts before its server.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::process::Command;

use nix::sys::signal::Signal;
use testkit::servers::{Certificates, RedisOptions, RedisServer, RedisTls};

use crate::support::{Place, Running, end, eventually};

const NOBODY: &str = "redis://127.0.0.1:1";

fn job(place: &Place, url: &str, options: &[&str]) -> Command {
    let mut latch = place.script("x", options, "echo ran");
    latch.env("LATCH_URL", url);
    latch
}

/// A server that answers every request with these words.
fn saying(words: &'static str) -> SocketAddr {
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
fn a_job_that_starts_before_its_server_waits_for_it_and_says_so() {
    for options in [&["--wait", "60s"][..], &[]] {
        let (place, server) = (Place::new(), RedisServer::start(RedisOptions::default()));
        server.kill();
        let mut job = job(&place, &format!("redis://{}", server.address()), options);
        let job = Running::from(job.stderr(File::create(place.path("err")).unwrap()).spawn().unwrap());
        eventually("it says so", || place.read("err").contains("trying again: redis at "));
        server.restart();
        let ended = job.finish();
        assert_eq!(ended.code, Some(0), "{ended:?} {}", place.read("err"));
        assert!(place.read("err").contains("got \"x\" after "), "{}", place.read("err"));
    }
}

#[test]
fn the_wait_limit_counts_from_the_start_and_an_unreachable_server_is_no_busy_lock() {
    let place = Place::new();
    let ended = end(&mut job(&place, NOBODY, &["--wait", "1s", "-E", "0"]));
    assert_eq!(ended.code, Some(69), "{ended:?}");
    assert!(ended.err.contains("could not connect within 1s: redis at 127.0.0.1:1"), "{ended:?}");
    let loading = format!("redis://{}", saying("LOADING Redis is loading the dataset in memory"));
    let ended = end(&mut job(&place, &loading, &["--wait", "1s", "--quiet"]));
    assert_eq!(ended.code, Some(69), "{ended:?}");
    assert!(ended.err.contains("could not connect within 1s") && ended.err.contains("LOADING"), "{ended:?}");
    assert!(!ended.err.contains("waiting"), "{ended:?}");
}

/// Each of these would wait forever if it were tried again.
#[test]
fn what_does_not_pass_by_itself_fails_at_once() {
    let (place, server) = (Place::new(), RedisServer::start(RedisOptions::default()));
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
        let ended = end(&mut job(&place, &url, options));
        assert_eq!((ended.code, ended.out.as_str()), (Some(code), ""), "{url}: {ended:?}");
        assert!(!ended.err.contains("trying again"), "{url}: {ended:?}");
    }
}

#[test]
fn a_signal_breaks_the_wait_for_the_server_off() {
    let place = Place::new();
    let mut job = job(&place, NOBODY, &[]);
    let job = Running::from(job.stderr(File::create(place.path("err")).unwrap()).spawn().unwrap());
    eventually("it waits", || place.read("err").contains("trying again"));
    job.signal(Signal::SIGTERM);
    assert_eq!(job.finish().code, Some(143));
}
