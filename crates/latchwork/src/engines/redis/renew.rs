//! Renewal of held claims, all in one request.

use std::sync::Arc;

use super::keys::Keys;
use super::scripts::{Script, is_shared};
use super::{Redis, millis, record, script_replies};
use crate::Result;
use crate::engine::{Claim, Renewal};

impl Redis {
    pub(super) async fn renew_each(&self, claims: &[Arc<Claim>]) -> Vec<Result<Renewal>> {
        if claims.iter().any(|claim| is_shared(claim.mode)) {
            return Box::pin(self.renew_mixed(claims)).await;
        }
        for_each(claims, self.renew_exclusive(claims).await)
    }

    pub(super) async fn renew_exclusive(&self, claims: &[Arc<Claim>]) -> Result<Vec<Renewal>> {
        let values: Vec<_> = claims.iter().map(|claim| record::encode_id(claim.id)).collect();
        self.renew_values(claims, &values).await
    }

    /// Renews claims whose shared keys have these values.
    pub(super) async fn renew_values(
        &self,
        claims: &[Arc<Claim>],
        values: &[impl AsRef<[u8]>],
    ) -> Result<Vec<Renewal>> {
        let (options, connection) = (self.options(), self.session.connection().await?);
        let keys =
            claims.iter().map(|claim| Keys::of(&options.prefix, &claim.name)).collect::<Result<Vec<_>>>()?;
        let mut command = connection.script(Script::Renew, 2 * claims.len(), 160 * claims.len());
        keys.iter().for_each(|keys| keys.write_holder(&mut command));
        keys.iter().for_each(|keys| keys.write_fence(&mut command));
        for value in values {
            command.arg(value.as_ref());
        }
        for claim in claims {
            command.arg(&millis(claim.ttl));
        }
        script_replies::renewals(connection.call(Script::Renew, command, options).await?, claims)
    }
}

/// The answer for each claim, from the answer to one request for all of them.
pub(super) fn for_each(claims: &[Arc<Claim>], answers: Result<Vec<Renewal>>) -> Vec<Result<Renewal>> {
    match answers {
        Ok(answers) => answers.into_iter().map(Ok).collect(),
        Err(error) => claims.iter().map(|_| Err(error.again())).collect(),
    }
}
