//! Revocations: an operator takes a lock away.

use super::connection::Connection;
use super::keys::Keys;
use super::script_replies::protocol_error;
use super::scripts::Script;
use super::wire::Reply;
use super::{Redis, record};
use crate::engine::{ClaimId, LockState, Released, Revoke, Revoked};
use crate::{Error, ErrorKind, Result};

impl Redis {
    /// Takes the lock away from the holders named in `lock`. `known_as_ours`: a majority of masters says that
    /// they are claims of this library, which this master alone may not know.
    pub(super) async fn revoke_holders(
        &self,
        lock: &LockState,
        how: Revoke,
        known_as_ours: bool,
    ) -> Result<Revoked> {
        let (keys, connection) =
            (Keys::of(&self.options().prefix, &lock.name)?, self.session.connection().await?);
        // Once for all holders: the scripts check by themselves that the holder still holds.
        let found = self.inspect_batch(&connection, std::slice::from_ref(&lock.name)).await?.remove(0);
        let is_shared = record::shared_as(&found.state.value).is_some();
        if let Some(holder) = found.state.holder()
            && !is_shared
            && !known_as_ours
            && lock.holders.iter().any(|named| named.id == holder.id)
        {
            how.check(&holder).map_err(|error| error.about(&lock.name))?;
        }
        let mut done = Revoked::NotHeld;
        for holder in &lock.holders {
            let revoked = match (found.shared_member(holder.id), how) {
                (Some(member), how) => self.revoke_shared(&connection, keys, member, how).await?,
                // It no longer holds, and the other holders are not to be disturbed. The newest grant may
                // still name it.
                (None, _) if is_shared => false,
                (None, _) if found.state.holder().is_none_or(|found| found.id != holder.id) => false,
                // The script deletes the value that was found, and no other.
                (None, Revoke::Now | Revoke::NowAlsoForeign) => {
                    if found.state.holder().is_some_and(|found| found.foreign.is_none()) || known_as_ours {
                        // Before the lock is free, or the holder's renewal could come in between.
                        self.revoke_value(&connection, keys, found.value(), Some(holder.id)).await?;
                    }
                    let released =
                        self.release_value(&connection, Script::Release, keys, found.value(), "\n").await?;
                    released == Released::Freed
                }
                (None, Revoke::AtLeaseEnd) => {
                    self.revoke_value(&connection, keys, found.value(), None).await?
                }
            };
            if revoked {
                done = Revoked::Done;
            }
        }
        Ok(done)
    }

    /// Refuses the holder's renewals. `at_once`: its id, if a release follows; then only the mark for its
    /// next renewal is written.
    async fn revoke_value(
        &self,
        connection: &Connection,
        keys: Keys<'_>,
        value: &[u8],
        at_once: Option<ClaimId>,
    ) -> Result<bool> {
        let mut command = connection.script(Script::Revoke, 2, 256);
        keys.write_holder(&mut command);
        keys.write_waiters(&mut command);
        command.arg(value);
        if let Some(id) = at_once {
            command.arg(&record::encode_id(id)[..]);
        }
        match connection.call(Script::Revoke, command, self.options()).await? {
            Reply::Int(-1) => {
                let message =
                    "its holder set no expiry, so it would be held for ever; take it away now instead";
                Err(Error::new(ErrorKind::Unsupported, message))
            }
            Reply::Int(done) => Ok(done == 1),
            _ => Err(protocol_error()),
        }
    }

    /// Takes the lock away from one of the claims that hold it together.
    async fn revoke_shared(
        &self,
        connection: &Connection,
        keys: Keys<'_>,
        member: &[u8],
        how: Revoke,
    ) -> Result<bool> {
        connection.load_shared_scripts(self.options()).await?;
        let (id, tail) = record::split_member(member);
        let mut command = self.script_call(connection, Script::RevokeShared, keys);
        command.arg(member);
        if how.is_now() {
            command.arg(id);
        }
        let is_held = match connection.call(Script::RevokeShared, command, self.options()).await? {
            Reply::Int(done) => done == 1,
            _ => return Err(protocol_error()),
        };
        if !(is_held && how.is_now()) {
            return Ok(is_held);
        }
        let released = self.release_value(connection, Script::ReleaseShared, keys, id, tail).await?;
        Ok(released == Released::Freed)
    }
}
