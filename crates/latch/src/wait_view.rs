//! The state of a wait, as `latch` shows it.

use std::time::Duration;

use latchwork::{LockName, clock};

use crate::duration::rounded;
use crate::layout;
use crate::sanitize::sanitize;

/// The state of a wait for one lock.
pub(crate) struct WaitView<'a> {
    pub(crate) lock: &'a LockName,
    pub(crate) waited: Duration,
    /// Whether this is the first report of the wait.
    pub(crate) is_first: bool,
    /// Whether the report before told of an outage or a quarantine that is over.
    pub(crate) is_recovered: bool,
    /// Whether anything was heard of the server yet.
    pub(crate) is_answered: bool,
    pub(crate) holder: Option<String>,
    pub(crate) held_for: Option<Duration>,
    /// How many hold it.
    pub(crate) holders: usize,
    /// How many may hold it at once, if they have permits.
    pub(crate) permits: Option<u32>,
    /// How many claims are ahead, the holders included.
    pub(crate) ahead: Option<u32>,
    /// The place in the queue, from 1, and its length.
    pub(crate) place: Option<(usize, usize)>,
    pub(crate) outage: Option<Outage>,
    pub(crate) quarantine: Option<Quarantine>,
}

/// Requests fail.
pub(crate) struct Outage {
    pub(crate) lasts: Duration,
    pub(crate) kind: &'static str,
    pub(crate) message: String,
}

/// The server grants no locks after its restart.
pub(crate) struct Quarantine {
    pub(crate) left: Duration,
    pub(crate) why: String,
}

impl Quarantine {
    /// The end of the quarantine, on the wall clock.
    pub(crate) fn until(&self) -> String {
        let until = Duration::from_micros(clock::wall_micros()) + self.left;
        humantime::format_rfc3339_seconds(std::time::UNIX_EPOCH + until).to_string()
    }
}

/// A name is not cut to less than this, and a holder neither.
const LEAST: usize = 16;

impl<'a> WaitView<'a> {
    pub(crate) fn new(lock: &'a LockName, waited: Duration) -> Self {
        Self {
            lock,
            waited,
            is_first: true,
            is_recovered: false,
            is_answered: true,
            holder: None,
            held_for: None,
            holders: 0,
            permits: None,
            ahead: None,
            place: None,
            outage: None,
            quarantine: None,
        }
    }

    /// The line of a log, without its `latch: `.
    pub(crate) fn line(&self) -> String {
        let name = self.lock;
        let why = self.why(self.holder.as_deref());
        let back = match (self.is_recovered, self.is_answered) {
            (true, true) => "the server grants locks again; ",
            (true, false) => "the connection is open; ",
            (false, _) => "",
        };
        match self.is_first {
            true => format!("waiting for {name:?}: {why}"),
            false => format!("waiting for {name:?} for {}: {back}{why}", rounded(self.waited)),
        }
    }

    /// The line of a terminal that is this wide: the name is cut first, then words, then the holder, then the
    /// place.
    pub(crate) fn fitted(&self, width: Option<usize>) -> String {
        let width = width.unwrap_or(usize::MAX);
        let name = sanitize(&format!("{:?}", self.lock));
        let holder = self.holder.as_deref().map(sanitize);
        let excess = |text: &str| text.chars().count().saturating_sub(width);
        let line =
            |name: &str, why: String| format!("latch: waiting {} for {name}: {why}", rounded(self.waited));
        let full = |name: &str| line(name, self.why(holder.as_deref()));
        let whole = full(&name);
        if excess(&whole) == 0 {
            return whole;
        }
        let shorter = cut(name.clone(), excess(&whole));
        let text = full(&shorter);
        let Some(holder) = holder.as_deref().filter(|_| excess(&text) > 0) else { return text };
        let brief = |with_place: bool| {
            let shorter = cut(name.clone(), excess(&line(&name, self.held_briefly(holder, with_place))));
            let cut_holder =
                without_end(holder, excess(&line(&shorter, self.held_briefly(holder, with_place))));
            line(&shorter, self.held_briefly(&cut_holder, with_place))
        };
        let text = brief(true);
        if excess(&text) == 0 { text } else { brief(false) }
    }

    /// The holder in fewer words.
    fn held_briefly(&self, holder: &str, with_place: bool) -> String {
        let long = self.held_for.map_or_else(String::new, |long| format!(" {}", rounded(long)));
        let place = self.place.filter(|_| with_place);
        let place = place.map_or_else(String::new, |(place, of)| format!(" ({place} of {of})"));
        format!("held{long} by {holder}{place}")
    }

    /// What the wait is for.
    fn why(&self, holder: Option<&str>) -> String {
        if let Some(outage) = &self.outage {
            let lasts = match outage.lasts.as_secs() {
                0 => String::new(),
                _ => format!(" for {}", rounded(outage.lasts)),
            };
            return format!("failing{lasts}, trying again: {}", outage.message);
        }
        if let Some(quarantine) = &self.quarantine {
            let (until, left) = (quarantine.until(), rounded(quarantine.left));
            return format!("no lock is granted until {until} ({left} left): {}", quarantine.why);
        }
        if !self.is_answered {
            return "the engine has not answered yet".to_owned();
        }
        let long = self.held_for.map_or_else(String::new, |long| format!(" for {}", rounded(long)));
        let more = if self.holders > 1 { format!(" and {} more", self.holders - 1) } else { String::new() };
        let permits = self.permits.map(|of| format!("{} of {of} permits ", self.holders)).unwrap_or_default();
        let held = match holder.filter(|holder| !holder.is_empty()) {
            Some(holder) => format!("{permits}held{long} by {holder}{more}"),
            None => format!("{permits}held{long}"),
        };
        match (self.place, self.ahead) {
            (Some((place, of)), _) => format!("number {place} of {of} in the queue; {held}"),
            (None, Some(ahead)) if ahead > 0 => format!("{ahead} ahead in the queue; {held}"),
            _ => held,
        }
    }
}

/// The text without `excess` characters in its middle, as far as it is long enough.
fn cut(text: String, excess: usize) -> String {
    let length = text.chars().count();
    layout::shortened(text, length.saturating_sub(excess).max(LEAST))
}

/// The text without `excess` characters at its end, as far as it is long enough: a holder begins with who it is.
fn without_end(text: &str, excess: usize) -> String {
    let room = text.chars().count().saturating_sub(excess).max(LEAST);
    match text.chars().nth(room) {
        Some(_) => text.chars().take(room - 1).chain(['…']).collect(),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view<'a>(name: &'a LockName, holder: &str) -> WaitView<'a> {
        let mut view = WaitView::new(name, Duration::from_secs(12));
        view.holder = Some(holder.to_owned());
        view.held_for = Some(Duration::from_secs(125));
        view.place = Some((1, 3));
        view
    }

    #[test]
    fn a_server_that_has_not_answered_since_an_outage_is_not_said_to_grant_locks() {
        let name = LockName::new("x").unwrap();
        let mut view = WaitView::new(&name, Duration::from_secs(5));
        (view.is_first, view.is_recovered, view.is_answered) = (false, true, false);
        let line = "waiting for \"x\" for 5s: the connection is open; the engine has not answered yet";
        assert_eq!(view.line(), line);
        view.is_answered = true;
        assert!(view.line().contains(": the server grants locks again; held"), "{}", view.line());
    }

    #[test]
    fn on_a_narrow_terminal_the_name_is_cut_and_the_holder_stays() {
        let name = LockName::new("orders/eu-central/warehouse-7/line-42/position-12345").unwrap();
        let view = view(&name, "pid 4242 on web1");
        let text = view.fitted(Some(100));
        assert_eq!(text.chars().count(), 100, "{text}");
        assert!(text.contains("\"orders") && text.contains("…") && text.contains("12345\""), "{text}");
        assert!(text.ends_with("\": held 2m 5s by pid 4242 on web1 (1 of 3)"), "{text}");
        assert!(view.fitted(None).contains(&format!("{name:?}")));
    }

    #[test]
    fn eighty_columns_have_room_for_a_name_and_a_holder() {
        let name = LockName::new("orders/eu-central-1/warehouse-17/aisle-4/line-42").unwrap();
        let text = view(&name, "pid 20745 on web1: ./report.sh").fitted(Some(80));
        assert_eq!(text.chars().count(), 80, "{text}");
        assert!(text.contains("\"orders/…") && text.contains("held 2m 5s by pid 20745 on"), "{text}");
        assert!(text.ends_with("(1 of 3)"), "{text}");
    }

    #[test]
    fn where_all_is_cut_the_place_goes_and_the_holder_stays() {
        let name = LockName::new("orders/eu-central-1/warehouse-17/aisle-4/line-42").unwrap();
        let mut view = view(&name, "root@vm reconcile-inventory.sh (pid 22739)");
        (view.waited, view.held_for) = (Duration::from_millis(203), Some(Duration::from_millis(869)));
        let text = view.fitted(Some(80));
        assert!(text.chars().count() <= 80 && text.ends_with('…'), "{text}");
        assert!(text.contains(": held 869ms by root@vm reconcil"), "{text}");
    }

    #[test]
    fn a_holder_that_is_too_long_is_cut_after_the_name() {
        let name = LockName::new("nightly").unwrap();
        let text = view(&name, &format!("pid 4242 on web1: ./report.sh {} --last", "x".repeat(80)))
            .fitted(Some(100));
        assert_eq!(text.chars().count(), 100, "{text}");
        assert!(
            text.contains("\"nightly\"")
                && text.contains("by pid 4242 on web1: ./rep")
                && text.ends_with("x… (1 of 3)"),
            "{text}"
        );
    }
}
