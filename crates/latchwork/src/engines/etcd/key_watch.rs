//! One watched key, or range of keys.

use std::sync::{Arc, Mutex};

use tokio::sync::{Notify, mpsc};

use super::watch_stream::WatchTable;
use super::wire::{WatchCancelRequest, WatchCreateRequest, WatchRequest, WatchRequestUnion};
use crate::engine::ClaimId;
use crate::engines::lost_hints::LossHints;
use crate::poison::lock_ignoring_poison;

/// One watch. Dropping it cancels it.
pub(super) struct KeyWatch {
    id: i64,
    state: Arc<WatchState>,
    table: Arc<WatchTable>,
    requests: mpsc::UnboundedSender<WatchRequest>,
}

/// The state of a watch, shared with the reader of the stream.
pub(super) struct WatchState {
    status: Mutex<WatchStatus>,
    recipient: WatchRecipient,
    changed: Notify,
}

/// The reports of the server on one watch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct WatchStatus {
    /// The server reports changes from here on.
    pub(super) is_created: bool,
    /// A key was changed, or the watch has ended.
    pub(super) is_changed: bool,
    /// The key was written again while it existed, which its claim's client never does.
    pub(super) is_revoked: bool,
}

/// The task that is notified of a change.
pub(super) enum WatchRecipient {
    /// A waiting task.
    Waiter(Arc<Notify>),
    /// The keeper: this claim may be lost.
    Keeper(ClaimId, Arc<LossHints>),
}

impl KeyWatch {
    /// Registers a watch, and requests it from the server.
    pub(super) fn create(
        table: &Arc<WatchTable>,
        requests: mpsc::UnboundedSender<WatchRequest>,
        (key, range_end): (Vec<u8>, Vec<u8>),
        recipient: WatchRecipient,
        start_revision: i64,
    ) -> Self {
        let status = Mutex::default();
        let state = Arc::new(WatchState { status, recipient, changed: Notify::new() });
        let id = table.insert(state.clone());
        let watch = Self { id, state, table: table.clone(), requests };
        let request = WatchCreateRequest { key, range_end, start_revision, watch_id: id };
        watch.send(WatchRequestUnion::Create(request));
        watch
    }

    pub(super) fn status(&self) -> WatchStatus {
        *lock_ignoring_poison(&self.state.status)
    }

    /// Reports a change to the recipient.
    pub(super) fn set_changed(&self) {
        self.state.set_changed();
    }

    /// Waits until the server has created the watch, or never will.
    pub(super) async fn until_created(&self) {
        while self.status() == WatchStatus::default() {
            self.state.changed.notified().await;
        }
    }

    /// Waits until a key was changed, or the watch has ended.
    pub(super) async fn until_changed(&self) {
        while !self.status().is_changed {
            self.state.changed.notified().await;
        }
    }

    fn send(&self, request: WatchRequestUnion) {
        // Fails if the stream has ended. Its reader has marked all watches as changed then.
        let _ = self.requests.send(WatchRequest { request_union: Some(request) });
    }
}

impl Drop for KeyWatch {
    fn drop(&mut self) {
        self.table.remove(self.id);
        self.send(WatchRequestUnion::Cancel(WatchCancelRequest { watch_id: self.id }));
    }
}

impl WatchState {
    pub(super) fn set_created(&self) {
        lock_ignoring_poison(&self.status).is_created = true;
        self.changed.notify_one();
        if let WatchRecipient::Waiter(notify) = &self.recipient {
            notify.notify_one();
        }
    }

    pub(super) fn set_changed(&self) {
        lock_ignoring_poison(&self.status).is_changed = true;
        self.changed.notify_one();
        match &self.recipient {
            WatchRecipient::Waiter(notify) => notify.notify_one(),
            WatchRecipient::Keeper(id, hints) => hints.tell(*id),
        }
    }

    pub(super) fn set_revoked(&self) {
        lock_ignoring_poison(&self.status).is_revoked = true;
    }
}
