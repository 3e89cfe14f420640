//! What an operator sees, and can do. Names are hashed: a lock can be looked at by its name, and by nothing else.

use super::{Backend, Connection, Seen, Server, Sessions};
use crate::engine::{ClaimId, ClaimState, Filter, Foreign, LockState, Revoke, Revoked};
use crate::{Error, ErrorKind, Result};

impl<S: Server> Sessions<S> {
    pub(in crate::engines) async fn inspect(&self, filter: &Filter) -> Result<Vec<LockState>> {
        let Filter::Name(name) = filter else {
            return Err(
                self.unsupported("its server knows only hashes of names; ask for one lock by its name")
            );
        };
        let line = self.0.common().await?;
        let seen = line.ask(line.connection.seen(self.0.office.key(name))).await?;
        let mut lock = LockState::new(name.clone());
        for seen in seen {
            match seen.is_held {
                true => lock.holders.push(state_of(&seen)),
                false => lock.waiters.push(state_of(&seen)),
            }
        }
        let is_there = !lock.holders.is_empty() || !lock.waiters.is_empty();
        Ok(is_there.then_some(lock).into_iter().collect())
    }

    pub(in crate::engines) async fn revoke(&self, lock: &LockState, how: Revoke) -> Result<Revoked> {
        let line = self.0.common().await?;
        let now = line.ask(line.connection.seen(self.0.office.key(&lock.name))).await?;
        let is_named =
            |seen: &&Seen| seen.is_held && lock.holders.iter().any(|holder| holder.id == id_of(seen.backend));
        for seen in now.iter().filter(is_named) {
            how.check(&state_of(seen)).map_err(|error| error.about(&lock.name))?;
        }
        if how == Revoke::AtLeaseEnd {
            let why =
                "it can only end a holder's connection, at once and with all its locks; say so with --now";
            return Err(self.unsupported(why));
        }
        let mut done = Revoked::NotHeld;
        for holder in &lock.holders {
            let still = now.iter().find(|seen| seen.is_held && id_of(seen.backend) == holder.id);
            let is_ended = match still.map(|still| still.backend) {
                None => false,
                // It could not answer that it ended itself.
                Some(backend) if backend == line.connection.backend() => {
                    line.close();
                    true
                }
                Some(backend) => line.ask(line.connection.end(backend)).await?,
            };
            if is_ended {
                done = Revoked::Done;
            }
        }
        Ok(done)
    }

    fn unsupported(&self, why: &str) -> Error {
        let engine = self.0.office.server.engine();
        Error::new(ErrorKind::Unsupported, format!("{engine}: {why}"))
    }
}

/// What the server tells of a claim.
pub(super) fn state_of(seen: &Seen) -> ClaimState {
    let mut state = ClaimState::new(id_of(seen.backend));
    state.note = seen.note.clone();
    let foreign = |name: &String| Box::new(Foreign::named("connection", name).bound_to_session(true));
    state.foreign = seen.stranger.as_ref().map(foreign);
    state
}

/// The server knows no claims, only connections.
fn id_of(backend: Backend) -> ClaimId {
    let [mut bytes, since] =
        [backend.number, backend.since].map(|number| u128::from(number as u64).to_be_bytes());
    bytes.copy_within(8.., 0);
    bytes[8..].copy_from_slice(&since[8..]);
    ClaimId::from_bytes(bytes)
}
