//! Waiting for the lock: what a person at a terminal sees meanwhile, and how to break off.

use std::io::{IsTerminal, Write};
use std::pin::pin;
use std::time::Duration;

use latchwork::clock::{self, Clock, Moment};
use latchwork::engine::{ClaimState, Filter, LockState, Note};
use latchwork::{Client, Guard, LockName};
use nix::sys::signal::{self, Signal};
use nix::unistd::Pid;

use crate::failure::Failure;
use crate::printable::printable;
use crate::signals::{self, Signals};
use crate::voice::Voice;

/// The first line comes a little late: most waits are shorter, and nobody wants a flicker.
const FIRST_LINE_AFTER: Duration = Duration::from_millis(200);
const LINE_EVERY: Duration = Duration::from_secs(1);
/// How long the place in the queue may take to be given up.
const WITHDRAWS_WITHIN: Duration = Duration::from_secs(1);

/// Waits until the lock is taken. A signal that asks to end breaks the wait off.
pub(crate) async fn acquire(
    acquiring: impl Future<Output = latchwork::Result<Guard>>,
    line: &mut Line,
    signals: &mut Signals,
) -> Result<Guard, Failure> {
    let end = {
        let mut acquiring = pin!(acquiring);
        loop {
            tokio::select! {
                biased;
                acquired = &mut acquiring => {
                    line.clear();
                    return Ok(acquired?);
                }
                signal = signals.next() => match signal {
                    Signal::SIGTSTP => stop_myself(),
                    signal if signals::asks_to_end(signal) => break signal,
                    _ => {}
                },
                () = line.refresh() => {}
            }
        }
    };
    line.clear();
    line.withdrawn().await;
    Err(Failure::silent(signals::exit_code(end)))
}

/// Stops this process as ^Z would; returns when it is continued.
pub(crate) fn stop_myself() {
    let _ = signal::kill(Pid::this(), Signal::SIGSTOP);
}

/// What others see of this wait, and the line on stderr that says who holds the lock. No line if stderr is no terminal.
pub(crate) struct Line {
    client: Client,
    name: Option<LockName>,
    note: Note,
    is_wanted: bool,
    began: Moment,
    next: Moment,
    is_shown: bool,
}

impl Line {
    /// `text` is the whole note of the client.
    pub(crate) fn new(client: &Client, name: &str, text: &str, voice: Voice) -> Self {
        let began = Clock::boottime().now();
        Self {
            client: client.clone(),
            name: LockName::new(name).ok(),
            note: Note::new(text),
            is_wanted: voice == Voice::Text && std::io::stderr().is_terminal(),
            began,
            next: began.after(FIRST_LINE_AFTER),
            is_shown: false,
        }
    }

    /// Waits until the line is due, and writes it. May be dropped at any time.
    async fn refresh(&mut self) {
        let Some(name) = self.name.clone().filter(|_| self.is_wanted) else {
            return std::future::pending().await;
        };
        Clock::boottime().sleep_until(self.next).await;
        let state = self.client.inspect(&Filter::Name(name.clone())).await;
        let now = Clock::boottime().now();
        self.next = now.after(LINE_EVERY);
        let state = state.ok().and_then(|mut locks| locks.pop());
        let text = describe(&name, state.as_ref(), &self.note, now.since(self.began));
        self.write(&text);
    }

    /// Waits, not for long, until the place in the queue is given up: the dropped attempt does that in the background.
    async fn withdrawn(&self) {
        let _ = tokio::time::timeout(WITHDRAWS_WITHIN, self.client.close()).await;
    }

    fn write(&mut self, text: &str) {
        self.is_shown = true;
        // Without automatic wrapping, the terminal itself cuts what is too long, and one line stays one line.
        let text = printable(text);
        let _ = write!(std::io::stderr(), "\r\x1b[?7l{text}\x1b[K\x1b[?7h");
    }

    fn clear(&mut self) {
        if std::mem::take(&mut self.is_shown) {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

fn describe(name: &LockName, state: Option<&LockState>, mine: &Note, waited: Duration) -> String {
    let waited = in_seconds(waited);
    let mut text = format!("latch: waiting {waited} for {name:?}");
    let Some(state) = state else { return text };
    if let Some(place) = state.waiters.iter().position(|waiter| waiter.note == *mine) {
        text += &format!(", number {} of {} in the queue", place + 1, state.waiters.len());
    }
    if let Some(holder) = state.holders.first() {
        text += &format!("; held{} by {}", for_how_long(holder), holder.note.as_str());
    }
    text
}

fn for_how_long(holder: &ClaimState) -> String {
    let since = holder.since.and_then(|since| since.duration_since(std::time::UNIX_EPOCH).ok());
    let now = Duration::from_micros(clock::wall_micros());
    since.map_or_else(String::new, |since| format!(" for {}", in_seconds(now.saturating_sub(since))))
}

fn in_seconds(span: Duration) -> humantime::FormattedDuration {
    humantime::format_duration(Duration::from_secs(span.as_secs()))
}
