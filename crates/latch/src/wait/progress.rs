//! The progress of a wait, as `latch` shows it.

use std::time::Duration;

use latchwork::{LockName, clock};

use crate::duration::rounded;
use crate::sanitize::sanitize;
use crate::text_layout::truncate_middle;

/// The progress of a wait for one lock.
pub(crate) struct WaitProgress<'a> {
    pub(crate) lock: &'a LockName,
    pub(crate) waited: Duration,
    /// Whether this is the first report of the wait.
    pub(crate) is_first: bool,
    /// Whether an outage or a quarantine ended since the report before.
    pub(crate) is_recovered: bool,
    /// Whether a reply or an error has arrived from the server.
    pub(crate) is_answered: bool,
    pub(crate) holder: Option<String>,
    pub(crate) held_for: Option<Duration>,
    /// The number of holders.
    pub(crate) holders: usize,
    /// The greatest number of holders, if they have permits.
    pub(crate) permits: Option<u32>,
    /// The number of claims ahead, holders included.
    pub(crate) ahead: Option<u32>,
    /// The position in the queue, from 1, and the length of the queue.
    pub(crate) position: Option<(usize, usize)>,
    pub(crate) outage: Option<Outage>,
    pub(crate) quarantine: Option<Quarantine>,
}

/// A time in which requests fail.
pub(crate) struct Outage {
    pub(crate) lasts: Duration,
    pub(crate) kind: &'static str,
    pub(crate) message: String,
}

/// A time after a restart in which the server grants no locks.
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

/// Names and holders are not truncated to less than this.
const MIN_WIDTH: usize = 16;

impl<'a> WaitProgress<'a> {
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
            position: None,
            outage: None,
            quarantine: None,
        }
    }

    /// A line of a log, without the prefix `latch: `.
    pub(crate) fn log_line(&self) -> String {
        let name = self.lock;
        let why = self.why(self.holder.as_deref());
        let recovery = match (self.is_recovered, self.is_answered) {
            (true, true) => "the server grants locks again; ",
            (true, false) => "the connection is open; ",
            (false, _) => "",
        };
        match self.is_first {
            true => format!("waiting for {name:?}: {why}"),
            false => format!("waiting for {name:?} for {}: {recovery}{why}", rounded(self.waited)),
        }
    }

    /// The line of a terminal that is this wide. The name is truncated first, then words are left out, then
    /// the holder is truncated, then the position is left out.
    pub(crate) fn terminal_line(&self, width: Option<usize>) -> String {
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
        let shorter = without_middle(name.clone(), excess(&whole));
        let text = full(&shorter);
        let Some(holder) = holder.as_deref().filter(|_| excess(&text) > 0) else { return text };
        let brief = |with_position: bool| {
            let shorter =
                without_middle(name.clone(), excess(&line(&name, self.held_briefly(holder, with_position))));
            let shorter_holder =
                without_end(holder, excess(&line(&shorter, self.held_briefly(holder, with_position))));
            line(&shorter, self.held_briefly(&shorter_holder, with_position))
        };
        let text = brief(true);
        if excess(&text) == 0 { text } else { brief(false) }
    }

    /// The holder in fewer words.
    fn held_briefly(&self, holder: &str, with_position: bool) -> String {
        let held_for = self.held_for.map_or_else(String::new, |span| format!(" {}", rounded(span)));
        let position = self.position.filter(|_| with_position);
        let position = position.map_or_else(String::new, |(position, of)| format!(" ({position} of {of})"));
        format!("held{held_for} by {holder}{position}")
    }

    /// The cause of the wait.
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
        let held_for = self.held_for.map_or_else(String::new, |span| format!(" for {}", rounded(span)));
        let more = if self.holders > 1 { format!(" and {} more", self.holders - 1) } else { String::new() };
        let permits = self.permits.map(|of| format!("{} of {of} permits ", self.holders)).unwrap_or_default();
        let held = match holder.filter(|holder| !holder.is_empty()) {
            Some(holder) => format!("{permits}held{held_for} by {holder}{more}"),
            None => format!("{permits}held{held_for}"),
        };
        match (self.position, self.ahead) {
            (Some((position, of)), _) => format!("number {position} of {of} in the queue; {held}"),
            (None, Some(ahead)) if ahead > 0 => format!("{ahead} ahead in the queue; {held}"),
            _ => held,
        }
    }
}

/// Removes `excess` characters from the middle, but keeps [`MIN_WIDTH`].
fn without_middle(text: String, excess: usize) -> String {
    let length = text.chars().count();
    truncate_middle(text, length.saturating_sub(excess).max(MIN_WIDTH))
}

/// Removes `excess` characters from the end, but keeps [`MIN_WIDTH`]. User and host of a holder are at its
/// beginning.
fn without_end(text: &str, excess: usize) -> String {
    let width = text.chars().count().saturating_sub(excess).max(MIN_WIDTH);
    match text.chars().nth(width) {
        Some(_) => text.chars().take(width - 1).chain(['…']).collect(),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress<'a>(name: &'a LockName, holder: &str) -> WaitProgress<'a> {
        let mut progress = WaitProgress::new(name, Duration::from_secs(12));
        progress.holder = Some(holder.to_owned());
        progress.held_for = Some(Duration::from_secs(125));
        progress.position = Some((1, 3));
        progress
    }

    #[test]
    fn a_server_without_a_reply_since_an_outage_is_not_reported_to_grant_locks() {
        let name = LockName::new("x").unwrap();
        let mut progress = WaitProgress::new(&name, Duration::from_secs(5));
        (progress.is_first, progress.is_recovered, progress.is_answered) = (false, true, false);
        let line = "waiting for \"x\" for 5s: the connection is open; the engine has not answered yet";
        assert_eq!(progress.log_line(), line);
        progress.is_answered = true;
        assert!(
            progress.log_line().contains(": the server grants locks again; held"),
            "{}",
            progress.log_line()
        );
    }

    #[test]
    fn on_a_narrow_terminal_the_name_is_truncated_and_the_holder_stays() {
        let name = LockName::new("orders/eu-central/warehouse-7/line-42/position-12345").unwrap();
        let progress = progress(&name, "pid 4242 on web1");
        let text = progress.terminal_line(Some(100));
        assert_eq!(text.chars().count(), 100, "{text}");
        assert!(text.contains("\"orders") && text.contains("…") && text.contains("12345\""), "{text}");
        assert!(text.ends_with("\": held 2m 5s by pid 4242 on web1 (1 of 3)"), "{text}");
        assert!(progress.terminal_line(None).contains(&format!("{name:?}")));
    }

    #[test]
    fn eighty_columns_have_room_for_a_name_and_a_holder() {
        let name = LockName::new("orders/eu-central-1/warehouse-17/aisle-4/line-42").unwrap();
        let text = progress(&name, "pid 20745 on web1: ./report.sh").terminal_line(Some(80));
        assert_eq!(text.chars().count(), 80, "{text}");
        assert!(text.contains("\"orders/…") && text.contains("held 2m 5s by pid 20745 on"), "{text}");
        assert!(text.ends_with("(1 of 3)"), "{text}");
    }

    #[test]
    fn on_a_very_narrow_terminal_the_position_is_left_out_and_the_holder_stays() {
        let name = LockName::new("orders/eu-central-1/warehouse-17/aisle-4/line-42").unwrap();
        let mut progress = progress(&name, "root@vm reconcile-inventory.sh (pid 22739)");
        (progress.waited, progress.held_for) = (Duration::from_millis(203), Some(Duration::from_millis(869)));
        let text = progress.terminal_line(Some(80));
        assert!(text.chars().count() <= 80 && text.ends_with('…'), "{text}");
        assert!(text.contains(": held 869ms by root@vm reconcil"), "{text}");
    }

    #[test]
    fn a_holder_that_is_too_long_is_truncated_after_the_name() {
        let name = LockName::new("nightly").unwrap();
        let text = progress(&name, &format!("pid 4242 on web1: ./report.sh {} --last", "x".repeat(80)))
            .terminal_line(Some(100));
        assert_eq!(text.chars().count(), 100, "{text}");
        assert!(
            text.contains("\"nightly\"")
                && text.contains("by pid 4242 on web1: ./rep")
                && text.ends_with("x… (1 of 3)"),
            "{text}"
        );
    }
}
