//! The output of `latch`: sentences for people, or JSON for programs (`--json`).

use std::ffi::OsString;
use std::io::{self, Write};
use std::time::Duration;

use latchwork::{LockName, Loss};
use serde::Serialize;

use crate::cli::OnLost;
use crate::duration::rounded;
use crate::failure::{Failure, NO_OUTPUT};
use crate::json;
use crate::sanitize::sanitize;
use crate::wait_view::WaitView;

/// What a subcommand found out, for stdout.
pub(crate) trait Report: Serialize {
    /// For people. `width`: of the terminal, if it goes to one.
    fn text(&self, width: Option<usize>) -> String;
}

/// The format of what is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// Sentences and tables.
    Text,
    /// One document on stdout, one object per line on stderr.
    Json,
}

/// The format of the output, and how much of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output {
    pub(crate) format: Format,
    /// `--quiet`: nothing of waits, and nothing that the engine warns of at every connection.
    pub(crate) is_quiet: bool,
}

/// What is said on stderr, as JSON.
#[derive(Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
enum Event<'a> {
    Error {
        kind: &'a str,
        message: &'a str,
        hint: Option<&'a str>,
        exit_code: u8,
    },
    Warning {
        message: &'a str,
    },
    Notice {
        message: &'a str,
    },
    Waiting {
        lock: &'a str,
        waited_ms: u64,
        holder: Option<&'a str>,
        held_for_ms: Option<u64>,
        place: Option<usize>,
        waiters: Option<usize>,
        outage: Option<OutageEvent<'a>>,
        quarantine: Option<QuarantineEvent<'a>>,
        message: &'a str,
    },
    Granted {
        lock: &'a str,
        waited_ms: u64,
        message: &'a str,
    },
    Lost {
        lock: &'a str,
        reason: &'a str,
        command: &'a str,
        message: &'a str,
    },
}

#[derive(Serialize)]
struct OutageEvent<'a> {
    for_ms: u64,
    kind: &'a str,
    message: &'a str,
}

#[derive(Serialize)]
struct QuarantineEvent<'a> {
    until: String,
    left_ms: u64,
    why: &'a str,
}

impl Output {
    pub(crate) fn new(json: bool, is_quiet: bool) -> Self {
        Self { format: if json { Format::Json } else { Format::Text }, is_quiet }
    }

    /// The output that a command line asks for which is otherwise wrong.
    pub(crate) fn wanted_by(arguments: impl Iterator<Item = OsString>) -> Self {
        Self::new(arguments.take_while(|word| word != "--").any(|word| word == "--json"), false)
    }

    /// Prints what a subcommand found out.
    pub(crate) fn print(self, report: &impl Report) -> Result<(), Failure> {
        match self.format {
            Format::Text => print(&report.text(width())),
            Format::Json => print(&json::line(report)),
        }
    }

    /// Something a person wants to know, and a program finds in the document.
    pub(crate) fn remark(self, message: &str) {
        if self.format == Format::Text {
            self.notice(message);
        }
    }

    pub(crate) fn notice(self, message: &str) {
        self.say(message, &Event::Notice { message });
    }

    /// Somebody may come to harm.
    pub(crate) fn warn(self, message: &str) {
        self.say(&format!("warning: {message}"), &Event::Warning { message });
    }

    /// The lock is lost, and what becomes of the command.
    pub(crate) fn lost(self, name: &LockName, loss: Loss, on_lost: OnLost) {
        let (command, then) = match on_lost {
            OnLost::Kill => ("ending", "ending the command"),
            OnLost::Warn => ("running", "the command runs on"),
        };
        let message = format!("the lock {name:?} is lost: {loss}; {then}");
        let event = Event::Lost { lock: name.as_str(), reason: loss.label(), command, message: &message };
        self.say(&message, &event);
    }

    /// The lock is waited for.
    pub(crate) fn waiting(self, view: &WaitView<'_>) {
        let message = view.line();
        let event = Event::Waiting {
            lock: view.lock.as_str(),
            waited_ms: millis(view.waited),
            holder: view.holder.as_deref(),
            held_for_ms: view.held_for.map(millis),
            place: view.place.map(|(place, _)| place),
            waiters: view.place.map(|(_, waiters)| waiters),
            outage: view.outage.as_ref().map(|outage| OutageEvent {
                for_ms: millis(outage.lasts),
                kind: outage.kind,
                message: &outage.message,
            }),
            quarantine: view.quarantine.as_ref().map(|quarantine| QuarantineEvent {
                until: quarantine.until(),
                left_ms: millis(quarantine.left),
                why: &quarantine.why,
            }),
            message: &message,
        };
        self.say(&message, &event);
    }

    /// The wait is over, and the lock is held.
    pub(crate) fn granted(self, name: &LockName, waited: Duration) {
        let message = format!("got {name:?} after {}", rounded(waited));
        let event = Event::Granted { lock: name.as_str(), waited_ms: millis(waited), message: &message };
        self.say(&message, &event);
    }

    /// Says why `latch` ends, and returns the exit code.
    pub(crate) fn report(self, failure: &Failure) -> u8 {
        let exit_code = failure.code();
        if let Some(message) = failure.message() {
            let hint = failure.get_hint();
            let (said, sql) = failure.apart();
            self.say(said, &Event::Error { kind: failure.kind(), message, hint, exit_code });
            if self.format == Format::Text {
                let sql = sql.into_iter().flat_map(str::lines).map(|line| sanitize(line) + "\n");
                let hint = hint.map(|hint| format!("hint: {}\n", sanitize(hint)));
                write_stderr(&sql.chain(hint).collect::<String>());
            }
        }
        exit_code
    }

    fn say(self, message: &str, event: &Event<'_>) {
        write_stderr(&match self.format {
            Format::Text => format!("latch: {}\n", sanitize(message)),
            Format::Json => json::line(event),
        });
    }
}

/// Writes to stdout. A reader that has seen enough (`| head -1`) is no error.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::new(NO_OUTPUT, format!("cannot write to stdout: {error}")))
        }
        _ => Ok(()),
    }
}

/// In one stroke, so that what the command says meanwhile cannot come between. A closed stderr is no reason to panic.
fn write_stderr(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

fn width() -> Option<usize> {
    terminal_size::terminal_size_of(io::stdout()).map(|(width, _)| usize::from(width.0))
}
