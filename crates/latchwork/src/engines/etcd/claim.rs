//! Claims a lock: creates the claim's key, or reads its position again.

use std::time::Duration;

use super::Etcd;
use super::claim_key::ClaimKey;
use super::connection::Connection;
use super::contender_key::ContenderKey;
use super::errors;
use super::keys;
use super::position::KeyPosition;
use super::queue;
use super::wire::{Compare, KeyValue, Operation, PutRequest, RangeResponse, TxnRequest, TxnResponse};
use crate::Result;
use crate::engine::{Busy, Claim, Grant, Lifetime, Mark, Mode, Valid, Verdict};

impl Etcd {
    pub(super) async fn claim_lock(&self, claim: &Claim) -> Result<Verdict> {
        if claim.lifetime != Lifetime::Lease {
            return Err(errors::unsupported("etcd supports only claims with a lease"));
        }
        if self.shared.has_unanswered_releases() {
            Box::pin(self.retry_releases()).await;
        }
        let connection = self.shared.connection().await?;
        loop {
            let claim_key = self.shared.claim_key(&connection, claim).await?;
            let failed = |error| self.shared.claim_failed(claim.id, error);
            match self.position(&connection, claim, &claim_key).await.map_err(failed)? {
                KeyPosition::Holds(revision) => {
                    self.shared.update(claim.id, |claim_key| claim_key.waiter_watches = None);
                    let valid = Valid::Until(claim_key.lease.deadline());
                    return Ok(Verdict::Granted(Grant { token: u64::try_from(revision).ok(), valid }));
                }
                KeyPosition::Waits { blockers, holder } => {
                    if claim.wait_lease.is_zero() {
                        self.withdraw(&connection, claim, &claim_key).await.map_err(failed)?;
                    }
                    return Ok(Verdict::Busy(busy(claim, &claim_key, &blockers, holder)));
                }
                // The lease ended while the claim waited, or before its key was created. The claim queues
                // again.
                KeyPosition::Gone => {}
            }
        }
    }

    async fn position(
        &self,
        connection: &Connection,
        claim: &Claim,
        claim_key: &ClaimKey,
    ) -> Result<KeyPosition> {
        if let Some(revision) = claim_key.revision {
            return self.read_position(connection, claim, claim_key, revision).await;
        }
        if !claim.wait_lease.is_zero() {
            return self.enqueue(connection, claim, claim_key).await;
        }
        if let Some(position) = self.try_claim(connection, claim, claim_key).await? {
            return Ok(position);
        }
        self.enqueue(connection, claim, claim_key).await
    }

    /// Creates the claim's key, and reads the contenders before it, in one transaction.
    async fn enqueue(
        &self,
        connection: &Connection,
        claim: &Claim,
        claim_key: &ClaimKey,
    ) -> Result<KeyPosition> {
        let mut compare = vec![Compare::created_in(claim_key.key.clone(), 0)];
        // Of two claims with different numbers of permits, the later one creates no key that could mislead a
        // third claim.
        compare.extend(self.permits_of_other_totals(claim).map(Compare::no_key_in));
        let request = self.put_request(claim, claim_key, compare);
        match self.put_key(connection, claim_key, request).await? {
            Some(response) => self.position_after_put(connection, claim, claim_key, response).await,
            None => Ok(KeyPosition::Gone),
        }
    }

    /// Creates the claim's key only if the lock has no contender, for a claim that does not wait. `None`: the
    /// claim may use [`Etcd::enqueue`].
    async fn try_claim(
        &self,
        connection: &Connection,
        claim: &Claim,
        claim_key: &ClaimKey,
    ) -> Result<Option<KeyPosition>> {
        let contenders = keys::contenders(&self.options().namespace, &claim.name);
        let request = self.put_request(claim, claim_key, vec![Compare::no_key_in(contenders)]);
        let Some(response) = self.put_key(connection, claim_key, request).await? else {
            return Ok(Some(KeyPosition::Gone));
        };
        if response.succeeded {
            return self.position_after_put(connection, claim, claim_key, response).await.map(Some);
        }
        let mut ranges = response.ranges();
        let (own, oldest) = (ranges.next().unwrap_or_default(), ranges.next().unwrap_or_default());
        if !own.kvs.is_empty() {
            return Ok(None); // An earlier attempt created the key, and its reply was lost.
        }
        let holder = oldest.kvs.into_iter().find_map(|kv| self.contender(&claim.name, kv));
        let newest = ranges.next().unwrap_or_default();
        self.check_same_total(claim, ranges)?;
        let blockers = self.blockers(connection, &claim.name, claim.mode, i64::MAX, newest).await?;
        // Not every contender blocks: readers do not block a reader, and keys of locks with longer names
        // block no claim. Then the claim may queue.
        Ok((!blockers.is_empty()).then_some(KeyPosition::Waits { blockers, holder }))
    }

    /// Puts the claim's key if `compare` holds, and reads the newest contenders in either case.
    fn put_request(&self, claim: &Claim, claim_key: &ClaimKey, compare: Vec<Compare>) -> TxnRequest {
        let namespace = &self.options().namespace;
        let put = PutRequest {
            key: claim_key.key.clone(),
            value: keys::value(claim),
            lease: claim_key.lease.id,
            ..PutRequest::default()
        };
        let newest = || queue::range(queue::newest(namespace, &claim.name, 0, queue::first_page(claim.mode)));
        // A free lock needs no more. The holder is read by claims that wait.
        let success = vec![Operation::Put(put).into(), newest()];
        let oldest = queue::range(queue::oldest(namespace, &claim.name, 1));
        let mut failure = vec![queue::get(&claim_key.key), oldest, newest()];
        failure.extend(self.permits_of_other_totals(claim).map(queue::any_in));
        TxnRequest { compare, success, failure }
    }

    /// The position of a claim's key after the response to [`Etcd::put_request`].
    async fn position_after_put(
        &self,
        connection: &Connection,
        claim: &Claim,
        claim_key: &ClaimKey,
        response: TxnResponse,
    ) -> Result<KeyPosition> {
        let was_created = response.succeeded;
        let created_at = response.header.as_ref().map_or(0, |header| header.revision);
        let mut ranges = response.ranges();
        let first = ranges.next().unwrap_or_default();
        let own = first.kvs.first();
        let is_own = |kv: &KeyValue| {
            self.contender(&claim.name, kv.clone()).is_some_and(|contender| contender.id == claim.id)
        };
        if !was_created && own.is_some_and(|kv| !is_own(kv)) {
            return Err(errors::protocol_error(&connection.shown_as)); // No other claim may use this key.
        }
        let known = own.map(|kv| kv.create_revision);
        let Some(revision) = (if was_created { Some(created_at) } else { known }) else {
            self.check_same_total(claim, ranges.skip(2))?;
            return Ok(KeyPosition::Gone);
        };
        self.shared.update(claim.id, |claim_key| claim_key.revision = Some(revision));
        if !was_created {
            // The newest contenders may be later than the own key, so its position has to be read.
            return self.read_position(connection, claim, claim_key, revision).await;
        }
        let blockers = self.blockers(connection, &claim.name, claim.mode, revision, first).await?;
        Ok(KeyPosition::new(revision, blockers, None))
    }

    /// The ranges of permits with another total than the claim's.
    fn permits_of_other_totals(&self, claim: &Claim) -> impl Iterator<Item = (Vec<u8>, Vec<u8>)> {
        let ranges = match claim.mode {
            Mode::Permit { of } => {
                Some(keys::permits_of_other_totals(&self.options().namespace, &claim.name, of))
            }
            _ => None,
        };
        ranges.into_iter().flatten()
    }

    /// Rejects a claim whose key was not created because of a permit with another total.
    fn check_same_total(&self, claim: &Claim, ranges: impl Iterator<Item = RangeResponse>) -> Result<()> {
        let others = ranges.flat_map(|page| page.kvs);
        let modes = others.map(|kv| self.contender(&claim.name, kv).map(|other| other.mode));
        let Some(modes) = modes.collect::<Option<Vec<_>>>() else {
            return Err(errors::foreign_key_among_permits());
        };
        claim.mode.same_number(modes)
    }

    /// Deletes all that a failed try has left.
    async fn withdraw(&self, connection: &Connection, claim: &Claim, claim_key: &ClaimKey) -> Result<()> {
        let was_created = self.shared.find(claim.id).is_some_and(|known| known.revision.is_some());
        if was_created || !claim_key.puts.is_none() {
            self.delete_key(connection, claim_key).await?;
        }
        self.shared.forget(claim.id);
        Ok(())
    }
}

fn busy(
    claim: &Claim,
    claim_key: &ClaimKey,
    blockers: &[ContenderKey],
    holder: Option<ContenderKey>,
) -> Busy {
    // The repeated claim keeps the lease alive.
    let mut busy = Busy::new(claim.ttl.min(Duration::from_secs(30)) / 3);
    busy.holder = holder.as_ref().or(blockers.last()).map(ContenderKey::state);
    let blockers = blockers.iter().map(|contender| &contender.key);
    let watched: Vec<_> = [&claim_key.key].into_iter().chain(blockers).cloned().collect();
    busy.mark = Mark(watched.join(&0));
    busy
}
