//! Delivers messages from the FIFO of a session to the claims that wait for them.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, Weak};

use tokio::net::unix::pipe::Receiver;
use tokio::runtime::{self, Handle};
use tokio::sync::Notify;
use tokio::task::AbortHandle;

use super::message::FifoMessage;
use super::session::Session;
use crate::engine::ClaimId;
use crate::poison::lock_ignoring_poison;

/// The waiting claims of one session.
#[derive(Default)]
pub(super) struct Doorbell {
    state: Arc<Mutex<DoorbellState>>,
}

#[derive(Default)]
struct DoorbellState {
    claims: HashMap<ClaimId, WaitingClaim>,
    /// One for each runtime that a task waits in. A runtime that no thread drives must not keep messages from
    /// the others.
    readers: HashMap<runtime::Id, ReaderTask>,
    readers_started: u64,
}

/// A reader that runs, or is about to.
struct ReaderTask {
    number: u64,
    task: Option<AbortHandle>,
}

/// A claim's place in a queue.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct QueuePosition {
    /// Zero: not known.
    pub(super) ticket: i64,
    /// Zero: not granted.
    pub(super) token: u64,
}

#[derive(Default)]
struct WaitingClaim {
    position: QueuePosition,
    message: Option<FifoMessage>,
    bell: Arc<Notify>,
}

impl Doorbell {
    /// Keeps messages for `id` from now on. Called before the claim is queued, because a message may arrive
    /// before `wait` is called.
    pub(super) fn expect(&self, id: ClaimId) {
        lock_ignoring_poison(&self.state).claims.entry(id).or_default();
    }

    /// Stores the claim's place in its queue, and its token if it was granted there.
    pub(super) fn set_position(&self, id: ClaimId, position: QueuePosition) {
        if let Some(claim) = lock_ignoring_poison(&self.state).claims.get_mut(&id) {
            claim.position = position;
        }
    }

    /// Forgets a claim. Returns its place if it was ever queued.
    pub(super) fn forget(&self, id: ClaimId) -> Option<QueuePosition> {
        lock_ignoring_poison(&self.state).claims.remove(&id).map(|claim| claim.position)
    }

    /// The next message for `id`, which must be expected. May be dropped at any time: a message stays until
    /// it is returned.
    pub(super) async fn next(&self, id: ClaimId, session: &Session) -> io::Result<FifoMessage> {
        loop {
            start_reader(&self.state, session)?;
            let bell = match lock_ignoring_poison(&self.state).claims.get_mut(&id) {
                None => return Ok(FifoMessage::recheck(id)),
                Some(claim) => match claim.message.take() {
                    Some(message) => return Ok(message),
                    None => claim.bell.clone(),
                },
            };
            bell.notified().await;
        }
    }

    /// Reads from the session's new descriptor: every reader ends, and each waiting task starts another and
    /// claims again, because messages that the old reader had not read are lost.
    pub(super) fn restart(&self) {
        let readers = {
            let mut state = lock_ignoring_poison(&self.state);
            let ids: Vec<_> = state.claims.keys().copied().collect();
            ids.into_iter().for_each(|id| state.deliver(FifoMessage::recheck(id)));
            std::mem::take(&mut state.readers)
        };
        // After the mutex is unlocked: the drop of a reader locks it as well.
        readers.into_values().filter_map(|reader| reader.task).for_each(|task| task.abort());
    }
}

impl Drop for Doorbell {
    fn drop(&mut self) {
        self.restart();
    }
}

impl DoorbellState {
    fn deliver(&mut self, message: FifoMessage) {
        if let Some(claim) = self.claims.get_mut(&message.id) {
            // A grant is never overwritten by a recheck.
            if message.is_grant() {
                claim.position.token = message.token;
            }
            if message.is_grant() || claim.message.is_none() {
                claim.message = Some(message);
            }
            claim.bell.notify_one();
        }
    }
}

/// Starts a reader on the current runtime, unless one runs there.
fn start_reader(state: &Arc<Mutex<DoorbellState>>, session: &Session) -> io::Result<()> {
    let runtime = Handle::current();
    if lock_ignoring_poison(state).readers.contains_key(&runtime.id()) {
        return Ok(());
    }
    let fifo = Receiver::from_owned_fd(session.descriptor()?)?;
    let number = {
        let mut state = lock_ignoring_poison(state);
        if state.readers.contains_key(&runtime.id()) {
            return Ok(()); // Another task started one in between.
        }
        state.readers_started += 1;
        let number = state.readers_started;
        state.readers.insert(runtime.id(), ReaderTask { number, task: None });
        number
    };
    let reader = FifoReader { state: Arc::downgrade(state), runtime: runtime.id(), number };
    // Not while the mutex is locked: a runtime that shuts down drops the task inside `spawn`.
    let task = runtime.spawn(reader.run(fifo)).abort_handle();
    match lock_ignoring_poison(state).readers.get_mut(&runtime.id()).filter(|reader| reader.number == number)
    {
        Some(reader) => reader.task = Some(task),
        None => task.abort(), // Restarted in between.
    }
    Ok(())
}

/// The task that reads the FIFO. When it ends (its runtime may), every waiting task claims again, and one of
/// them starts another reader.
struct FifoReader {
    state: Weak<Mutex<DoorbellState>>,
    runtime: runtime::Id,
    number: u64,
}

impl FifoReader {
    async fn run(self, fifo: Receiver) -> io::Result<()> {
        loop {
            let messages = FifoMessage::read_from(&fifo).await?;
            let Some(state) = self.state.upgrade() else { return Ok(()) };
            let mut state = lock_ignoring_poison(&state);
            messages.into_iter().for_each(|message| state.deliver(message));
        }
    }
}

impl Drop for FifoReader {
    fn drop(&mut self) {
        if let Some(state) = self.state.upgrade() {
            let mut state = lock_ignoring_poison(&state);
            if state.readers.get(&self.runtime).is_some_and(|reader| reader.number == self.number) {
                state.readers.remove(&self.runtime);
            }
            state.claims.values().for_each(|claim| claim.bell.notify_one());
        }
    }
}
