//! Gives out the budget over a socket: conformance runs many cases in one process, and each asks for its own share.
//!
//! A process connects once, sends `expect N` as a line, and closes: it has so many cases. A case connects,
//! sends `CORES NAME` as a line (hundredths of a core), and runs once it has read a byte. It closes the
//! connection when it ends, or its process's death does.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Instant;
use std::{env, fs, io, process, thread};

use crate::budget::{Budget, Priority};
use crate::report::Report;

/// The variable that tells a test process where the socket is.
pub(crate) const SOCKET_VARIABLE: &str = "TESTKIT_BUDGET";

/// A socket that is removed when it is dropped.
pub(crate) struct BudgetSocket(PathBuf);

impl BudgetSocket {
    /// Answers from now on, until the process ends.
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
        // A file in the temporary folder that stays does no harm.
        let _ = fs::remove_file(&self.0);
    }
}

/// An error means that the case has ended, which is what is waited for.
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
    // Ends with the connection: nothing more is sent.
    let _ = reader.read(&mut [0]);
    drop(share);
    report.ends("conformance", case, began.elapsed());
    Some(())
}
