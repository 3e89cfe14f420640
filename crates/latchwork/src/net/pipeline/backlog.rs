//! Requests that were not written yet.

use std::collections::VecDeque;

use tokio::sync::oneshot::Sender;

/// From this size on, abandoned requests are removed also while nothing can be written.
const MUCH: usize = 64 * 1024;

/// The caller that waits for the reply to a request, and the data that the codec needs to parse it.
pub(super) struct WaitingRequest<R, E> {
    pub(super) sender: Sender<R>,
    pub(super) expected: E,
}

/// Requests that are sent together.
#[derive(Clone, Copy)]
pub(super) struct Group {
    /// How many replies they have.
    pub(super) replies: usize,
    /// They are sent even if they are abandoned.
    pub(super) is_kept: bool,
}

/// Requests in the order of writing. The first may have been written in part.
#[derive(Default)]
pub(super) struct Backlog {
    bytes: Vec<u8>,
    groups: VecDeque<QueuedGroup>,
    /// Twice the size after abandoned requests were last removed.
    tidy_at: usize,
}

/// A group of which bytes are still to be written.
#[derive(Clone, Copy)]
struct QueuedGroup {
    group: Group,
    /// Bytes that are still to be written.
    left: usize,
    /// Some of it was written. The rest must follow, even if the requests are abandoned.
    is_begun: bool,
}

impl Backlog {
    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Adds the rest of requests of which `written` bytes were written.
    pub(super) fn push(&mut self, requests: &[u8], written: usize, group: Group) {
        let left = &requests[written..];
        if !left.is_empty() {
            self.bytes.extend_from_slice(left);
            self.groups.push_back(QueuedGroup { group, left: left.len(), is_begun: written > 0 });
        }
    }

    /// `written` bytes of the backlog were written.
    pub(super) fn wrote(&mut self, written: usize) {
        self.bytes.drain(..written);
        if self.bytes.is_empty() {
            self.groups.clear();
            self.tidy_at = 0;
            return;
        }
        let mut written = written;
        while let Some(first) = self.groups.front_mut() {
            if written < first.left {
                first.left -= written;
                first.is_begun |= written > 0;
                return;
            }
            written -= first.left;
            self.groups.pop_front();
        }
    }

    /// Removes abandoned requests if the backlog has doubled since the last time. Not for every request: with
    /// a server that hangs, each would cost more than the one before.
    pub(super) fn tidy<R, E>(&mut self, waiting: &mut VecDeque<WaitingRequest<R, E>>) {
        if self.bytes.len() >= self.tidy_at.max(MUCH) {
            self.remove_abandoned(waiting);
            self.tidy_at = 2 * self.bytes.len();
        }
    }

    /// Removes every group that was not begun, is not kept, and whose replies were all dropped. It must not
    /// be written later: the server would grant a lock that nobody knows of. The requests of the backlog are
    /// the last of `waiting`, in the same order.
    pub(super) fn remove_abandoned<R, E>(&mut self, waiting: &mut VecDeque<WaitingRequest<R, E>>) {
        let unbegun = self.groups.iter().filter(|queued| !queued.is_begun);
        // A server that replied before it was waiting has taken some requests away.
        let Some(first) = waiting.len().checked_sub(unbegun.map(|queued| queued.group.replies).sum()) else {
            return;
        };
        // The next group, and its new position behind those that stay.
        let mut from = Position { group: 0, byte: 0, waiting: first };
        let mut to = from;
        while let Some(&queued) = self.groups.get(from.group) {
            let replies = if queued.is_begun { 0 } else { queued.group.replies };
            let is_abandoned = !queued.is_begun
                && !queued.group.is_kept
                && waiting
                    .range(from.waiting..from.waiting + replies)
                    .all(|request| request.sender.is_closed());
            if !is_abandoned {
                if from.group > to.group {
                    (0..replies).for_each(|at| waiting.swap(from.waiting + at, to.waiting + at));
                    self.bytes.copy_within(from.byte..from.byte + queued.left, to.byte);
                    self.groups[to.group] = queued;
                }
                to.pass(queued.left, replies);
            }
            from.pass(queued.left, replies);
        }
        waiting.truncate(to.waiting);
        self.bytes.truncate(to.byte);
        self.groups.truncate(to.group);
    }
}

/// The position of a group.
#[derive(Clone, Copy)]
struct Position {
    group: usize,
    byte: usize,
    waiting: usize,
}

impl Position {
    fn pass(&mut self, bytes: usize, replies: usize) {
        self.group += 1;
        self.byte += bytes;
        self.waiting += replies;
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot::{self, Receiver};

    use super::*;

    /// A backlog with its waiting requests.
    #[derive(Default)]
    struct Sent {
        backlog: Backlog,
        waiting: VecDeque<WaitingRequest<(), ()>>,
    }

    impl Sent {
        fn send(&mut self, request: &str, written: usize, replies: usize) -> Vec<Receiver<()>> {
            self.send_group(request, written, Group { replies, is_kept: false })
        }

        fn send_group(&mut self, request: &str, written: usize, group: Group) -> Vec<Receiver<()>> {
            let (senders, receivers): (Vec<_>, _) = (0..group.replies).map(|_| oneshot::channel()).unzip();
            let waiting = senders.into_iter().map(|sender| WaitingRequest { sender, expected: () });
            self.waiting.extend(waiting);
            self.backlog.push(request.as_bytes(), written, group);
            receivers
        }

        /// The bytes without abandoned requests, and the number of replies that are waited for.
        fn left(&mut self) -> (String, usize) {
            self.backlog.remove_abandoned(&mut self.waiting);
            let left = std::str::from_utf8(self.backlog.bytes()).expect("text");
            (left.to_owned(), self.waiting.len())
        }

        fn answer(&mut self) {
            self.waiting.pop_front().expect("a request").sender.send(()).expect("it waits");
        }
    }

    #[test]
    fn abandoned_requests_are_removed_and_the_others_keep_their_order_and_replies() {
        let mut pipeline = Sent::default();
        let _written = pipeline.send("", 0, 1);
        let kept = pipeline.send("aaa", 0, 1);
        drop(pipeline.send("bb", 0, 1));
        let together = pipeline.send("cccc", 0, 2);
        drop(pipeline.send("d", 0, 3));
        let last = pipeline.send("ee", 0, 1);
        assert_eq!(pipeline.left(), ("aaaccccee".to_owned(), 5));
        pipeline.answer();
        for mut receivers in kept.into_iter().chain(together).chain(last) {
            pipeline.answer();
            assert_eq!(receivers.try_recv(), Ok(()));
        }
        assert!(pipeline.waiting.is_empty());
    }

    #[test]
    fn a_group_stays_as_long_as_one_of_its_replies_is_wanted() {
        let mut pipeline = Sent::default();
        let mut together = pipeline.send("aabb", 0, 2);
        together.pop();
        assert_eq!(pipeline.left(), ("aabb".to_owned(), 2));
        together.pop();
        assert_eq!(pipeline.left(), ("".to_owned(), 0));
    }

    #[test]
    fn kept_requests_stay_between_abandoned_ones() {
        let mut pipeline = Sent::default();
        drop(pipeline.send("aa", 0, 1));
        drop(pipeline.send_group("bbb", 0, Group { replies: 2, is_kept: true }));
        drop(pipeline.send("c", 0, 1));
        drop(pipeline.send_group("last", 0, Group { replies: 0, is_kept: true }));
        assert_eq!(pipeline.left(), ("bbblast".to_owned(), 2));
    }

    #[test]
    fn a_partly_written_request_is_completed() {
        let mut pipeline = Sent::default();
        drop(pipeline.send("aaa", 1, 1));
        drop(pipeline.send("bb", 0, 1));
        let last = pipeline.send("cc", 0, 1);
        assert_eq!(pipeline.left(), ("aacc".to_owned(), 2));
        pipeline.backlog.wrote(3);
        drop(last);
        assert_eq!(pipeline.left(), ("c".to_owned(), 2));
        pipeline.backlog.wrote(1);
        assert!(pipeline.backlog.is_empty() && pipeline.backlog.groups.is_empty());
    }

    /// The end of one request is not the beginning of the next.
    #[test]
    fn a_request_behind_a_written_one_is_not_partly_written() {
        let mut pipeline = Sent::default();
        let _first = pipeline.send("aa", 0, 1);
        drop(pipeline.send("bb", 0, 1));
        pipeline.backlog.wrote(2);
        assert_eq!(pipeline.left(), ("".to_owned(), 1));
    }

    #[test]
    fn early_replies_remove_no_request() {
        let mut pipeline = Sent::default();
        let _first = pipeline.send("aa", 0, 1);
        drop(pipeline.send("bb", 0, 1));
        pipeline.answer();
        assert_eq!(pipeline.left(), ("aabb".to_owned(), 1));
    }

    #[test]
    fn abandoned_requests_are_removed_when_the_backlog_doubles() {
        let mut pipeline = Sent::default();
        let request = "x".repeat(100);
        let mut most = 0;
        for _ in 0..10_000 {
            drop(pipeline.send(&request, 0, 1));
            pipeline.backlog.tidy(&mut pipeline.waiting);
            most = most.max(pipeline.backlog.bytes.len());
        }
        assert!(most < 2 * MUCH && pipeline.waiting.len() <= most / 100, "{most}");
        let waiting: Vec<_> = (0..2_000).map(|_| pipeline.send(&request, 0, 1)).collect();
        pipeline.backlog.tidy(&mut pipeline.waiting);
        let (much, next) = (pipeline.backlog.bytes.len(), pipeline.backlog.tidy_at);
        assert!(much > MUCH && next == 2 * much, "{next} after {much}");
        drop(waiting);
        pipeline.backlog.wrote(much);
        assert_eq!(pipeline.backlog.tidy_at, 0);
    }
}
