//! Requests that were not written yet.

use std::collections::VecDeque;

use tokio::sync::oneshot::Sender;

/// From so many bytes on it is looked for what was given up, also while nothing can be written.
const MUCH: usize = 64 * 1024;

/// Requests in the order in which they go out. Of the first, some may have been written.
#[derive(Default)]
pub(super) struct Backlog {
    bytes: Vec<u8>,
    requests: VecDeque<Request>,
    /// Twice what was needed when it was last looked for what was given up.
    look_from: usize,
}

/// One request, or several that go together.
#[derive(Clone, Copy)]
struct Request {
    /// How many bytes of it are to be written.
    left: usize,
    /// How many answers it has.
    answers: usize,
    /// Whether some of it was written: then the rest must follow, whoever waits for it.
    is_begun: bool,
}

impl Backlog {
    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Keeps what is left of a request of which so many bytes were written.
    pub(super) fn keep(&mut self, request: &[u8], written: usize, answers: usize) {
        let left = &request[written..];
        if !left.is_empty() {
            self.bytes.extend_from_slice(left);
            self.requests.push_back(Request { left: left.len(), answers, is_begun: written > 0 });
        }
    }

    /// So many bytes were written.
    pub(super) fn wrote(&mut self, written: usize) {
        self.bytes.drain(..written);
        if self.bytes.is_empty() {
            self.requests.clear();
            self.look_from = 0;
            return;
        }
        let mut written = written;
        while let Some(first) = self.requests.front_mut() {
            if written < first.left {
                first.left -= written;
                first.is_begun |= written > 0;
                return;
            }
            written -= first.left;
            self.requests.pop_front();
        }
    }

    /// Lets go of what was given up if there is much more than when that was last done: not for every request, or a
    /// server that hangs would make each cost more than the last.
    pub(super) fn tidy<R>(&mut self, asked: &mut VecDeque<Sender<R>>) {
        if self.bytes.len() >= self.look_from.max(MUCH) {
            self.forget_given_up(asked);
            self.look_from = 2 * self.bytes.len();
        }
    }

    /// Lets go of every request that was not begun and for whose answers nobody waits any more. It must not go out later: the
    /// server would grant what nobody knows of. Whom the answers are for stands at the end of `asked`, in the same order.
    pub(super) fn forget_given_up<R>(&mut self, asked: &mut VecDeque<Sender<R>>) {
        let unbegun = self.requests.iter().filter(|request| !request.is_begun);
        // A server that answers what it was not asked yet may have taken some away.
        let Some(first) = asked.len().checked_sub(unbegun.map(|request| request.answers).sum()) else {
            return;
        };
        // Where the next one is, and where it goes: behind those before it that stay.
        let mut from = Place { request: 0, byte: 0, asked: first };
        let mut to = from;
        while let Some(&request) = self.requests.get(from.request) {
            let answers = if request.is_begun { 0 } else { request.answers };
            let is_given_up =
                !request.is_begun && asked.range(from.asked..from.asked + answers).all(Sender::is_closed);
            if !is_given_up {
                if from.request > to.request {
                    (0..answers).for_each(|at| asked.swap(from.asked + at, to.asked + at));
                    self.bytes.copy_within(from.byte..from.byte + request.left, to.byte);
                    self.requests[to.request] = request;
                }
                to.pass(request.left, answers);
            }
            from.pass(request.left, answers);
        }
        asked.truncate(to.asked);
        self.bytes.truncate(to.byte);
        self.requests.truncate(to.request);
    }
}

/// Where a request begins.
#[derive(Clone, Copy)]
struct Place {
    request: usize,
    byte: usize,
    asked: usize,
}

impl Place {
    fn pass(&mut self, bytes: usize, answers: usize) {
        self.request += 1;
        self.byte += bytes;
        self.asked += answers;
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot::{self, Receiver};

    use super::*;

    /// A backlog with whom its answers are for.
    #[derive(Default)]
    struct Line {
        backlog: Backlog,
        asked: VecDeque<Sender<()>>,
    }

    impl Line {
        fn ask(&mut self, request: &str, written: usize, answers: usize) -> Vec<Receiver<()>> {
            let (asked, answered): (Vec<_>, _) = (0..answers).map(|_| oneshot::channel()).unzip();
            self.asked.extend(asked);
            self.backlog.keep(request.as_bytes(), written, answers);
            answered
        }

        /// What is left without what was given up, and how many answers are waited for.
        fn left(&mut self) -> (String, usize) {
            self.backlog.forget_given_up(&mut self.asked);
            let left = std::str::from_utf8(self.backlog.bytes()).expect("text");
            (left.to_owned(), self.asked.len())
        }

        fn answer(&mut self) {
            self.asked.pop_front().expect("one who asked").send(()).expect("it waits");
        }
    }

    #[test]
    fn what_nobody_waits_for_goes_and_the_others_keep_their_order_and_their_answers() {
        let mut line = Line::default();
        let _written = line.ask("", 0, 1);
        let kept = line.ask("aaa", 0, 1);
        drop(line.ask("bb", 0, 1));
        let together = line.ask("cccc", 0, 2);
        drop(line.ask("d", 0, 3));
        let last = line.ask("ee", 0, 1);
        assert_eq!(line.left(), ("aaaccccee".to_owned(), 5));
        line.answer();
        for mut answered in kept.into_iter().chain(together).chain(last) {
            line.answer();
            assert_eq!(answered.try_recv(), Ok(()));
        }
        assert!(line.asked.is_empty());
    }

    #[test]
    fn what_goes_together_goes_as_long_as_one_waits() {
        let mut line = Line::default();
        let mut together = line.ask("aabb", 0, 2);
        together.pop();
        assert_eq!(line.left(), ("aabb".to_owned(), 2));
        together.pop();
        assert_eq!(line.left(), ("".to_owned(), 0));
    }

    #[test]
    fn what_was_begun_is_ended() {
        let mut line = Line::default();
        drop(line.ask("aaa", 1, 1));
        drop(line.ask("bb", 0, 1));
        let last = line.ask("cc", 0, 1);
        assert_eq!(line.left(), ("aacc".to_owned(), 2));
        line.backlog.wrote(3);
        drop(last);
        assert_eq!(line.left(), ("c".to_owned(), 2));
        line.backlog.wrote(1);
        assert!(line.backlog.is_empty() && line.backlog.requests.is_empty());
    }

    /// The end of one request is not the beginning of the next.
    #[test]
    fn what_follows_a_request_that_was_written_has_not_begun() {
        let mut line = Line::default();
        let _first = line.ask("aa", 0, 1);
        drop(line.ask("bb", 0, 1));
        line.backlog.wrote(2);
        assert_eq!(line.left(), ("".to_owned(), 1));
    }

    #[test]
    fn answers_to_what_was_not_asked_yet_take_nobody_away() {
        let mut line = Line::default();
        let _first = line.ask("aa", 0, 1);
        drop(line.ask("bb", 0, 1));
        line.answer();
        assert_eq!(line.left(), ("aabb".to_owned(), 1));
    }

    #[test]
    fn however_many_are_given_up_it_stays_small_and_the_others_are_not_look_from_each_time() {
        let mut line = Line::default();
        let request = "x".repeat(100);
        let mut most = 0;
        for _ in 0..10_000 {
            drop(line.ask(&request, 0, 1));
            line.backlog.tidy(&mut line.asked);
            most = most.max(line.backlog.bytes.len());
        }
        assert!(most < 2 * MUCH && line.asked.len() <= most / 100, "{most}");
        let waiting: Vec<_> = (0..2_000).map(|_| line.ask(&request, 0, 1)).collect();
        line.backlog.tidy(&mut line.asked);
        let (much, next) = (line.backlog.bytes.len(), line.backlog.look_from);
        assert!(much > MUCH && next == 2 * much, "{next} after {much}");
        drop(waiting);
        line.backlog.wrote(much);
        assert_eq!(line.backlog.look_from, 0);
    }
}
