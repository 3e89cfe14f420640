//! Releasing: the value of the claim is deleted, by its CAS id.

use super::connection::Connection;
use super::value::{self, Owner};
use super::wire::{Reply, Requests};
use super::{Memcached, errors};
use crate::Result;
use crate::engine::{Claim, ClaimId, Released};
use crate::poison::lock_ignoring_poison;

impl Memcached {
    pub(super) async fn release_lock(&self, claim: &Claim) -> Result<Released> {
        // Forgotten before the request: no second call may follow if the server stays away. A release that is
        // repeated reads first.
        let known = lock_ignoring_poison(&self.shared.claims).remove(&claim.id).and_then(|known| known.cas);
        let (key, _, connection) = self.locate(&claim.name).await?;
        let cas = known.filter(|(life, _)| *life == connection.life).map(|(_, cas)| cas);
        self.delete(&connection, &key, claim.id, cas).await
    }

    /// Deletes the value of this claim, and no other.
    async fn delete(
        &self,
        connection: &Connection,
        key: &str,
        id: ClaimId,
        mut known_cas: Option<u64>,
    ) -> Result<Released> {
        // The second time if the keeper renewed it on another connection meanwhile.
        for _ in 0..2 {
            let cas = match known_cas.take() {
                Some(cas) => cas,
                None => match self.read(connection, key).await? {
                    Some(item) if value::owner(&item.value, id) != Owner::Another => item.cas,
                    _ => return Ok(Released::NotHeld),
                },
            };
            // With its CAS id: the value that was read may have expired and been replaced by another client's
            // since.
            match connection.ask(Requests::delete(key, cas)).await? {
                Reply::Done(_) => return Ok(Released::Freed),
                Reply::Missing => return Ok(Released::NotHeld),
                Reply::Changed => {}
                reply => return Err(connection.unexpected_reply(&reply)),
            }
        }
        Err(errors::changed_meanwhile())
    }
}
