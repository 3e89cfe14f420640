//! Looking at locks from outside, and taking them away.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use super::connection::Connection;
use super::keys::{self, Contender};
use super::wire::{
    Compare, DeleteRequest, LEASE_TIME_TO_LIVE, LeaseTimeToLiveRequest, LeaseTimeToLiveResponse, Operation,
    PutRequest, RANGE, RangeRequest, RangeResponse, TXN, TxnRequest, TxnResponse,
};
use super::{Etcd, state_of};
use crate::engine::{ClaimState, Filter, LockState, Mode, Revoke, Revoked};
use crate::{LockName, Result};

/// Keys that are read in one go.
const PAGE: i64 = 500;
/// How many holders' leases are asked about. With more, it is left out how long they run.
const LEASES: usize = 100;

impl Etcd {
    pub(super) async fn inspect_all(&self, filter: &Filter) -> Result<Vec<LockState>> {
        let connection = self.session.connection().await?;
        let namespace = &self.options().namespace;
        let (from, end) = match filter {
            Filter::Name(name) => keys::contenders(namespace, name),
            Filter::Prefix(prefix) => below(format!("{namespace}{prefix}").into_bytes()),
        };
        let mut locks = BTreeMap::<LockName, Vec<Contender>>::new();
        for kv in self.read_all(&connection, from, end).await? {
            let Some(name) = keys::lock_of(namespace, &kv.key).filter(|name| filter.matches(name)) else {
                continue;
            };
            if let Some(contender) = self.contender(&name, kv) {
                locks.entry(name).or_default().push(contender);
            }
        }
        let mut left = HashMap::new();
        let mut states = Vec::new();
        for (name, mut contenders) in locks {
            contenders.sort_by_key(|contender| contender.revision);
            let holders = holders(&contenders);
            let mut state = LockState::new(name);
            for (at, contender) in contenders.iter().enumerate() {
                let mut seen = state_of(contender);
                if at < holders {
                    seen.expires_in = self.left(&connection, contender.lease, &mut left).await?;
                    state.holders.push(seen);
                } else {
                    state.waiters.push(ClaimState { token: None, ..seen });
                }
            }
            states.push(state);
        }
        Ok(states)
    }

    async fn read_all(
        &self,
        connection: &Connection,
        from: Vec<u8>,
        end: Vec<u8>,
    ) -> Result<Vec<super::wire::KeyValue>> {
        let (mut from, mut found) = (from, Vec::new());
        loop {
            let request =
                RangeRequest { key: from, range_end: end.clone(), limit: PAGE, ..RangeRequest::default() };
            let page: RangeResponse = connection.call(self.options(), RANGE, request).await?;
            found.extend(page.kvs);
            match found.last().filter(|_| page.more) {
                // The key just behind the last one.
                Some(last) => from = [&last.key[..], b"\0"].concat(),
                None => return Ok(found),
            }
        }
    }

    /// How long a lease still runs.
    async fn left(
        &self,
        connection: &Connection,
        lease: i64,
        known: &mut HashMap<i64, Option<Duration>>,
    ) -> Result<Option<Duration>> {
        if let Some(left) = known.get(&lease) {
            return Ok(*left);
        }
        if known.len() >= LEASES {
            return Ok(None);
        }
        let request = LeaseTimeToLiveRequest { id: lease, keys: false };
        let answer: LeaseTimeToLiveResponse =
            connection.call(self.options(), LEASE_TIME_TO_LIVE, request).await?;
        let left = u64::try_from(answer.ttl).ok().map(Duration::from_secs);
        known.insert(lease, left);
        Ok(left)
    }

    pub(super) async fn revoke_holder(&self, lock: &LockState, how: Revoke) -> Result<Revoked> {
        let connection = self.session.connection().await?;
        let (from, end) = keys::contenders(&self.options().namespace, &lock.name);
        let found = self.read_all(&connection, from, end).await?;
        let named = |contender: &Contender| lock.holders.iter().any(|holder| holder.id == contender.id);
        let found = found.into_iter().filter_map(|kv| self.contender(&lock.name, kv)).filter(named);
        let (found, mut left) = (found.collect::<Vec<_>>(), HashMap::new());
        for contender in found.iter().filter(|contender| !contender.is_ours) {
            let mut seen = state_of(contender);
            seen.expires_in = self.left(&connection, contender.lease, &mut left).await?;
            how.check(&seen).map_err(|error| error.about(&lock.name))?;
        }
        let mut revoked = Revoked::NotHeld;
        for contender in found {
            if self.take_away(&connection, contender, how).await? {
                revoked = Revoked::Done;
            }
        }
        Ok(revoked)
    }

    /// Only if the key is still the one that was seen.
    async fn take_away(&self, connection: &Connection, contender: Contender, how: Revoke) -> Result<bool> {
        let Contender { key, revision, is_ours, is_revoked, .. } = contender;
        if !how.is_now() {
            // It may be done already, by another operator.
            return Ok(is_revoked || self.mark_revoked(connection, &key, revision).await?);
        }
        if is_ours && !is_revoked {
            // In a request of its own, or its client would hear of the deletion alone.
            self.mark_revoked(connection, &key, revision).await?;
        }
        let delete = Operation::Delete(DeleteRequest { key: key.clone() });
        self.if_created_in(connection, key, revision, delete).await
    }

    /// Writes a claim's key again: its client knows that nobody else would. What others read there stays.
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
        let answer: TxnResponse = connection.call(self.options(), TXN, request).await?;
        Ok(answer.succeeded)
    }
}

/// How many of those in the queue hold: the first, and those like it just behind it who may hold beside it.
fn holders(contenders: &[Contender]) -> usize {
    let Some(first) = contenders.first() else { return 0 };
    let most = match first.mode {
        Mode::Exclusive | Mode::Write => 1,
        Mode::Read => usize::MAX,
        Mode::Permit { of } => of as usize,
    };
    contenders.iter().take(most).take_while(|contender| contender.mode == first.mode).count()
}

/// All keys that begin so.
fn below(prefix: Vec<u8>) -> (Vec<u8>, Vec<u8>) {
    let mut end = prefix.clone();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            return (prefix, end);
        }
    }
    // Every key there is.
    match prefix.is_empty() {
        true => (vec![0], vec![0]),
        false => (prefix, vec![0]),
    }
}
