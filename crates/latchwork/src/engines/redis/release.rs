//! Releases, which also leave the queue.

use super::connection::Connection;
use super::keys::Keys;
use super::script_replies::protocol_error;
use super::scripts::Script;
use super::wire::{Arg, Reply};
use super::{Redis, record};
use crate::Result;
use crate::engine::{Claim, Released};

impl Redis {
    pub(super) async fn release_or_leave(&self, claim: &Claim) -> Result<Released> {
        self.session.waiters.forget(claim.id);
        let keys = Keys::of(&self.options().prefix, &claim.name)?;
        let connection = self.session.connection().await?;
        let tail = record::Tail(claim, self.session.channel_id());
        let script = Script::for_release(claim.mode);
        if script.is_shared() {
            Box::pin(connection.load_shared_scripts(self.options())).await?;
        }
        self.release_value(&connection, script, keys, &record::encode_id(claim.id), &tail).await
    }

    pub(super) async fn release_value(
        &self,
        connection: &Connection,
        script: Script,
        keys: Keys<'_>,
        value: &[u8],
        tail: &(impl Arg + ?Sized),
    ) -> Result<Released> {
        let mut command = self.script_call(connection, script, keys);
        command.arg(value).arg(tail);
        match connection.call(script, command, self.options()).await? {
            Reply::Int(0) => Ok(Released::NotHeld),
            Reply::Int(_) => Ok(Released::Freed),
            _ => Err(protocol_error()),
        }
    }
}
