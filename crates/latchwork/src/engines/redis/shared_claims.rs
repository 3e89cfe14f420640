//! Renewal of claims that hold together with others: readers and permits.

use std::sync::Arc;

use super::keys::Keys;
use super::renew::for_each;
use super::scripts::{Script, is_shared};
use super::{Redis, millis, record, script_replies};
use crate::Result;
use crate::engine::{Claim, Renewal};

impl Redis {
    /// Renews claims of all modes: two requests, sent together.
    pub(super) async fn renew_mixed(&self, claims: &[Arc<Claim>]) -> Vec<Result<Renewal>> {
        let (shared, exclusive): (Vec<_>, Vec<_>) =
            claims.iter().cloned().partition(|claim| is_shared(claim.mode));
        let renew_exclusive = async {
            match &exclusive[..] {
                [] => Vec::new(),
                exclusive => for_each(exclusive, self.renew_exclusive(exclusive).await),
            }
        };
        let (of_shared, of_exclusive) = tokio::join!(self.renew_shared(&shared), renew_exclusive);
        let (mut of_shared, mut of_exclusive) =
            (for_each(&shared, of_shared).into_iter(), of_exclusive.into_iter());
        let answer = |claim: &Arc<Claim>| match is_shared(claim.mode) {
            true => of_shared.next(),
            false => of_exclusive.next(),
        };
        claims.iter().filter_map(answer).collect()
    }

    async fn renew_shared(&self, claims: &[Arc<Claim>]) -> Result<Vec<Renewal>> {
        let (options, connection) = (self.options(), self.session.connection().await?);
        connection.load_shared_scripts(options).await?;
        let mut command = connection.script(Script::RenewShared, 4 * claims.len(), 512 * claims.len());
        for claim in claims {
            Keys::of(&options.prefix, &claim.name)?.write(&mut command);
        }
        for claim in claims {
            let tail = record::Tail(claim, self.session.channel_id());
            command.arg(&record::encode_id(claim.id)[..]).arg(&tail).arg(&millis(claim.ttl));
        }
        script_replies::renewals(connection.call(Script::RenewShared, command, options).await?, claims)
    }
}
