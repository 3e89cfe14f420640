//! One connection: requests of many tasks, and what their answers mean.

use tokio::io::{AsyncRead, AsyncWrite};

use super::greeting::Greeting;
use super::wire::{self, Reply, Requests};
use crate::engine::ClaimId;
use crate::net::abandon::AbandonGuard;
use crate::net::per_runtime::Closable;
use crate::net::pipeline::{Codec, PendingReply, Pipeline};
use crate::{Effect, Error, ErrorKind, Result};

/// Why a connection is left that stays silent.
const LATE: &str = "no answer in time";

/// A connection to one server. It never comes back to life: whoever finds it closed opens another.
pub(super) struct Connection {
    /// The life of the server at its other end: CAS ids mean something in that life only.
    pub(super) life: ClaimId,
    /// Whether the server evicts when it is out of memory, instead of refusing.
    pub(super) evicts: bool,
    place: String,
    pipeline: Pipeline<Meta>,
}

/// memcached's meta protocol: nothing is said that nobody asked for.
struct Meta;

impl Codec for Meta {
    type Reply = Reply;
    /// A reply is one short line, and what that says is the length of the rest.
    type ParseProgress = ();

    const MAX_REPLY: usize = wire::LONGEST_REPLY;

    fn decode(&self, bytes: &[u8], (): &mut ()) -> std::result::Result<Option<(Reply, usize)>, String> {
        wire::read(bytes).map_err(|wire::ProtocolError(why)| why)
    }

    fn take_push(&self, reply: Reply) -> Option<Reply> {
        Some(reply)
    }

    fn on_retired(&self) {}
}

impl Closable for Connection {
    fn is_closed(&self) -> bool {
        self.pipeline.is_retired()
    }
}

impl Connection {
    /// Over a stream on which nothing is under way, by its halves.
    pub(super) fn over<R, W>(halves: (R, W), greeting: &Greeting, place: &str) -> Self
    where
        R: AsyncRead + Unpin + Send + 'static,
        W: AsyncWrite + Send + 'static,
    {
        let pipeline = Pipeline::over(Meta, halves);
        Self { life: greeting.life, evicts: greeting.evicts, place: place.to_owned(), pipeline }
    }

    /// Asks for one thing.
    ///
    /// # Errors
    /// As [`Connection::ask_all`].
    pub(super) async fn ask(&self, requests: Requests) -> Result<Reply> {
        let answer = self.pipeline.send(&requests.bytes).ok_or_else(|| self.not_sent())?;
        let guard = AbandonGuard::retire(|| self.pipeline.close(LATE));
        let reply = self.reply(answer).await;
        guard.answered();
        reply
    }

    /// Asks for several things in one round trip. There are as many replies as requests.
    ///
    /// # Errors
    /// [`ErrorKind::Unreachable`] if the connection ends before all are answered. Dropped, it closes the connection: the
    /// core waited long enough, and it may be cut off without a word.
    pub(super) async fn ask_all(&self, requests: Requests) -> Result<Vec<Reply>> {
        let answers =
            self.pipeline.send_all(&requests.bytes, requests.count).ok_or_else(|| self.not_sent())?;
        let guard = AbandonGuard::retire(|| self.pipeline.close(LATE));
        let mut replies = Ok(Vec::with_capacity(requests.count));
        for answer in answers {
            match (self.reply(answer).await, &mut replies) {
                (Ok(reply), Ok(replies)) => replies.push(reply),
                (Err(error), _) => replies = Err(error),
                (Ok(_), Err(_)) => {}
            }
        }
        guard.answered();
        replies
    }

    /// [`Connection::ask`] for callers that may cancel at any time.
    pub(super) async fn glance(&self, requests: Requests) -> Result<Reply> {
        let answer = self.pipeline.send(&requests.bytes).ok_or_else(|| self.not_sent())?;
        let guard = AbandonGuard::retire_if_slow(|| self.pipeline.close(LATE));
        let reply = self.reply(answer).await;
        guard.answered();
        reply
    }

    async fn reply(&self, answer: PendingReply<Reply>) -> Result<Reply> {
        answer.await.map_err(|_| self.broken(&self.pipeline.reason()))
    }

    /// A reply that is none to what was asked: the server refuses, or speaks of something else.
    pub(super) fn protocol_error(&self, reply: &Reply) -> Error {
        if let Reply::Refused(why) = reply {
            return self.broken(why).with_effect(effect(why));
        }
        let why = format!("a reply to something else: {}", wire::shown(&format!("{reply:?}")));
        self.pipeline.close(&why);
        self.broken(&why)
    }

    fn not_sent(&self) -> Error {
        self.broken(&self.pipeline.reason()).with_effect(Effect::None)
    }

    fn broken(&self, why: &str) -> Error {
        let message = format!("memcached at {}: {why}", self.place);
        Error::new(ErrorKind::Unreachable, message).with_effect(Effect::Unknown)
    }
}

/// Of a SERVER_ERROR: memcached's own words for what it did not store, or the words of a proxy whose server may
/// have stored it.
fn effect(why: &str) -> Effect {
    match ["out of memory", "object too large"].iter().any(|words| why.starts_with(words)) {
        true => Effect::None,
        false => Effect::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_memcached_itself_says_that_nothing_was_stored() {
        for why in ["out of memory storing object", "object too large for cache"] {
            assert_eq!(effect(why), Effect::None, "{why}");
        }
        for why in ["backend failure", "Connection timed out", "proxy: backend out of memory", ""] {
            assert_eq!(effect(why), Effect::Unknown, "{why}");
        }
    }
}
