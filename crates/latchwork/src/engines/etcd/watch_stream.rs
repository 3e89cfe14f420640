//! All watches over one connection, on one gRPC stream.
//!
//! A watch is created without a start revision: the server then reports changes at once. (A watch from a past
//! revision belongs to a loop that runs ten times a second.) Such a watch does not report earlier changes, so
//! its client reads the keys once more after the watch was created.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use tokio::sync::mpsc;
use tokio_stream::Stream;
use tonic::{Status, Streaming};

use super::close_signal::CloseSignal;
use super::connection::Connection;
use super::key_watch::{KeyWatch, WatchRecipient, WatchState};
use super::keys::is_revoked;
use super::wire::{Event, EventType, WATCH, WatchRequest, WatchResponse};
use crate::engine::Boxed;
use crate::poison::lock_ignoring_poison;

/// The watch stream of one connection, opened with the first watch.
pub(super) struct WatchStream {
    requests: Mutex<Option<mpsc::UnboundedSender<WatchRequest>>>,
    table: Arc<WatchTable>,
    closed: Arc<CloseSignal>,
}

/// The watches of one stream, by their ids.
#[derive(Default)]
pub(super) struct WatchTable {
    watches: Mutex<HashMap<i64, Arc<WatchState>>>,
    last_id: Mutex<i64>,
}

impl WatchStream {
    pub(super) fn new(closed: Arc<CloseSignal>) -> Self {
        Self { requests: Mutex::default(), table: Arc::default(), closed }
    }

    /// Watches `key` from the time when the watch is created.
    pub(super) fn watch(&self, connection: &Connection, key: Vec<u8>, recipient: WatchRecipient) -> KeyWatch {
        self.watch_range(connection, (key, Vec::new()), recipient)
    }

    /// Watches all keys from the first up to but not including the second.
    pub(super) fn watch_range(
        &self,
        connection: &Connection,
        keys: (Vec<u8>, Vec<u8>),
        recipient: WatchRecipient,
    ) -> KeyWatch {
        self.create(connection, keys, recipient, 0)
    }

    /// Replays the changes of `key` from a past revision on. Slower, and fails if that revision was
    /// compacted.
    pub(super) fn watch_since(
        &self,
        connection: &Connection,
        key: Vec<u8>,
        recipient: WatchRecipient,
        revision: i64,
    ) -> KeyWatch {
        self.create(connection, (key, Vec::new()), recipient, revision)
    }

    fn create(
        &self,
        connection: &Connection,
        keys: (Vec<u8>, Vec<u8>),
        recipient: WatchRecipient,
        start_revision: i64,
    ) -> KeyWatch {
        let requests = self.requests(connection);
        let watch = KeyWatch::create(&self.table, requests, keys, recipient, start_revision);
        if self.closed.is_set() {
            watch.set_changed(); // The reader may have marked the other watches before this one was registered.
        }
        watch
    }

    fn requests(&self, connection: &Connection) -> mpsc::UnboundedSender<WatchRequest> {
        let mut requests = lock_ignoring_poison(&self.requests);
        let open = || {
            let (requests, receiver) = mpsc::unbounded_channel();
            let reader = WatchReader { table: self.table.clone(), closed: self.closed.clone() };
            let stream = connection.open_stream(WATCH, WatchRequests(receiver));
            tokio::spawn(async move {
                // Do not wait for events of an abandoned connection: others deliver them sooner, and the wait
                // would keep it open.
                tokio::select! {
                    () = reader.closed.until_set() => {}
                    () = reader.read(stream) => {}
                }
            });
            requests
        };
        requests.get_or_insert_with(open).clone()
    }
}

impl WatchTable {
    /// Adds a watch, and returns its id. An id is never 0: the server would choose one.
    pub(super) fn insert(&self, state: Arc<WatchState>) -> i64 {
        let id = {
            let mut last_id = lock_ignoring_poison(&self.last_id);
            *last_id += 1;
            *last_id
        };
        lock_ignoring_poison(&self.watches).insert(id, state);
        id
    }

    pub(super) fn remove(&self, id: i64) {
        lock_ignoring_poison(&self.watches).remove(&id);
    }
}

/// The reader of the stream. When it is dropped, all watches have ended.
struct WatchReader {
    table: Arc<WatchTable>,
    closed: Arc<CloseSignal>,
}

impl WatchReader {
    async fn read(&self, opening: Boxed<Result<Streaming<WatchResponse>, Status>>) {
        let Ok(mut responses) = opening.await else { return };
        while let Ok(Some(response)) = responses.message().await {
            // The watch was refused, and its id is not sent back. The stream's authentication is no longer
            // valid, so all watches have to be created again on another connection.
            if response.created && response.canceled {
                return;
            }
            let state = lock_ignoring_poison(&self.table.watches).get(&response.watch_id).cloned();
            let Some(state) = state else { continue };
            if response.created {
                state.set_created();
            }
            if response.canceled || !response.events.is_empty() {
                let revokes = |event: &Event| {
                    event.r#type == i32::from(EventType::Put) && event.kv.as_ref().is_some_and(is_revoked)
                };
                if response.events.iter().any(revokes) {
                    state.set_revoked();
                }
                state.set_changed();
            }
        }
    }
}

impl Drop for WatchReader {
    fn drop(&mut self) {
        self.closed.set();
        let states: Vec<_> = lock_ignoring_poison(&self.table.watches).values().cloned().collect();
        states.iter().for_each(|state| state.set_changed());
    }
}

/// The requests on the stream.
struct WatchRequests(mpsc::UnboundedReceiver<WatchRequest>);

impl Stream for WatchRequests {
    type Item = WatchRequest;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<WatchRequest>> {
        self.0.poll_recv(context)
    }
}
