//! The holders and waiters of locks.

use super::Redis;
use super::connection::Connection;
use super::keys::Keys;
use super::script_replies::{self, InspectedLock};
use super::scripts::Script;
use super::wire::Command;
use crate::engine::{Filter, LockState};
use crate::{LockName, Result};

/// The number of locks in one request.
const BATCH: usize = 20;
/// The maximum number of waiters in the state of one lock.
const MAX_WAITERS_SHOWN: u64 = 1_000;

impl Redis {
    pub(super) async fn inspect_locks(&self, filter: &Filter) -> Result<Vec<LockState>> {
        let connection = self.session.connection().await?;
        let names = match filter {
            Filter::Name(name) => vec![name.clone()],
            Filter::Prefix(_) => self.names(&connection, filter).await?,
        };
        let mut states = Vec::new();
        for names in names.chunks(BATCH) {
            for (name, lock) in names.iter().zip(self.inspect_batch(&connection, names).await?) {
                let mut state = LockState::new(name.clone());
                state.holders = lock.holders();
                state.waiters = lock.waiters;
                if !(state.holders.is_empty() && state.waiters.is_empty()) {
                    states.push(state);
                }
            }
        }
        Ok(states)
    }

    pub(super) async fn inspect_batch(
        &self,
        connection: &Connection,
        names: &[LockName],
    ) -> Result<Vec<InspectedLock>> {
        let mut command = connection.script(Script::Inspect, 4 * names.len(), 256 * names.len());
        for name in names {
            Keys::of(&self.options().prefix, name)?.write(&mut command);
        }
        command.arg(&MAX_WAITERS_SHOWN);
        let reply = connection.call(Script::Inspect, command, self.options()).await?;
        script_replies::inspected(reply, names.len())
    }

    /// Every lock with a grant in the last day. SCAN finds them in steps, so the server never stops to list
    /// its keys.
    async fn names(&self, connection: &Connection, filter: &Filter) -> Result<Vec<LockName>> {
        let (mut names, mut cursor) = (Vec::new(), "0".to_owned());
        loop {
            let scan = Command::of(&["SCAN", &cursor, "MATCH", &Keys::fence_pattern(), "COUNT", "1000"]);
            let (next, fences) = script_replies::scanned(connection.command(scan, self.options()).await?)?;
            let found = fences.iter().filter_map(|fence| Keys::name_of(&self.options().prefix, fence));
            names.extend(found.filter(|name| filter.matches(name)));
            cursor = next;
            if cursor == "0" {
                names.sort();
                names.dedup();
                return Ok(names);
            }
        }
    }
}
