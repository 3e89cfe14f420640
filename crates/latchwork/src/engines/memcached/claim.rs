//! Claiming: one `add`. A claim that has failed before, and one on a server that refuses when it is full,
//! reads first.

use std::time::Duration;

use super::connection::Connection;
use super::value::{self, Owner};
use super::wire::{Item, Reply, Requests, expiry};
use super::{Memcached, errors};
use crate::Result;
use crate::engine::{Busy, Claim, Engine as _, Grant, Lifetime, Mode, Valid, Verdict};
use crate::engines::quarantine::quarantined;
use crate::poison::lock_ignoring_poison;

/// The pause before a busy lock is claimed again; doubles with each attempt up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(250);

impl Memcached {
    pub(super) async fn claim_lock(&self, claim: &Claim) -> Result<Verdict> {
        if claim.mode != Mode::Exclusive || claim.lifetime != Lifetime::Lease || claim.owner.is_some() {
            return Err(errors::unsupported(
                "memcached supports only plain exclusive locks with a lease: one key holds one value",
            ));
        }
        let (key, session, connection) = self.locate(&claim.name).await?;
        if let Some(left) = session.quarantine() {
            return Ok(quarantined(&format!("memcached at {}", session.endpoint.shown_as), left));
        }
        // A claim that waits reads first: that is one round trip, too. And a server that refuses to store for
        // want of memory deletes what is there.
        let reads_first = self.shared.failed_attempts(claim.id) > 0 || !connection.evicts;
        if reads_first && let Some(item) = self.read(&connection, &key).await? {
            return self.decide(claim, &connection, &key, &item).await;
        }
        match connection.ask(Requests::add(&key, &value::of(claim), claim.ttl)).await? {
            Reply::Done(cas) => Ok(self.granted(claim, &connection, cas)),
            Reply::NotStored => match self.read(&connection, &key).await? {
                Some(item) => self.decide(claim, &connection, &key, &item).await,
                None => Ok(self.busy(claim, None)),
            },
            reply => Err(connection.unexpected_reply(&reply)),
        }
    }

    /// A value is there. It is the claim's own if the reply to an earlier request was lost.
    async fn decide(
        &self,
        claim: &Claim,
        connection: &Connection,
        key: &str,
        item: &Item,
    ) -> Result<Verdict> {
        if value::owner(&item.value, claim.id) != Owner::Claim {
            return Ok(self.busy(claim, Some(item)));
        }
        let mut again = Requests::default();
        // With its CAS id: it may expire and be taken by another client before this arrives.
        again.swap(key, &value::of(claim), item.cas, expiry(claim.ttl));
        match connection.ask(again).await? {
            Reply::Done(cas) => Ok(self.granted(claim, connection, cas)),
            Reply::Changed | Reply::Missing => Ok(self.busy(claim, None)),
            reply => Err(connection.unexpected_reply(&reply)),
        }
    }

    fn granted(&self, claim: &Claim, connection: &Connection, cas: u64) -> Verdict {
        let mut claims = lock_ignoring_poison(&self.shared.claims);
        claims.entry(claim.id).or_default().cas = Some((connection.life, cas));
        Verdict::Granted(Grant { token: None, valid: Valid::For(claim.ttl) })
    }

    fn busy(&self, claim: &Claim, item: Option<&Item>) -> Verdict {
        let mut claims = lock_ignoring_poison(&self.shared.claims);
        let failed_before = match claim.wait_lease.is_zero() {
            // The core does not release a claim that does not wait.
            true => claims.remove(&claim.id).unwrap_or_default().failed_attempts,
            false => {
                let known = claims.entry(claim.id).or_default();
                known.failed_attempts = known.failed_attempts.saturating_add(1);
                known.failed_attempts - 1
            }
        };
        drop(claims);
        let mut busy = Busy::new(self.pause(failed_before));
        busy.holder = item.map(|item| value::holder(&item.value, item.expires_in));
        Verdict::Busy(busy)
    }

    /// Half of the pause is random: otherwise all waiters would ask at the same instants.
    fn pause(&self, failed_before: u32) -> Duration {
        let longest = (FIRST_PAUSE * (1 << failed_before.min(8))).min(LONGEST_PAUSE);
        let [random] = self.clock().random_bytes::<1>();
        longest / 2 + longest / 2 * u32::from(random) / 255
    }
}
