//! The output of `latch`: text, or JSON with `--json`.

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
use crate::wait::progress::WaitProgress;

/// The result of a subcommand, for stdout.
pub(crate) trait Report: Serialize {
    /// The result as text. `width` is that of the terminal, if stdout is one.
    fn text(&self, width: Option<usize>) -> String;
}

/// The format of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// Sentences and tables.
    Text,
    /// One document on stdout, and one object per line on stderr.
    Json,
}

/// The format and the amount of the output.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output {
    pub(crate) format: Format,
    /// `--quiet`: neither reports of waits nor warnings of the engine.
    pub(crate) is_quiet: bool,
}

/// A message on stderr, as JSON.
#[derive(Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
enum StderrEvent<'a> {
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

    /// The output that the arguments request, if clap cannot parse them.
    pub(crate) fn requested_by(arguments: impl Iterator<Item = OsString>) -> Self {
        Self::new(arguments.take_while(|word| word != "--").any(|word| word == "--json"), false)
    }

    /// Prints the result of a subcommand.
    pub(crate) fn print(self, report: &impl Report) -> Result<(), Failure> {
        match self.format {
            Format::Text => print(&report.text(width())),
            Format::Json => print(&json::line(report)),
        }
    }

    /// A message that only text output needs: the JSON document already has its content.
    pub(crate) fn text_notice(self, message: &str) {
        if self.format == Format::Text {
            self.notice(message);
        }
    }

    pub(crate) fn notice(self, message: &str) {
        self.write(message, &StderrEvent::Notice { message });
    }

    /// A warning of possible harm.
    pub(crate) fn warn(self, message: &str) {
        self.write(&format!("warning: {message}"), &StderrEvent::Warning { message });
    }

    /// The lock is lost. Also reports whether the command is ended.
    pub(crate) fn lost(self, name: &LockName, loss: Loss, on_lost: OnLost) {
        let (command, then) = match on_lost {
            OnLost::Kill => ("ending", "ending the command"),
            OnLost::Warn => ("running", "the command continues"),
        };
        let message = format!("the lock {name:?} is lost: {loss}; {then}");
        let event =
            StderrEvent::Lost { lock: name.as_str(), reason: loss.label(), command, message: &message };
        self.write(&message, &event);
    }

    /// The wait goes on.
    pub(crate) fn waiting(self, progress: &WaitProgress<'_>) {
        let message = progress.log_line();
        let event = StderrEvent::Waiting {
            lock: progress.lock.as_str(),
            waited_ms: millis(progress.waited),
            holder: progress.holder.as_deref(),
            held_for_ms: progress.held_for.map(millis),
            place: progress.position.map(|(position, _)| position),
            waiters: progress.position.map(|(_, waiters)| waiters),
            outage: progress.outage.as_ref().map(|outage| OutageEvent {
                for_ms: millis(outage.lasts),
                kind: outage.kind,
                message: &outage.message,
            }),
            quarantine: progress.quarantine.as_ref().map(|quarantine| QuarantineEvent {
                until: quarantine.until(),
                left_ms: millis(quarantine.left),
                why: &quarantine.why,
            }),
            message: &message,
        };
        self.write(&message, &event);
    }

    /// The wait has ended, and the lock is held.
    pub(crate) fn granted(self, name: &LockName, waited: Duration) {
        let message = format!("got {name:?} after {}", rounded(waited));
        let event =
            StderrEvent::Granted { lock: name.as_str(), waited_ms: millis(waited), message: &message };
        self.write(&message, &event);
    }

    /// Reports why `latch` ends, and returns the exit code.
    pub(crate) fn report(self, failure: &Failure) -> u8 {
        let exit_code = failure.code();
        if let Some(message) = failure.message() {
            let hint = failure.get_hint();
            let (text, sql) = failure.message_and_sql();
            self.write(text, &StderrEvent::Error { kind: failure.kind(), message, hint, exit_code });
            if self.format == Format::Text {
                let sql = sql.into_iter().flat_map(str::lines).map(|line| sanitize(line) + "\n");
                let hint = hint.map(|hint| format!("hint: {}\n", sanitize(hint)));
                write_stderr(&sql.chain(hint).collect::<String>());
            }
        }
        exit_code
    }

    fn write(self, message: &str, event: &StderrEvent<'_>) {
        write_stderr(&match self.format {
            Format::Text => format!("latch: {}\n", sanitize(message)),
            Format::Json => json::line(event),
        });
    }
}

/// Writes to stdout. A reader that closes the pipe early (`| head -1`) is no error.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::new(NO_OUTPUT, format!("cannot write to stdout: {error}")))
        }
        _ => Ok(()),
    }
}

/// In one write, so that output of the command cannot come between. A closed stderr must not cause a panic.
fn write_stderr(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

fn width() -> Option<usize> {
    terminal_size::terminal_size_of(io::stdout()).map(|(width, _)| usize::from(width.0))
}
