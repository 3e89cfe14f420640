//! Reports a wait on stderr: lines in a log, or one line on a terminal that is refreshed.

use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::time::Duration;

use latchwork::clock::{self, Clock, Moment};
use latchwork::engine::{Filter, LockState, Note};
use latchwork::{Client, LockName};

use super::progress::{Outage, Quarantine, WaitProgress};
use super::updates::{WaitState, WaitUpdates};
use crate::output::{Format, Output};
use crate::sanitize::sanitize;

/// Shorter waits are not reported. Most are shorter.
const FIRST_REPORT_DELAY: Duration = Duration::from_millis(200);
/// A request for a free lock may take this long before it counts as a wait.
const UNANSWERED_DELAY: Duration = Duration::from_secs(2);
/// The interval between lines without a change.
const UNCHANGED_INTERVAL: Duration = Duration::from_secs(60);
/// The shortest interval between lines about new holders and positions in the queue. A busy lock has many in
/// a second.
const QUEUE_CHANGE_INTERVAL: Duration = Duration::from_secs(10);
/// The shortest interval between lines about outages and quarantines.
const FAULT_CHANGE_INTERVAL: Duration = Duration::from_secs(1);
/// The interval between updates of the line on a terminal.
const REFRESH_INTERVAL: Duration = Duration::from_secs(1);
/// The time limit for an inspection of the lock.
const INSPECT_LIMIT: Duration = Duration::from_secs(1);
/// The time limit for leaving the queue.
const WITHDRAW_LIMIT: Duration = Duration::from_secs(1);

/// The form of the report.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// One line that is refreshed.
    Terminal,
    /// A line of text, or a JSON object, for each change.
    Log,
    Quiet,
}

/// Reports one wait, from the first connection to the grant.
pub(crate) struct WaitReporter {
    name: Option<LockName>,
    output: Output,
    form: Form,
    /// The client, and the note of its claim, which identifies the claim in the queue. `None` before the
    /// first connection.
    client: Option<(Client, Note)>,
    /// When the first connection succeeded.
    connected_at: Option<Moment>,
    updates: Arc<WaitUpdates>,
    began: Moment,
    /// The newest reported state, and the time of its report.
    last_report: Option<(WaitState, Moment)>,
    has_terminal_line: bool,
}

impl WaitReporter {
    pub(crate) fn new(name: &str, output: Output) -> Self {
        let form = match output.format {
            _ if output.is_quiet => Form::Quiet,
            Format::Text if io::stderr().is_terminal() => Form::Terminal,
            _ => Form::Log,
        };
        Self {
            name: LockName::new(name).ok(),
            output,
            form,
            client: None,
            connected_at: None,
            updates: Arc::default(),
            began: Clock::boottime().now(),
            last_report: None,
            has_terminal_line: false,
        }
    }

    pub(crate) fn updates(&self) -> Arc<WaitUpdates> {
        self.updates.clone()
    }

    /// When the wait began.
    pub(crate) fn began(&self) -> Moment {
        self.began
    }

    /// From now on the reporter inspects the lock through this client. `note` is the client's whole note.
    pub(crate) fn connected(&mut self, client: &Client, note: &str) {
        self.client = Some((client.clone(), Note::new(note)));
        self.connected_at = Some(Clock::boottime().now());
        // The outage of the first connection is over.
        self.updates.replace(WaitState::default());
    }

    /// The lock is granted. This is reported if the wait was.
    pub(crate) fn granted(&mut self) {
        let (Some(_), Some(name)) = (&self.last_report, &self.name) else { return };
        let waited = Clock::boottime().now().since(self.began);
        self.output.granted(name, waited);
    }

    /// Waits until a report is due, and writes it. Cancel safe.
    pub(crate) async fn refresh(&mut self) {
        let Some(name) = self.name.clone().filter(|_| self.form != Form::Quiet) else {
            return std::future::pending().await;
        };
        let clock = Clock::boottime();
        loop {
            let due = self.due(&self.updates.latest());
            if clock.now() >= due {
                break;
            }
            tokio::select! {
                () = clock.sleep_until(due) => {}
                () = self.updates.changed() => {}
            }
        }
        let lock = self.inspect(&name).await;
        let state = self.updates.latest();
        let now = clock.now();
        let progress = self.progress(&name, &state, lock.as_ref(), now);
        self.last_report = Some((state, now));
        match self.form {
            Form::Terminal => self.write_terminal_line(&progress),
            _ => self.output.waiting(&progress),
        }
    }

    /// When the next report is due.
    fn due(&self, state: &WaitState) -> Moment {
        let Some((reported, at)) = &self.last_report else {
            let delay = if state.is_answered { FIRST_REPORT_DELAY } else { UNANSWERED_DELAY };
            return self.began.after(delay);
        };
        if self.form == Form::Terminal {
            return at.after(REFRESH_INTERVAL);
        }
        // A connection is not a reply: the lock may be free, or the server may grant nothing yet.
        if let Some(connected_at) = self.connected_at.filter(|_| !state.is_answered) {
            return connected_at.after(UNANSWERED_DELAY).max(at.after(FAULT_CHANGE_INTERVAL));
        }
        let interval = if !state.has_same_faults(reported) {
            FAULT_CHANGE_INTERVAL
        } else if !state.is_faulty()
            && (&state.holder, state.position) != (&reported.holder, reported.position)
        {
            QUEUE_CHANGE_INTERVAL
        } else {
            UNCHANGED_INTERVAL
        };
        at.after(interval)
    }

    /// The engine's view of the lock. No request is sent during an outage or a quarantine.
    async fn inspect(&self, name: &LockName) -> Option<LockState> {
        let (client, _) = self.client.as_ref().filter(|_| !self.updates.latest().is_faulty())?;
        let filter = Filter::Name(name.clone());
        tokio::time::timeout(INSPECT_LIMIT, client.inspect(&filter)).await.ok()?.ok()?.pop()
    }

    fn progress<'a>(
        &self,
        name: &'a LockName,
        state: &WaitState,
        lock: Option<&LockState>,
        now: Moment,
    ) -> WaitProgress<'a> {
        let mut progress = WaitProgress::new(name, now.since(self.began));
        progress.is_answered = state.is_answered;
        progress.is_first = self.last_report.is_none();
        progress.is_recovered =
            self.last_report.as_ref().is_some_and(|(reported, _)| reported.is_faulty()) && !state.is_faulty();
        progress.outage = state.outage.as_ref().map(|outage| Outage {
            lasts: now.since(outage.since),
            kind: outage.kind,
            message: outage.message.clone(),
        });
        progress.quarantine = state
            .quarantine
            .as_ref()
            .map(|(until, why)| Quarantine { left: until.since(now), why: why.clone() });
        if state.is_faulty() {
            return progress;
        }
        progress.holder = state.holder.as_ref().map(|note| note.as_str().to_owned());
        progress.ahead = state.position;
        let (Some(lock), Some((_, own_note))) = (lock, &self.client) else { return progress };
        if let Some(holder) = lock.holders.first() {
            let since = holder.since.and_then(|since| since.duration_since(std::time::UNIX_EPOCH).ok());
            let now = Duration::from_micros(clock::wall_micros());
            progress.holder = Some(holder.note.as_str().to_owned());
            progress.held_for = since.map(|since| now.saturating_sub(since));
            progress.holders = lock.holders.len();
            progress.permits = holder.permits;
        }
        let index = lock.waiters.iter().position(|waiter| waiter.note == *own_note);
        progress.position = index.map(|index| (index + 1, lock.waiters.len()));
        progress
    }

    /// Waits, not for long, until the claim has left the queue. The dropped attempt withdraws it in the
    /// background.
    pub(crate) async fn withdrawn(&self) {
        if let Some((client, _)) = &self.client {
            let _ = tokio::time::timeout(WITHDRAW_LIMIT, client.close()).await;
        }
    }

    fn write_terminal_line(&mut self, progress: &WaitProgress<'_>) {
        self.has_terminal_line = true;
        let width = terminal_size::terminal_size_of(io::stderr()).map(|(width, _)| usize::from(width.0));
        let text = sanitize(&progress.terminal_line(width));
        // Without automatic wrapping the terminal itself truncates a long line, and one line stays one line.
        let _ = write!(io::stderr(), "\r\x1b[?7l{text}\x1b[K\x1b[?7h");
    }

    /// Removes the line from the terminal.
    pub(crate) fn clear(&mut self) {
        if std::mem::take(&mut self.has_terminal_line) {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Failure;

    /// A reporter off a terminal whose last line, a while ago, reported an unreachable server.
    fn after_an_outage() -> (WaitReporter, Moment) {
        let now = Clock::boottime().now();
        let mut reporter = WaitReporter::new("x", Output { format: Format::Text, is_quiet: false });
        reporter.form = Form::Log;
        reporter.updates.connection_failed(&Failure::unreachable("redis at h:1: Connection refused"), now);
        reporter.last_report = Some((reporter.updates.latest(), now.before(UNCHANGED_INTERVAL)));
        (reporter, now)
    }

    #[tokio::test]
    async fn the_end_of_an_outage_is_reported_with_the_servers_reply_and_not_with_the_connection() {
        let client = latchwork::connect("memory:").await.unwrap();
        let (mut reporter, now) = after_an_outage();
        reporter.connected(&client, "me");
        let due = reporter.due(&reporter.updates.latest());
        assert!(due >= now.after(UNANSWERED_DELAY), "no report yet");
        let answered = WaitState { is_answered: true, ..WaitState::default() };
        assert!(reporter.due(&answered) <= now, "at once");
        assert!(after_an_outage().0.due(&answered) <= now, "as in a wait that has connected before");
    }

    #[test]
    fn a_line_is_due_every_minute_and_sooner_after_a_change() {
        let (mut reporter, now) = after_an_outage();
        let held = |holder: &str, position| {
            let (holder, position) = (Some(Note::new(holder)), Some(position));
            WaitState { is_answered: true, holder, position, ..WaitState::default() }
        };
        reporter.last_report = Some((held("one", 2), now));
        let mut quarantine = held("one", 2);
        quarantine.quarantine = Some((now.after(UNCHANGED_INTERVAL), "it restarted".to_owned()));
        for (state, after) in
            [(held("one", 2), 60), (held("two", 2), 10), (held("one", 1), 10), (quarantine.clone(), 1)]
        {
            assert_eq!(reporter.due(&state).since(now), Duration::from_secs(after), "{after}");
        }
        reporter.last_report = Some((quarantine.clone(), now));
        assert_eq!(reporter.due(&quarantine).since(now), Duration::from_secs(60));
        assert_eq!(reporter.due(&held("one", 2)).since(now), Duration::from_secs(1), "its end is a change");
    }
}
