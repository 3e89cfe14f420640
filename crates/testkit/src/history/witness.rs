//! A witness of a lock's queue.

use std::collections::HashSet;
use std::time::Duration;

use latchwork::engine::{ClaimState, Filter};
use latchwork::{Client, LockName};
use tokio::task::JoinHandle;

use super::event::What;
use super::heading::Heading;
use super::recorder::Recorder;
use super::tag::Tag;

/// How often the witness looks.
const EVERY: Duration = Duration::from_millis(3);

/// Inspects the queue of a lock repeatedly until it is dropped, and records which signed attempts are in it.
/// From this the [`checks`](super::checks) know the order of arrival.
pub struct Witness {
    looking: JoinHandle<()>,
}

impl Witness {
    /// Inspects the lock through this client.
    pub fn of(lock: LockName, recorder: Recorder, client: Client) -> Self {
        let looking = tokio::spawn(async move {
            let (filter, mut seen) = (Filter::Name(lock.clone()), HashSet::new());
            loop {
                let found = client.inspect(&filter).await.unwrap_or_default();
                for (who, attempt) in found.iter().flat_map(|state| &state.waiters).filter_map(signed) {
                    if seen.insert((who, attempt)) {
                        recorder.note(who, attempt, Some(&lock), What::Queued);
                    }
                }
                tokio::time::sleep(EVERY).await;
            }
        });
        Self { looking }
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        self.looking.abort();
    }
}

/// `pid 4242 on host: client 1 attempt 17`.
fn signed(claim: &ClaimState) -> Option<(Tag, u64)> {
    let (process, signature) = claim.note.as_str().strip_prefix("pid ")?.split_once(": ")?;
    let (client, attempt) = Heading::read_signature(signature)?;
    Some((Tag { process: process.split(' ').next()?.parse().ok()?, client }, attempt))
}
