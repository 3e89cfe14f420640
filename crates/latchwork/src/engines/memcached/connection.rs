//! One connection: requests of many tasks, and what their replies mean.

use tokio::io::{AsyncRead, AsyncWrite};

use super::server_stats::ServerStats;
use super::wire::{self, Reply, Requests};
use crate::engine::ClaimId;
use crate::net::abandon::AbandonGuard;
use crate::net::per_runtime::Closable;
use crate::net::pipeline::{Codec, PendingReply, Pipeline};
use crate::{Effect, Error, ErrorKind, Result};

/// Why a connection is closed on which a reply is missing.
const TIMED_OUT: &str = "no answer in time";

/// A connection to one server. Once closed it stays closed; its users open another.
pub(super) struct Connection {
    /// The life of the server. CAS ids are valid in that life only.
    pub(super) life: ClaimId,
    /// Whether the server evicts items when it is out of memory, instead of refusing to store.
    pub(super) evicts: bool,
    shown_as: String,
    pipeline: Pipeline<MetaCodec>,
}

/// The meta protocol of memcached. Every message answers a request.
struct MetaCodec;

impl Codec for MetaCodec {
    type Reply = Reply;
    type Expected = ();
    /// Nothing: the short first line of a reply says how long the rest is.
    type ParseProgress = ();

    const MAX_UNREAD: usize = wire::LONGEST_REPLY;

    fn decode(
        &self,
        bytes: &mut &[u8],
        (): &mut (),
        _expected: impl FnOnce() -> Option<()>,
    ) -> std::result::Result<Option<Reply>, String> {
        let read = wire::read(bytes).map_err(|wire::ProtocolError(why)| {
            format!("the server sent a reply that is not memcached's: {why}")
        })?;
        let Some((reply, length)) = read else { return Ok(None) };
        *bytes = &bytes[length..];
        Ok(Some(reply))
    }
}

impl Closable for Connection {
    fn is_closed(&self) -> bool {
        self.pipeline.is_retired()
    }
}

impl Connection {
    /// Over the two halves of a stream with nothing outstanding.
    pub(super) fn over<R, W>(halves: (R, W), stats: &ServerStats, shown_as: &str) -> Self
    where
        R: AsyncRead + Unpin + Send + 'static,
        W: AsyncWrite + Send + 'static,
    {
        let pipeline = Pipeline::over(MetaCodec, halves);
        Self { life: stats.life, evicts: stats.evicts, shown_as: shown_as.to_owned(), pipeline }
    }

    /// Sends one request, and waits for its reply.
    ///
    /// # Errors
    /// As [`Connection::ask_all`].
    pub(super) async fn ask(&self, requests: Requests) -> Result<Reply> {
        let pending = self.pipeline.send(&requests.bytes, ()).ok_or_else(|| self.not_sent())?;
        let guard = AbandonGuard::retire(|| self.pipeline.close(TIMED_OUT));
        let reply = self.reply(pending).await;
        guard.answered();
        reply
    }

    /// Sends several requests in one round trip. There are as many replies as requests. Dropped before the
    /// last reply, it closes the connection: the core has waited long enough, and the connection may be cut
    /// off without a word.
    ///
    /// # Errors
    /// [`ErrorKind::Unreachable`] if the connection ends before all are answered.
    pub(super) async fn ask_all(&self, requests: Requests) -> Result<Vec<Reply>> {
        let answers = self.pipeline.send_all(&requests.bytes, std::iter::repeat_n((), requests.count));
        let answers = answers.ok_or_else(|| self.not_sent())?;
        let guard = AbandonGuard::retire(|| self.pipeline.close(TIMED_OUT));
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
    pub(super) async fn ask_while_wanted(&self, requests: Requests) -> Result<Reply> {
        let pending = self.pipeline.send(&requests.bytes, ()).ok_or_else(|| self.not_sent())?;
        let guard = AbandonGuard::retire_if_slow(|| self.pipeline.close(TIMED_OUT));
        let reply = self.reply(pending).await;
        guard.answered();
        reply
    }

    async fn reply(&self, pending: PendingReply<Reply>) -> Result<Reply> {
        pending.await.map_err(|_| self.ended())
    }

    /// The error for a reply that does not answer the request: the server refuses, or replies to something
    /// else.
    pub(super) fn unexpected_reply(&self, reply: &Reply) -> Error {
        if let Reply::Refused(why) = reply {
            return self.broken(why).with_effect(effect(why));
        }
        let why = format!("a reply to something else: {}", wire::shown(&format!("{reply:?}")));
        self.pipeline.close(&why);
        self.broken(&why)
    }

    fn not_sent(&self) -> Error {
        self.ended().with_effect(Effect::None)
    }

    fn ended(&self) -> Error {
        let error = self.pipeline.reason().error(format_args!("memcached at {}", self.shown_as));
        error.with_effect(Effect::Unknown)
    }

    fn broken(&self, why: &str) -> Error {
        let message = format!("memcached at {}: {why}", self.shown_as);
        Error::new(ErrorKind::Unreachable, message).with_effect(Effect::Unknown)
    }
}

/// The effect of a request that was answered by SERVER_ERROR: memcached's own messages say that nothing was
/// stored; a proxy has other messages, and its server may have stored the value.
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
