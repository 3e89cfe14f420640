//! The verbs `inspect` and `revoke`. Names are hashed, so a lock can only be inspected by its name.

use super::{Backend, Participant, SessionConnection, SessionEngine, SessionStore};
use crate::engine::{ClaimId, ClaimState, Filter, Foreign, LockState, Revoke, Revoked};
use crate::{Error, ErrorKind, Result};

impl<S: SessionStore> SessionEngine<S> {
    pub(in crate::engines) async fn inspect(&self, filter: &Filter) -> Result<Vec<LockState>> {
        let Filter::Name(name) = filter else {
            return Err(
                self.unsupported("its server knows only hashes of names; ask for one lock by its name")
            );
        };
        let leased = self.0.common().await?;
        let participants = leased.request(leased.connection.participants(self.0.pool.key(name))).await?;
        let mut lock = LockState::new(name.clone());
        for participant in participants {
            match participant.is_holder {
                true => lock.holders.push(state_of(&participant)),
                false => lock.waiters.push(state_of(&participant)),
            }
        }
        let is_used = !lock.holders.is_empty() || !lock.waiters.is_empty();
        Ok(is_used.then_some(lock).into_iter().collect())
    }

    pub(in crate::engines) async fn revoke(&self, lock: &LockState, how: Revoke) -> Result<Revoked> {
        let leased = self.0.common().await?;
        let participants =
            leased.request(leased.connection.participants(self.0.pool.key(&lock.name))).await?;
        let is_named = |participant: &&Participant| {
            let id = id_of(participant.backend);
            participant.is_holder && lock.holders.iter().any(|holder| holder.id == id)
        };
        for participant in participants.iter().filter(is_named) {
            how.check(&state_of(participant)).map_err(|error| error.about(&lock.name))?;
        }
        if how == Revoke::AtLeaseEnd {
            let why =
                "it can only end a holder's connection, at once and with all its locks; say so with --now";
            return Err(self.unsupported(why));
        }
        let mut done = Revoked::NotHeld;
        for holder in &lock.holders {
            let current = participants
                .iter()
                .find(|participant| participant.is_holder && id_of(participant.backend) == holder.id);
            let is_ended = match current.map(|participant| participant.backend) {
                None => false,
                // The server could not send a reply on the connection that it ends.
                Some(backend) if backend == leased.connection.backend() => {
                    leased.close();
                    true
                }
                Some(backend) => leased.request(leased.connection.terminate(backend)).await?,
            };
            if is_ended {
                done = Revoked::Done;
            }
        }
        Ok(done)
    }

    fn unsupported(&self, why: &str) -> Error {
        let engine = self.0.pool.store.engine();
        Error::new(ErrorKind::Unsupported, format!("{engine}: {why}"))
    }
}

/// The state of a claim, as far as the server knows it.
pub(super) fn state_of(participant: &Participant) -> ClaimState {
    let mut state = ClaimState::new(id_of(participant.backend));
    state.note = participant.note.clone();
    let foreign = |name: &String| Box::new(Foreign::named("connection", name).bound_to_session(true));
    state.foreign = participant.foreign.as_ref().map(foreign);
    state
}

/// An id for a connection: the server does not know claims.
fn id_of(backend: Backend) -> ClaimId {
    let [mut bytes, since] =
        [backend.number, backend.since].map(|number| u128::from(number as u64).to_be_bytes());
    bytes.copy_within(8.., 0);
    bytes[8..].copy_from_slice(&since[8..]);
    ClaimId::from_bytes(bytes)
}
