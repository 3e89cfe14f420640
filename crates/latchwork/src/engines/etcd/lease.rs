//! A lease on the server. The keys of all claims of one client with the same ttl are attached to it.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, Ordering};
use std::time::Duration;

use tokio_stream::StreamExt;
use tonic::Status;

use super::connection::Connection;
use super::errors;
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

/// One lease. Once it has ended, it stays so.
pub(super) struct EtcdLease {
    /// Chosen by this client, so that a grant whose reply was lost can be found again.
    pub(super) id: i64,
    ttl: Duration,
    /// When the newest successful grant or keep-alive was sent.
    renewed_at: Mutex<Moment>,
    has_ended: AtomicBool,
    keep_alives: AtomicU32,
    /// The revision in which the lease's fence was last changed, as far as is known. 0: it has no fence.
    pub(super) fence: AtomicI64,
}

impl EtcdLease {
    /// A random id for a new lease.
    pub(super) fn random_id() -> i64 {
        // Positive, and never 0: the server would choose the id.
        i64::from_be_bytes(clock::random_bytes()).unsigned_abs().clamp(1, i64::MAX as u64) as i64
    }

    /// Requests a lease of this id. A lease that was granted before, without a reply, is found.
    pub(super) async fn grant(
        connection: &Connection,
        options: &Options,
        id: i64,
        seconds: i64,
    ) -> Result<Self> {
        let sent = Clock::boottime().now();
        let request = LeaseGrantRequest { ttl: seconds, id };
        let granted: Result<LeaseGrantResponse, Status> =
            connection.try_call(options, LEASE_GRANT, request).await;
        let ttl = match granted {
            Ok(granted) => granted.ttl,
            Err(status) if errors::is_lease_already_granted(&status) => {
                send_keep_alive(connection, id, deadline::ETCD_REPLY_WITH_OTHERS).await?
            }
            Err(status) => return Err(connection.error(&status)),
        };
        if ttl <= 0 {
            return Err(errors::protocol_error(&connection.shown_as));
        }
        Ok(Self {
            id,
            ttl: Duration::from_secs(ttl.unsigned_abs()),
            renewed_at: Mutex::new(sent),
            has_ended: AtomicBool::new(false),
            keep_alives: AtomicU32::new(0),
            fence: AtomicI64::new(0),
        })
    }

    /// The end of the time in which the lease certainly exists, unless an operator revokes it.
    pub(super) fn deadline(&self) -> Moment {
        lock_ignoring_poison(&self.renewed_at).after(less_drift(self.ttl))
    }

    /// The time since the last renewal.
    fn age(&self) -> Duration {
        Clock::boottime().now().since(*lock_ignoring_poison(&self.renewed_at))
    }

    /// Whether less than a third of the ttl has passed since the last renewal.
    pub(super) fn is_fresh(&self) -> bool {
        !self.has_ended() && self.age() < self.ttl / 3
    }

    /// Whether the server has reported that the lease does not exist.
    pub(super) fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Acquire)
    }

    /// Notes that the server has reported the end of the lease.
    pub(super) fn set_ended(&self) {
        self.has_ended.store(true, Ordering::Release);
    }

    /// The time limit for a reply to a waiter under this lease. A third of the ttl may already have passed,
    /// and enough of it must be left to renew the lease through another member. At least a second, so that a
    /// slow machine is not taken for a hung one.
    pub(super) fn reply_timeout(&self) -> Duration {
        deadline::ETCD_REPLY_WITH_OTHERS.min(Duration::from_secs(1).max(self.ttl / 3))
    }

    /// Sends a keep-alive, unless one has just succeeded: one request for all keys under the lease. If this
    /// call sent one, returns the number of earlier keep-alives. Does not wait for other tasks: a caller
    /// whose connection works keeps the lease alive, whatever the others do.
    pub(super) async fn keep_alive(&self, connection: &Connection) -> Result<Option<u32>> {
        if self.has_ended() || self.age() < self.ttl / 12 {
            return Ok(None);
        }
        let sent = Clock::boottime().now();
        if send_keep_alive(connection, self.id, self.reply_timeout()).await? <= 0 {
            self.set_ended();
            return Ok(None);
        }
        let mut renewed_at = lock_ignoring_poison(&self.renewed_at);
        *renewed_at = sent.max(*renewed_at);
        drop(renewed_at);
        Ok(Some(self.keep_alives.fetch_add(1, Ordering::Relaxed)))
    }
}

/// Sends one keep-alive. Returns the lease's ttl in seconds; 0 or less if the lease does not exist.
async fn send_keep_alive(connection: &Connection, id: i64, timeout: Duration) -> Result<i64> {
    let calling = async {
        let requests = tokio_stream::once(LeaseKeepAliveRequest { id });
        let mut responses =
            connection.open_stream::<_, LeaseKeepAliveResponse>(LEASE_KEEP_ALIVE, requests).await?;
        let no_response = || Err(Status::unavailable("the stream ended without an answer"));
        responses.next().await.unwrap_or_else(no_response)
    };
    let response = connection.reply_within(timeout, calling).await;
    response.map(|response| response.ttl).map_err(|status| connection.error(&status))
}
