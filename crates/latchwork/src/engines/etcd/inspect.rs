//! Lists holders and waiters, and revokes claims.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use super::Etcd;
use super::connection::Connection;
use super::contender_key::ContenderKey;
use super::keys;
use super::wire::{
    Compare, DeleteRangeRequest, KeyValue, LEASE_TIME_TO_LIVE, LeaseTimeToLiveRequest,
    LeaseTimeToLiveResponse, Operation, PutRequest, RANGE, RangeRequest, RangeResponse, TXN, TxnRequest,
    TxnResponse,
};
use crate::engine::{ClaimState, Filter, LockState, Mode, Revoke, Revoked};
use crate::{LockName, Result};

/// The number of keys that are read in one request.
const PAGE: i64 = 500;
/// The number of leases whose remaining time is read. With more holders, the remaining time of the others is
/// left out.
const MAX_LEASES: usize = 100;

impl Etcd {
    pub(super) async fn inspect_all(&self, filter: &Filter) -> Result<Vec<LockState>> {
        let connection = self.shared.connection().await?;
        let namespace = &self.options().namespace;
        let (from, end) = match filter {
            Filter::Name(name) => keys::contenders(namespace, name),
            Filter::Prefix(prefix) => prefix_range(format!("{namespace}{prefix}").into_bytes()),
        };
        let mut locks = BTreeMap::<LockName, Vec<ContenderKey>>::new();
        for kv in self.read_range(&connection, from, end).await? {
            let Some(name) = keys::lock_of(namespace, &kv.key).filter(|name| filter.matches(name)) else {
                continue;
            };
            if let Some(contender) = self.contender(&name, kv) {
                locks.entry(name).or_default().push(contender);
            }
        }
        let mut remaining = HashMap::new();
        let mut states = Vec::new();
        for (name, mut contenders) in locks {
            contenders.sort_by_key(|contender| contender.revision);
            let holders = count_holders(&contenders);
            let mut state = LockState::new(name);
            for (at, contender) in contenders.iter().enumerate() {
                let mut claim = contender.state();
                if at < holders {
                    claim.expires_in = self.remaining(&connection, contender.lease, &mut remaining).await?;
                    state.holders.push(claim);
                } else {
                    state.waiters.push(ClaimState { token: None, ..claim });
                }
            }
            states.push(state);
        }
        Ok(states)
    }

    async fn read_range(
        &self,
        connection: &Connection,
        from: Vec<u8>,
        end: Vec<u8>,
    ) -> Result<Vec<KeyValue>> {
        let (mut from, mut kvs) = (from, Vec::new());
        loop {
            let request =
                RangeRequest { key: from, range_end: end.clone(), limit: PAGE, ..RangeRequest::default() };
            let page: RangeResponse = connection.call(self.options(), RANGE, request).await?;
            kvs.extend(page.kvs);
            match kvs.last().filter(|_| page.more) {
                // The key just behind the last one.
                Some(last) => from = [&last.key[..], b"\0"].concat(),
                None => return Ok(kvs),
            }
        }
    }

    /// The remaining time of a lease. `known` has those that were read before.
    async fn remaining(
        &self,
        connection: &Connection,
        lease: i64,
        known: &mut HashMap<i64, Option<Duration>>,
    ) -> Result<Option<Duration>> {
        if let Some(remaining) = known.get(&lease) {
            return Ok(*remaining);
        }
        if known.len() >= MAX_LEASES {
            return Ok(None);
        }
        let request = LeaseTimeToLiveRequest { id: lease, keys: false };
        let response: LeaseTimeToLiveResponse =
            connection.call(self.options(), LEASE_TIME_TO_LIVE, request).await?;
        let remaining = u64::try_from(response.ttl).ok().map(Duration::from_secs);
        known.insert(lease, remaining);
        Ok(remaining)
    }

    pub(super) async fn revoke_holders(&self, lock: &LockState, how: Revoke) -> Result<Revoked> {
        let connection = self.shared.connection().await?;
        let (from, end) = keys::contenders(&self.options().namespace, &lock.name);
        let kvs = self.read_range(&connection, from, end).await?;
        let is_named = |contender: &ContenderKey| lock.holders.iter().any(|holder| holder.id == contender.id);
        let contenders = kvs.into_iter().filter_map(|kv| self.contender(&lock.name, kv)).filter(is_named);
        let (contenders, mut remaining) = (contenders.collect::<Vec<_>>(), HashMap::new());
        for contender in contenders.iter().filter(|contender| contender.is_foreign) {
            let mut claim = contender.state();
            claim.expires_in = self.remaining(&connection, contender.lease, &mut remaining).await?;
            how.check(&claim).map_err(|error| error.about(&lock.name))?;
        }
        let mut revoked = Revoked::NotHeld;
        for contender in contenders {
            if self.revoke_contender(&connection, contender, how).await? {
                revoked = Revoked::Done;
            }
        }
        Ok(revoked)
    }

    /// Revokes a claim, if its key is still the one that was read.
    async fn revoke_contender(
        &self,
        connection: &Connection,
        contender: ContenderKey,
        how: Revoke,
    ) -> Result<bool> {
        let ContenderKey { key, revision, is_foreign, is_revoked, .. } = contender;
        if !how.is_now() {
            // Another operator may have revoked it already.
            return Ok(is_revoked || self.mark_revoked(connection, &key, revision).await?);
        }
        if !is_foreign && !is_revoked {
            // In a request of its own. In one transaction with the deletion, the holder's watch would report
            // only the deletion.
            self.mark_revoked(connection, &key, revision).await?;
        }
        let delete = Operation::Delete(DeleteRangeRequest { key: key.clone() });
        self.if_created_in(connection, key, revision, delete).await
    }

    /// Writes a claim's key again, with the same value. Its client knows by this that the claim was revoked,
    /// because no other program writes the key.
    async fn mark_revoked(&self, connection: &Connection, key: &[u8], created: i64) -> Result<bool> {
        let key = key.to_vec();
        let put =
            PutRequest { key: key.clone(), ignore_value: true, ignore_lease: true, ..PutRequest::default() };
        self.if_created_in(connection, key, created, Operation::Put(put)).await
    }

    async fn if_created_in(
        &self,
        connection: &Connection,
        key: Vec<u8>,
        created: i64,
        operation: Operation,
    ) -> Result<bool> {
        let compare = vec![Compare::created_in(key, created)];
        let request = TxnRequest { compare, success: vec![operation.into()], failure: Vec::new() };
        let response: TxnResponse = connection.call(self.options(), TXN, request).await?;
        Ok(response.succeeded)
    }
}

/// The number of contenders that hold the lock: the first, and the contenders of its mode directly behind it
/// that may hold at the same time.
fn count_holders(contenders: &[ContenderKey]) -> usize {
    let Some(first) = contenders.first() else { return 0 };
    let most = match first.mode {
        Mode::Exclusive | Mode::Write => 1,
        Mode::Read => usize::MAX,
        Mode::Permit { of } => of as usize,
    };
    contenders.iter().take(most).take_while(|contender| contender.mode == first.mode).count()
}

/// The range of all keys with this prefix.
fn prefix_range(prefix: Vec<u8>) -> (Vec<u8>, Vec<u8>) {
    let mut end = prefix.clone();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            return (prefix, end);
        }
    }
    // An empty prefix: all keys. A zero byte as the end stands for the last key.
    match prefix.is_empty() {
        true => (vec![0], vec![0]),
        false => (prefix, vec![0]),
    }
}
