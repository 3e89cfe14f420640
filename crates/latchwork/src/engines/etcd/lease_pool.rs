//! The leases of one client: one for each ttl in use.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::connection::Connection;
use super::lease::EtcdLease;
use super::options::Options;
use crate::Result;
use crate::poison::lock_ignoring_poison;

/// The leases of one client, by their ttl in seconds.
#[derive(Default)]
pub(super) struct LeasePool {
    leases: Mutex<HashMap<i64, LeaseSlot>>,
}

/// The lease of one ttl.
#[derive(Default)]
struct LeaseSlot {
    lease: Option<Arc<EtcdLease>>,
    /// The id of a requested lease. If the reply is lost, the next request uses the same id.
    requested_id: Option<i64>,
}

impl LeasePool {
    /// The lease for claims of this ttl, renewed recently.
    pub(super) async fn get(
        &self,
        connection: &Connection,
        options: &Options,
        ttl: Duration,
    ) -> Result<Arc<EtcdLease>> {
        let seconds = whole_seconds(ttl);
        if let Some(lease) = self.find(seconds).filter(|lease| lease.is_fresh()) {
            return Ok(lease);
        }
        // Boxed, because most claims find a lease.
        Box::pin(self.renew_or_grant(connection, options, seconds)).await
    }

    async fn renew_or_grant(
        &self,
        connection: &Connection,
        options: &Options,
        seconds: i64,
    ) -> Result<Arc<EtcdLease>> {
        let _guard = connection.lock_lease_renewal().await?;
        if let Some(lease) = self.find(seconds) {
            if !lease.is_fresh() {
                lease.keep_alive(connection).await?;
            }
            if !lease.has_ended() {
                return Ok(lease);
            }
        }
        let id = *lock_ignoring_poison(&self.leases)
            .entry(seconds)
            .or_default()
            .requested_id
            .get_or_insert_with(EtcdLease::random_id);
        let lease = Arc::new(EtcdLease::grant(connection, options, id, seconds).await?);
        let mut leases = lock_ignoring_poison(&self.leases);
        let slot = leases.entry(seconds).or_default();
        // A task on another connection may have received the same lease.
        if let Some(known) = slot.lease.as_ref().filter(|known| known.id == id) {
            return Ok(known.clone());
        }
        (slot.lease, slot.requested_id) = (Some(lease.clone()), None);
        Ok(lease)
    }

    /// Renews a lease that is not fresh. One task of a connection does so for all others.
    pub(super) async fn refresh(&self, connection: &Connection, lease: &EtcdLease) -> Result<()> {
        let _guard = connection.lock_lease_renewal().await?;
        if !lease.has_ended() && !lease.is_fresh() {
            lease.keep_alive(connection).await?;
        }
        Ok(())
    }

    fn find(&self, seconds: i64) -> Option<Arc<EtcdLease>> {
        lock_ignoring_poison(&self.leases).get(&seconds)?.lease.clone().filter(|lease| !lease.has_ended())
    }
}

/// The ttl of a lease is a whole number of seconds.
fn whole_seconds(ttl: Duration) -> i64 {
    i64::try_from(ttl.as_millis().div_ceil(1_000)).unwrap_or(i64::MAX)
}
