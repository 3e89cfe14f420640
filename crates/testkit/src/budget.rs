//! A case's share of the machine. `./test` schedules cases by it; under plain `cargo test` nothing does.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

/// Names the scheduler's socket. `crates/xtask/src/budget_socket.rs` is the other side.
const VARIABLE: &str = "TESTKIT_BUDGET";

/// Held by a case while it runs.
#[derive(Debug)]
pub struct Share(#[expect(dead_code, reason = "closed when it is dropped")] UnixStream);

/// Tells the scheduler how many cases this process has, for its progress line.
pub fn announce(cases: usize) {
    if let Some(socket) = std::env::var_os(VARIABLE) {
        let mut stream = UnixStream::connect(socket).expect("the scheduler listens");
        writeln!(stream, "expect {cases}").expect("the scheduler reads");
    }
}

/// Waits until this many hundredths of a core are free for the case.
///
/// # Panics
/// If the scheduler is gone: then its other tests have ended too.
pub fn share(cores: u32, case: &str) -> Option<Share> {
    let socket = std::env::var_os(VARIABLE)?;
    let mut stream = UnixStream::connect(socket).expect("the scheduler listens");
    stream.write_all(format!("{cores} {case}\n").as_bytes()).expect("the scheduler reads");
    stream.read_exact(&mut [0]).expect("the scheduler answers");
    Some(Share(stream))
}
