//! Output that is not read, or cannot be written.

use std::fs::OpenOptions;

use crate::support::{TestDir, assert_clean_error, end};

const PRINTING: [&[&str]; 8] = [
    &["status"],
    &["status", "x"],
    &["ls"],
    &["ls", "--json"],
    &["revoke", "x", "--reason", "why not"],
    &["engines"],
    &["completions", "bash"],
    &["--help"],
];

#[test]
fn a_pipe_that_its_reader_closed_is_no_error() {
    let dir = TestDir::new();
    let _holder = dir.hold("x", &["--ttl", "1h"], "sleep 60");
    for arguments in PRINTING {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let child =
            dir.latch(arguments.iter().copied()).stdout(writer).stderr(std::process::Stdio::piped()).spawn();
        let ended = child.unwrap().wait_with_output().unwrap();
        assert_eq!((ended.status.code(), &ended.stderr[..]), (Some(0), &b""[..]), "{arguments:?}");
    }
}

#[test]
fn output_that_cannot_be_written_is_an_error() {
    let dir = TestDir::new();
    let _holder = dir.hold("x", &["--ttl", "1h"], "sleep 60");
    let in_words = |arguments: &&&[&str]| !arguments.contains(&"--json") && !arguments.contains(&"--help");
    for arguments in PRINTING.iter().filter(in_words) {
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let mut latch = dir.latch(arguments.iter().copied());
        let child = latch.stdout(full).stderr(std::process::Stdio::piped()).spawn().unwrap();
        assert_clean_error(&child.wait_with_output().unwrap().into(), 74, "cannot write to stdout");
    }
}

#[test]
fn a_closed_stderr_changes_nothing() {
    let dir = TestDir::new();
    for (arguments, code) in [(&["ls"][..], 0), (&["walk"], 64), (&["release", "x", "--force"], 1)] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let ended = end(dir.latch(arguments.iter().copied()).stderr(writer));
        assert_eq!(ended.code, Some(code), "{arguments:?}");
    }
}
