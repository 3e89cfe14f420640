//! The switches of a proxy, and the board that holds them.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::watch;

/// The switches and counters.
#[derive(Default)]
pub(super) struct Switches {
    pub(super) delay: Duration,
    /// How long connecting to a server that does not listen is retried.
    pub(super) patience: Duration,
    pub(super) refusing: bool,
    pub(super) holding: bool,
    pub(super) replies_to_lose: u32,
    pub(super) request_to_lose: bool,
    pub(super) needles: Vec<Vec<u8>>,
    pub(super) last_words: Vec<Vec<u8>>,
    /// The text to replace in requests, and its replacement.
    pub(super) replaced: Option<[Vec<u8>; 2]>,
    pub(super) connections: usize,
    pub(super) requests: u64,
    pub(super) lost_replies: u64,
    cuts: u64,
    /// How often all existing connections have been forgotten.
    forgotten: u64,
}

impl Switches {
    /// Cuts every existing connection.
    pub(super) fn cut(&mut self) {
        self.cuts += 1;
    }

    /// Stops forwarding on every existing connection, and closes none.
    pub(super) fn forget(&mut self) {
        self.forgotten += 1;
    }

    /// Takes the order to drop a request, if there is one.
    pub(super) fn loses_request(&mut self) -> bool {
        std::mem::take(&mut self.request_to_lose)
    }

    /// Counts an incoming request, and applies the replacement to it.
    pub(super) fn take_in(&mut self, request: &mut [u8]) {
        self.requests += 1;
        let Some([old, new]) = &self.replaced else { return };
        if let Some(at) = place_of(old, request) {
            request[at..at + new.len()].copy_from_slice(new);
        }
    }

    /// Takes the order to drop the reply to this request, if there is one.
    pub(super) fn loses_reply_to(&mut self, request: &[u8]) -> bool {
        takes(&mut self.needles, request)
    }

    /// Takes the order to drop everything after this request, if there is one.
    pub(super) fn falls_silent_after(&mut self, request: &[u8]) -> bool {
        takes(&mut self.last_words, request)
    }

    /// Takes the order to drop a reply, if there is one; `doomed` if it was ordered for the reply's request.
    pub(super) fn loses_reply(&mut self, doomed: bool) -> bool {
        let ordered = self.replies_to_lose > 0;
        self.replies_to_lose -= u32::from(ordered && !doomed);
        self.lost_replies += u64::from(ordered || doomed);
        ordered || doomed
    }
}

fn place_of(needle: &[u8], bytes: &[u8]) -> Option<usize> {
    bytes.windows(needle.len()).position(|part| part == needle)
}

/// Takes the first of the needles that is in the request, if there is one.
fn takes(needles: &mut Vec<Vec<u8>>, request: &[u8]) -> bool {
    let found = needles.iter().position(|needle| place_of(needle, request).is_some());
    found.map(|at| needles.remove(at)).is_some()
}

/// The switches, and notifications of their changes.
#[derive(Default)]
pub(super) struct Board {
    switches: Mutex<Switches>,
    news: watch::Sender<()>,
}

impl Board {
    pub(super) fn switches(&self) -> MutexGuard<'_, Switches> {
        self.switches.lock().expect("no thread panicked while changing the switches")
    }

    /// Changes the switches. Bytes are written under the same lock, so that the change is effective when this
    /// returns.
    pub(super) fn change(&self, change: impl FnOnce(&mut Switches)) {
        change(&mut self.switches());
        self.news.send_replace(());
    }

    /// A receiver for changes from now on.
    pub(super) fn news(&self) -> watch::Receiver<()> {
        self.news.subscribe()
    }

    /// Waits until the switches satisfy a condition.
    pub(super) async fn until(&self, so: impl Fn(&Switches) -> bool) {
        let mut news = self.news();
        while !so(&self.switches()) {
            news.changed().await.expect("the board is here");
        }
    }

    /// Counts a new connection; `None` if it is refused.
    pub(super) fn enter(board: &Arc<Self>) -> Option<Entry> {
        let mut switches = board.switches();
        if switches.refusing {
            return None;
        }
        switches.connections += 1;
        Some(Entry { board: board.clone(), cuts: switches.cuts, forgotten: switches.forgotten })
    }
}

/// A connection, which is counted until it is dropped.
pub(super) struct Entry {
    board: Arc<Board>,
    cuts: u64,
    forgotten: u64,
}

impl Entry {
    pub(super) fn board(&self) -> &Arc<Board> {
        &self.board
    }

    /// Whether the connection was cut since it began.
    pub(super) fn is_cut(&self, switches: &Switches) -> bool {
        switches.cuts != self.cuts
    }

    /// Whether the connection was forgotten since it began.
    pub(super) fn is_forgotten(&self, switches: &Switches) -> bool {
        switches.forgotten != self.forgotten
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.board.change(|switches| switches.connections -= 1);
    }
}
