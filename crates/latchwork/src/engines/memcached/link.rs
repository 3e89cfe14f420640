//! One connection: requests of many tasks, and what their answers mean.

use tokio::io::{AsyncRead, AsyncWrite};

use super::greeting::Greeting;
use super::wire::{self, Reply, Requests};
use crate::engine::ClaimId;
use crate::engines::lane::{Answer, Lane, Protocol};
use crate::engines::links::Connection;
use crate::engines::unheard;
use crate::{Effect, Error, ErrorKind, Result};

/// Why a connection is left that stays silent.
const LATE: &str = "no answer in time";

/// A connection to one server. It never comes back to life: whoever finds it closed opens another.
pub(super) struct Link {
    /// The life of the server at its other end: CAS ids mean something in that life only.
    pub(super) life: ClaimId,
    /// Whether the server evicts when it is out of memory, instead of refusing.
    pub(super) evicts: bool,
    place: String,
    lane: Lane<Meta>,
}

/// memcached's meta protocol: nothing is said that nobody asked for.
struct Meta;

impl Protocol for Meta {
    type Reply = Reply;
    /// A reply is one short line, and what that says is the length of the rest.
    type Begun = ();

    const LONGEST: usize = wire::LONGEST_REPLY;

    fn read(&self, bytes: &[u8], (): &mut ()) -> std::result::Result<Option<(Reply, usize)>, String> {
        wire::read(bytes).map_err(|wire::Strange(why)| why)
    }

    fn hear(&self, reply: Reply) -> Option<Reply> {
        Some(reply)
    }

    fn ended(&self) {}
}

impl Connection for Link {
    fn is_closed(&self) -> bool {
        self.lane.is_retired()
    }
}

impl Link {
    /// Over a stream on which nothing is under way, by its halves.
    pub(super) fn over<R, W>(halves: (R, W), greeting: &Greeting, place: &str) -> Self
    where
        R: AsyncRead + Unpin + Send + 'static,
        W: AsyncWrite + Send + 'static,
    {
        let lane = Lane::over(Meta, halves);
        Self { life: greeting.life, evicts: greeting.evicts, place: place.to_owned(), lane }
    }

    /// Asks for one thing.
    ///
    /// # Errors
    /// As [`Link::ask_all`].
    pub(super) async fn ask(&self, requests: Requests) -> Result<Reply> {
        let answer = self.lane.send(&requests.bytes).ok_or_else(|| self.not_sent())?;
        let unheard = Unheard(&self.lane);
        let reply = self.reply(answer).await;
        std::mem::forget(unheard);
        reply
    }

    /// Asks for several things in one round trip. There are as many replies as requests.
    ///
    /// # Errors
    /// [`ErrorKind::Unreachable`] if the connection ends before all are answered. Dropped, it closes the connection: the
    /// core waited long enough, and it may be cut off without a word.
    pub(super) async fn ask_all(&self, requests: Requests) -> Result<Vec<Reply>> {
        let answers = self.lane.send_all(&requests.bytes, requests.count).ok_or_else(|| self.not_sent())?;
        let unheard = Unheard(&self.lane);
        let mut replies = Ok(Vec::with_capacity(requests.count));
        for answer in answers {
            match (self.reply(answer).await, &mut replies) {
                (Ok(reply), Ok(replies)) => replies.push(reply),
                (Err(error), _) => replies = Err(error),
                (Ok(_), Err(_)) => {}
            }
        }
        std::mem::forget(unheard);
        replies
    }

    /// The same for one who only looks, and may stop at any time, which says nothing of the connection. But who has waited for long
    /// may be the only one who uses it, and must leave it when nobody answers.
    pub(super) async fn glance(&self, requests: Requests) -> Result<Reply> {
        let answer = self.lane.send(&requests.bytes).ok_or_else(|| self.not_sent())?;
        let unheard = unheard::Unheard::of(|| self.lane.close(LATE));
        let reply = self.reply(answer).await;
        unheard.heard();
        reply
    }

    async fn reply(&self, answer: Answer<Reply>) -> Result<Reply> {
        answer.await.map_err(|_| self.broken(&self.lane.why()))
    }

    /// A reply that is none to what was asked: the server refuses, or speaks of something else.
    pub(super) fn strange(&self, reply: &Reply) -> Error {
        if let Reply::Refused(why) = reply {
            return self.broken(why).with_effect(effect(why));
        }
        let why = format!("a reply to something else: {}", wire::shown(&format!("{reply:?}")));
        self.lane.close(&why);
        self.broken(&why)
    }

    fn not_sent(&self) -> Error {
        self.broken(&self.lane.why()).with_effect(Effect::None)
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

/// A request that was dropped before its answer came.
struct Unheard<'a>(&'a Lane<Meta>);

impl Drop for Unheard<'_> {
    fn drop(&mut self) {
        self.0.close(LATE);
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
