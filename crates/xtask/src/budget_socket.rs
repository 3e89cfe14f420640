//! Grants the budget over a socket: conformance runs many cases in one process, and each requests a share of
//! its own.
//!
//! A process connects once, sends the number of its cases as a line `expect N`, and closes the connection. A
//! case connects, sends `CORES NAME` as a line (hundredths of a core), and runs when it has read a byte. The
//! end of the case, or of its process, closes the connection.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Instant;
use std::{env, fs, io, process, thread};

use crate::budget::{Budget, Priority};
use crate::report::Report;

/// The variable with the path of the socket, for the test processes.
pub(crate) const SOCKET_VARIABLE: &str = "TESTKIT_BUDGET";

/// A socket that is removed when it is dropped.
pub(crate) struct BudgetSocket(PathBuf);

impl BudgetSocket {
    /// Binds the socket and serves it until the process ends.
    pub(crate) fn open(budget: &'static Budget, report: &'static Report) -> io::Result<Self> {
        let path = env::temp_dir().join(format!("latchwork-test-{}.socket", process::id()));
        let listener = UnixListener::bind(&path)?;
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                thread::spawn(move || serve(stream, budget, report));
            }
        });
        Ok(Self(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for BudgetSocket {
    fn drop(&mut self) {
        // A leftover file in the temporary folder does no harm.
        let _ = fs::remove_file(&self.0);
    }
}

/// Serves one connection. An error means that the case has ended.
fn serve(stream: UnixStream, budget: &Budget, report: &Report) -> Option<()> {
    let mut reader = BufReader::new(&stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let (cores, case) = line.trim_end().split_once(' ')?;
    if cores == "expect" {
        report.announced(case.parse().ok()?);
        return Some(());
    }
    let share = budget.take(cores.parse().ok()?, 0, Priority::CaseOfRunning);
    let began = Instant::now();
    (&stream).write_all(b"y").ok()?;
    report.begins("conformance", case);
    // Returns when the connection is closed: the case sends nothing more.
    let _ = reader.read(&mut [0]);
    drop(share);
    report.ends("conformance", case, began.elapsed());
    Some(())
}
