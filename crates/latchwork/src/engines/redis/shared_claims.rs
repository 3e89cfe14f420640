//! Claims that hold together with others: readers and permits.

use std::sync::Arc;

use super::connection::Connection;
use super::keys::Keys;
use super::scripts::Script;
use super::wire::Value;
use super::{Redis, each, millis, record, reply};
use crate::Result;
use crate::engine::{Claim, Mode, Released, Renewal, Revoke};

/// Whether others may hold beside it. A writer's key is like that of any exclusive claim.
pub(super) fn is_shared(mode: Mode) -> bool {
    matches!(mode, Mode::Read | Mode::Permit { .. })
}

/// The script that claims in this mode.
pub(super) fn claims_by(mode: Mode) -> Script {
    if is_shared(mode) { Script::Share } else { Script::Claim }
}

/// The script that gives it back.
pub(super) fn releases_by(mode: Mode) -> Script {
    if is_shared(mode) { Script::Leave } else { Script::Release }
}

impl Redis {
    /// Renews claims of all modes: two requests, sent together.
    pub(super) async fn renew_mixed(&self, claims: &[Arc<Claim>]) -> Vec<Result<Renewal>> {
        let (shared, alone): (Vec<_>, Vec<_>) =
            claims.iter().cloned().partition(|claim| is_shared(claim.mode));
        let renew_alone = async {
            match &alone[..] {
                [] => Vec::new(),
                alone => each(alone, self.renew_all(alone).await),
            }
        };
        let (of_shared, of_alone) = tokio::join!(self.renew_shared(&shared), renew_alone);
        let (mut of_shared, mut of_alone) = (each(&shared, of_shared).into_iter(), of_alone.into_iter());
        let answer = |claim: &Arc<Claim>| match is_shared(claim.mode) {
            true => of_shared.next(),
            false => of_alone.next(),
        };
        claims.iter().filter_map(answer).collect()
    }

    async fn renew_shared(&self, claims: &[Arc<Claim>]) -> Result<Vec<Renewal>> {
        let (options, connection) = (self.options(), self.session.connection().await?);
        connection.learn_to_share(options).await?;
        let mut command = connection.script(Script::RenewShared, 4 * claims.len(), 512 * claims.len());
        for claim in claims {
            Keys::of(&options.prefix, &claim.name)?.write(&mut command);
        }
        for claim in claims {
            let tail = record::Tail(claim, self.session.mark());
            command.arg(&record::encode_id(claim.id)[..]).arg(&tail).arg(&millis(claim.ttl));
        }
        reply::renewed(connection.call(Script::RenewShared, command, options).await?, claims)
    }

    /// Takes the lock away from one of those who hold it together.
    pub(super) async fn revoke_shared(
        &self,
        connection: &Connection,
        keys: Keys<'_>,
        member: &[u8],
        how: Revoke,
    ) -> Result<bool> {
        connection.learn_to_share(self.options()).await?;
        let (id, tail) = record::split(member);
        let mut command = self.call_on(connection, Script::RevokeShared, keys);
        command.arg(member);
        if how.is_now() {
            command.arg(id);
        }
        let is_there = match connection.call(Script::RevokeShared, command, self.options()).await? {
            Value::Int(done) => done == 1,
            _ => return Err(reply::protocol_error()),
        };
        match is_there && how.is_now() {
            true => {
                Ok(self.release_value(connection, Script::Leave, keys, id, tail).await? == Released::Freed)
            }
            false => Ok(is_there),
        }
    }
}
