//! A lease at the server, under which all claims of one client with the same ttl stand.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, Ordering};
use std::time::Duration;

use tokio_stream::StreamExt;
use tonic::Status;

use super::connection::Connection;
use super::failure;
use super::options::Options;
use super::wire::{
    LEASE_GRANT, LEASE_KEEP_ALIVE, LeaseGrantRequest, LeaseGrantResponse, LeaseKeepAliveRequest,
    LeaseKeepAliveResponse,
};
use crate::Result;
use crate::clock::{self, Clock, Moment};
use crate::core::defaults::less_drift;
use crate::net::deadline;
use crate::poison::lock_ignoring_poison;

/// One lease. Once it is over, it stays so.
pub(super) struct Lease {
    /// Chosen here, so that a grant whose answer was lost can be found again.
    pub(super) id: i64,
    ttl: Duration,
    /// When the newest request was sent that the server answered by keeping it.
    kept: Mutex<Moment>,
    is_over: AtomicBool,
    renewals: AtomicU32,
    /// The revision in which its fence was last changed, as far as is known. 0: it has no fence.
    pub(super) fence: AtomicI64,
}

impl Lease {
    /// An id that nobody else has.
    pub(super) fn draw_id() -> i64 {
        // Positive, and never 0: that would leave the choice to the server.
        i64::from_be_bytes(clock::random_bytes()).unsigned_abs().clamp(1, i64::MAX as u64) as i64
    }

    /// Asks for a lease of this id. A grant whose answer was lost is found to be there.
    pub(super) async fn grant(
        connection: &Connection,
        options: &Options,
        id: i64,
        seconds: i64,
    ) -> Result<Self> {
        let sent = Clock::boottime().now();
        let request = LeaseGrantRequest { ttl: seconds, id };
        let granted: Result<LeaseGrantResponse, Status> = connection.ask(options, LEASE_GRANT, request).await;
        let ttl = match granted {
            Ok(granted) => granted.ttl,
            Err(status) if failure::is_lease_there(&status) => {
                ask_to_keep(connection, id, deadline::ETCD_REPLY_WITH_OTHERS).await?
            }
            Err(status) => return Err(connection.failed(&status)),
        };
        if ttl <= 0 {
            return Err(failure::protocol_error(&connection.place));
        }
        let ttl = Duration::from_secs(ttl.unsigned_abs());
        let (kept, is_over) = (Mutex::new(sent), AtomicBool::new(false));
        Ok(Self { id, ttl, kept, is_over, renewals: AtomicU32::new(0), fence: AtomicI64::new(0) })
    }

    /// Until when it is there for sure, unless somebody revokes it.
    pub(super) fn deadline(&self) -> Moment {
        lock_ignoring_poison(&self.kept).after(less_drift(self.ttl))
    }

    /// How much of it is used up.
    fn used(&self) -> Duration {
        Clock::boottime().now().since(*lock_ignoring_poison(&self.kept))
    }

    /// Whether most of it is left: not yet a third is used up.
    pub(super) fn is_fresh(&self) -> bool {
        !self.is_over() && self.used() < self.ttl / 3
    }

    /// Whether the server said that it is over.
    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    /// It is over: the server said so.
    pub(super) fn end(&self) {
        self.is_over.store(true, Ordering::Release);
    }

    /// The time limit for a reply to a waiter under this lease. The lease may already be a third used up, and
    /// enough of it must be left to renew it through another member. At least a second, so that a slow
    /// machine is not taken for a hung one.
    pub(super) fn answer_limit(&self) -> Duration {
        deadline::ETCD_REPLY_WITH_OTHERS.min(Duration::from_secs(1).max(self.ttl / 3))
    }

    /// Keeps it alive, unless that was just done: one request for all keys under it. Returns how often it was
    /// kept alive, if this call did so. Does not wait for other tasks: a caller whose connection works keeps
    /// the lease alive, whatever the others do.
    pub(super) async fn keep(&self, connection: &Connection) -> Result<Option<u32>> {
        if self.is_over() || self.used() < self.ttl / 12 {
            return Ok(None);
        }
        let sent = Clock::boottime().now();
        if ask_to_keep(connection, self.id, self.answer_limit()).await? <= 0 {
            self.end();
            return Ok(None);
        }
        let mut kept = lock_ignoring_poison(&self.kept);
        *kept = sent.max(*kept);
        drop(kept);
        Ok(Some(self.renewals.fetch_add(1, Ordering::Relaxed)))
    }
}

/// Keeps a lease alive, and returns its seconds; 0 or less if there is none.
async fn ask_to_keep(connection: &Connection, id: i64, limit: Duration) -> Result<i64> {
    let asking = async {
        let request = tokio_stream::once(LeaseKeepAliveRequest { id });
        let mut answers = connection.stream::<_, LeaseKeepAliveResponse>(LEASE_KEEP_ALIVE, request).await?;
        answers.next().await.unwrap_or_else(|| Err(Status::unavailable("the stream ended without an answer")))
    };
    let answer = connection.answered(limit, asking).await;
    answer.map(|kept| kept.ttl).map_err(|status| connection.failed(&status))
}
