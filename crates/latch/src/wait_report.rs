//! Reports a wait on stderr: lines in a log, or one line that refreshes itself on a terminal.

use std::io::{self, IsTerminal, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use latchwork::clock::{self, Clock, Moment};
use latchwork::engine::{Filter, LockState, Note};
use latchwork::{Client, LockName, Waiting};
use tokio::sync::Notify;

use crate::failure::Failure;
use crate::output::{Format, Output};
use crate::sanitize::sanitize;
use crate::wait_view::{Outage, Quarantine, WaitView};

/// Most waits are shorter than this, and are not reported.
const FIRST_AFTER: Duration = Duration::from_millis(200);
/// A request for a free lock may take this long before it counts as a wait.
const UNANSWERED_AFTER: Duration = Duration::from_secs(2);
/// The interval between lines without a change.
const LINE_EVERY: Duration = Duration::from_secs(60);
/// The shortest interval between lines about new holders and places in the queue: a busy lock has many in a second.
const TURN_EVERY: Duration = Duration::from_secs(10);
/// The shortest interval between lines about outages and quarantines.
const FAULT_EVERY: Duration = Duration::from_secs(1);
/// The interval between updates of the line on a terminal.
const REFRESH_EVERY: Duration = Duration::from_secs(1);
/// The time limit for a look at the lock.
const LOOK_LIMIT: Duration = Duration::from_secs(1);
/// The time limit for leaving the queue.
const WITHDRAWS_WITHIN: Duration = Duration::from_secs(1);

/// The news of a wait: written by the library's callback, read by the report.
#[derive(Default)]
pub(crate) struct News {
    known: Mutex<Known>,
    changed: Notify,
}

/// The newest state of the wait.
#[derive(Clone, Default)]
struct Known {
    /// Whether an answer or an error has arrived.
    is_answered: bool,
    holder: Option<Note>,
    position: Option<u32>,
    outage: Option<Failing>,
    quarantine: Option<(Moment, String)>,
}

#[derive(Clone)]
struct Failing {
    since: Moment,
    kind: &'static str,
    message: String,
}

impl Known {
    fn is_faulty(&self) -> bool {
        self.outage.is_some() || self.quarantine.is_some()
    }

    fn has_same_faults(&self, other: &Self) -> bool {
        (self.outage.is_some(), self.quarantine.is_some())
            == (other.outage.is_some(), other.quarantine.is_some())
    }
}

impl News {
    /// The engine answered, or did not.
    pub(crate) fn hear(&self, state: &Waiting) {
        let now = Clock::boottime().now();
        self.replace(Known {
            is_answered: true,
            holder: state.holder.clone(),
            position: state.position,
            outage: state.outage.as_ref().map(|outage| Failing {
                since: now.before(outage.lasts),
                kind: Failure::label(outage.kind),
                message: outage.message.clone(),
            }),
            quarantine: state.quarantine.as_ref().map(|one| (now.after(one.left), one.why.clone())),
        });
    }

    /// There is no connection, since then.
    pub(crate) fn no_connection(&self, failure: &Failure, since: Moment) {
        let (kind, message) = (failure.kind(), failure.message().unwrap_or_default().to_owned());
        self.replace(Known {
            is_answered: true,
            outage: Some(Failing { since, kind, message }),
            ..Known::default()
        });
    }

    fn replace(&self, known: Known) {
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = known;
        self.changed.notify_one();
    }

    fn known(&self) -> Known {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The form of the report.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// One line that refreshes itself.
    Terminal,
    /// A line, or an object, per change.
    Log,
    Nothing,
}

/// The report of one wait, from the first connection to the grant.
pub(crate) struct WaitReport {
    name: Option<LockName>,
    output: Output,
    form: Form,
    /// The client, and the note by which its claim is recognized in the queue. `None` before the first connection.
    client: Option<(Client, Note)>,
    /// When the first connection succeeded.
    connected_at: Option<Moment>,
    news: Arc<News>,
    began: Moment,
    /// The newest report, and its time.
    said: Option<(Known, Moment)>,
    is_shown: bool,
}

impl WaitReport {
    pub(crate) fn new(name: &str, output: Output) -> Self {
        let form = match output.format {
            _ if output.is_quiet => Form::Nothing,
            Format::Text if io::stderr().is_terminal() => Form::Terminal,
            _ => Form::Log,
        };
        Self {
            name: LockName::new(name).ok(),
            output,
            form,
            client: None,
            connected_at: None,
            news: Arc::default(),
            began: Clock::boottime().now(),
            said: None,
            is_shown: false,
        }
    }

    pub(crate) fn news(&self) -> Arc<News> {
        self.news.clone()
    }

    /// When the wait began.
    pub(crate) fn began(&self) -> Moment {
        self.began
    }

    /// From now on the lock is looked at through this client, whose whole note is `text`.
    pub(crate) fn connected(&mut self, client: &Client, text: &str) {
        self.client = Some((client.clone(), Note::new(text)));
        self.connected_at = Some(Clock::boottime().now());
        // The outage of the first connection is over.
        self.news.replace(Known::default());
    }

    /// The lock is held. Reported if the wait was.
    pub(crate) fn granted(&mut self) {
        let (Some(_), Some(name)) = (&self.said, &self.name) else { return };
        let waited = Clock::boottime().now().since(self.began);
        self.output.granted(name, waited);
    }

    /// Waits until there is something to report, and reports it. May be dropped at any time.
    pub(crate) async fn refresh(&mut self) {
        let Some(name) = self.name.clone().filter(|_| self.form != Form::Nothing) else {
            return std::future::pending().await;
        };
        let clock = Clock::boottime();
        loop {
            let due = self.due(&self.news.known());
            if clock.now() >= due {
                break;
            }
            tokio::select! {
                () = clock.sleep_until(due) => {}
                () = self.news.changed.notified() => {}
            }
        }
        let state = self.look(&name).await;
        let known = self.news.known();
        let now = clock.now();
        let view = self.view(&name, &known, state.as_ref(), now);
        self.said = Some((known, now));
        match self.form {
            Form::Terminal => self.write(&view),
            _ => self.output.waiting(&view),
        }
    }

    /// When the next line is due.
    fn due(&self, known: &Known) -> Moment {
        let Some((said, at)) = &self.said else {
            let delay = if known.is_answered { FIRST_AFTER } else { UNANSWERED_AFTER };
            return self.began.after(delay);
        };
        if self.form == Form::Terminal {
            return at.after(REFRESH_EVERY);
        }
        // The first connection is no answer: the lock may be free, or the server may grant nothing yet.
        if let Some(connected_at) = self.connected_at.filter(|_| !known.is_answered) {
            return connected_at.after(UNANSWERED_AFTER).max(at.after(FAULT_EVERY));
        }
        let after = match known {
            _ if !known.has_same_faults(said) => FAULT_EVERY,
            known if known.is_faulty() => LINE_EVERY,
            known if (&known.holder, known.position) != (&said.holder, said.position) => TURN_EVERY,
            _ => LINE_EVERY,
        };
        at.after(after)
    }

    /// The lock, as the engine sees it. Not asked while it has other troubles.
    async fn look(&self, name: &LockName) -> Option<LockState> {
        let (client, _) = self.client.as_ref().filter(|_| !self.news.known().is_faulty())?;
        let filter = Filter::Name(name.clone());
        tokio::time::timeout(LOOK_LIMIT, client.inspect(&filter)).await.ok()?.ok()?.pop()
    }

    fn view<'a>(
        &self,
        name: &'a LockName,
        known: &Known,
        state: Option<&LockState>,
        now: Moment,
    ) -> WaitView<'a> {
        let mut view = WaitView::new(name, now.since(self.began));
        view.is_answered = known.is_answered;
        view.is_first = self.said.is_none();
        view.is_recovered =
            self.said.as_ref().is_some_and(|(said, _)| said.is_faulty()) && !known.is_faulty();
        view.outage = known.outage.as_ref().map(|failing| Outage {
            lasts: now.since(failing.since),
            kind: failing.kind,
            message: failing.message.clone(),
        });
        view.quarantine = known
            .quarantine
            .as_ref()
            .map(|(until, why)| Quarantine { left: until.since(now), why: why.clone() });
        if known.is_faulty() {
            return view;
        }
        view.holder = known.holder.as_ref().map(|note| note.as_str().to_owned());
        view.ahead = known.position;
        let (Some(state), Some((_, mine))) = (state, &self.client) else { return view };
        if let Some(holder) = state.holders.first() {
            let since = holder.since.and_then(|since| since.duration_since(std::time::UNIX_EPOCH).ok());
            let now = Duration::from_micros(clock::wall_micros());
            view.holder = Some(holder.note.as_str().to_owned());
            view.held_for = since.map(|since| now.saturating_sub(since));
            view.holders = state.holders.len();
            view.permits = holder.permits;
        }
        let place = state.waiters.iter().position(|waiter| waiter.note == *mine);
        view.place = place.map(|place| (place + 1, state.waiters.len()));
        view
    }

    /// Waits, not for long, until the place in the queue is given up. The dropped attempt does that in the
    /// background.
    pub(crate) async fn withdrawn(&self) {
        if let Some((client, _)) = &self.client {
            let _ = tokio::time::timeout(WITHDRAWS_WITHIN, client.close()).await;
        }
    }

    fn write(&mut self, view: &WaitView<'_>) {
        self.is_shown = true;
        let width = terminal_size::terminal_size_of(io::stderr()).map(|(width, _)| usize::from(width.0));
        let text = sanitize(&view.fitted(width));
        // Without automatic wrapping, the terminal itself cuts what is too long, and one line stays one line.
        let _ = write!(io::stderr(), "\r\x1b[?7l{text}\x1b[K\x1b[?7h");
    }

    /// Removes the line from the terminal.
    pub(crate) fn clear(&mut self) {
        if std::mem::take(&mut self.is_shown) {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A report off a terminal whose last line told of a server that could not be reached, a while ago.
    fn after_an_outage() -> (WaitReport, Moment) {
        let now = Clock::boottime().now();
        let mut report = WaitReport::new("x", Output { format: Format::Text, is_quiet: false });
        report.form = Form::Log;
        report.news.no_connection(&Failure::unreachable("redis at h:1: Connection refused"), now);
        report.said = Some((report.news.known(), now.before(LINE_EVERY)));
        (report, now)
    }

    #[tokio::test]
    async fn the_end_of_an_outage_is_reported_with_the_servers_answer_and_not_with_the_connection() {
        let client = latchwork::connect("memory:").await.unwrap();
        let (mut report, now) = after_an_outage();
        report.connected(&client, "me");
        assert!(report.due(&report.news.known()) >= now.after(UNANSWERED_AFTER), "it says nothing yet");
        let answered = Known { is_answered: true, ..Known::default() };
        assert!(report.due(&answered) <= now, "at once");
        assert!(after_an_outage().0.due(&answered) <= now, "as in a wait that has connected before");
    }

    #[test]
    fn a_line_comes_every_minute_and_sooner_for_what_changed() {
        let (mut report, now) = after_an_outage();
        let held = |holder: &str, position| {
            let (holder, position) = (Some(Note::new(holder)), Some(position));
            Known { is_answered: true, holder, position, ..Known::default() }
        };
        report.said = Some((held("one", 2), now));
        let mut quarantine = held("one", 2);
        quarantine.quarantine = Some((now.after(LINE_EVERY), "it restarted".to_owned()));
        for (known, after) in
            [(held("one", 2), 60), (held("two", 2), 10), (held("one", 1), 10), (quarantine.clone(), 1)]
        {
            assert_eq!(report.due(&known).since(now), Duration::from_secs(after), "{after}");
        }
        report.said = Some((quarantine.clone(), now));
        assert_eq!(report.due(&quarantine).since(now), Duration::from_secs(60));
        assert_eq!(report.due(&held("one", 2)).since(now), Duration::from_secs(1), "its end is news");
    }
}
