//! The state of a lock for operators, and its revocation.

use super::wire::{Item, Reply, Requests};
use super::{Memcached, errors, item, value};
use crate::Result;
use crate::engine::{Filter, LockState, Revoke, Revoked};

impl Memcached {
    pub(super) async fn inspect_lock(&self, filter: &Filter) -> Result<Vec<LockState>> {
        let Filter::Name(name) = filter else {
            return Err(errors::unsupported(
                "memcached cannot list its keys, and long names are stored as hashes; name the lock",
            ));
        };
        let (key, _, connection) = self.locate(name).await?;
        let reply = connection.ask_while_wanted(Requests::read_one(&key)).await;
        let Some(item) = item(&connection, reply)? else { return Ok(Vec::new()) };
        let mut state = LockState::new(name.clone());
        state.holders.push(value::holder(&item.value, item.expires_in));
        Ok(vec![state])
    }

    pub(super) async fn revoke_lock(&self, lock: &LockState, how: Revoke) -> Result<Revoked> {
        let (key, _, connection) = self.locate(&lock.name).await?;
        let Some(item) = self.read(&connection, &key).await? else { return Ok(Revoked::NotHeld) };
        let now = value::holder(&item.value, item.expires_in);
        if !lock.holders.iter().any(|was| was.id == now.id) {
            return Ok(Revoked::NotHeld);
        }
        how.check(&now).map_err(|error| error.about(&lock.name))?;
        // With the CAS id of the value that was read: the lock may have been released and taken again since.
        let request = match how {
            Revoke::Now | Revoke::NowAlsoForeign => Requests::delete(&key, item.cas),
            Revoke::AtLeaseEnd if value::is_revoked(&item.value) => return Ok(Revoked::Done),
            Revoke::AtLeaseEnd => self.mark_revoked(&key, &item)?,
        };
        match connection.ask(request).await? {
            Reply::Done(_) => Ok(Revoked::Done),
            Reply::Changed | Reply::Missing => Ok(Revoked::NotHeld),
            reply => Err(connection.unexpected_reply(&reply)),
        }
    }

    /// Keeps the value for the rest of its time, in a form that its holder cannot renew.
    fn mark_revoked(&self, key: &str, item: &Item) -> Result<Requests> {
        let Some(left) = item.expires_in else {
            return Err(errors::unsupported(
                "its holder set no expiry, so it would be held for ever; take it away now instead",
            ));
        };
        let mut mark = Requests::default();
        // At least a second: 0 is for ever.
        mark.swap(key, &value::revoked(&item.value), item.cas, left.max(1));
        Ok(mark)
    }
}
