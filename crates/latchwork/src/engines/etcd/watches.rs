//! Keys that are watched over one connection, on one stream.
//!
//! A watch begins at no revision: it joins those that the server serves at once. (One that begins at a revision which is
//! over already is served by a loop that runs ten times a second.) So it tells nothing of what was before it was created:
//! whoever watches looks once more then.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use tokio::sync::{Notify, mpsc};
use tokio_stream::Stream;
use tonic::{Status, Streaming};

use super::connection::{Closed, Connection};
use super::keys::is_revoked;
use super::wire::{Event, Order, PUT, WATCH, WatchCancel, WatchCreate, WatchRequest, WatchResponse};
use crate::engine::{Boxed, ClaimId};
use crate::engines::lost_hints::LossHints;
use crate::poison::lock_ignoring_poison;

/// What is watched over one connection.
pub(super) struct Watches {
    orders: Mutex<Option<mpsc::UnboundedSender<WatchRequest>>>,
    table: Arc<Table>,
    closed: Arc<Closed>,
}

#[derive(Default)]
struct Table {
    watched: Mutex<HashMap<i64, Arc<Watched>>>,
    last: Mutex<i64>,
}

/// One watched key. The watch ends when this is dropped.
pub(super) struct Watch {
    id: i64,
    watched: Arc<Watched>,
    table: Arc<Table>,
    orders: mpsc::UnboundedSender<WatchRequest>,
}

struct Watched {
    seen: Mutex<Seen>,
    bell: Bell,
    created: Notify,
}

/// What the server has said of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Seen {
    /// It is watched from here on.
    pub(super) is_created: bool,
    /// Something happened to it, or nobody watches it any more.
    pub(super) is_changed: bool,
    /// It was written again while it was there, which its client never does.
    pub(super) is_revoked: bool,
}

/// Whom to tell.
pub(super) enum Bell {
    /// A task that waits.
    Waiter(Arc<Notify>),
    /// The keeper, that this claim is in doubt.
    Holder(ClaimId, Arc<LossHints>),
}

impl Watches {
    pub(super) fn new(closed: Arc<Closed>) -> Self {
        Self { orders: Mutex::default(), table: Arc::default(), closed }
    }

    /// Watches `key` from about now on: from when it is seen to be created.
    pub(super) fn watch(&self, connection: &Connection, key: Vec<u8>, bell: Bell) -> Watch {
        self.watch_all(connection, (key, Vec::new()), bell)
    }

    /// Reads again what happened to `key` from a revision on. Slower, and the server may have forgotten it.
    pub(super) fn watch_since(
        &self,
        connection: &Connection,
        key: Vec<u8>,
        bell: Bell,
        revision: i64,
    ) -> Watch {
        self.begin(connection, (key, Vec::new()), bell, revision)
    }

    /// The same for all keys from one up to but not including another.
    pub(super) fn watch_all(&self, connection: &Connection, keys: (Vec<u8>, Vec<u8>), bell: Bell) -> Watch {
        self.begin(connection, keys, bell, 0)
    }

    fn begin(
        &self,
        connection: &Connection,
        keys: (Vec<u8>, Vec<u8>),
        bell: Bell,
        start_revision: i64,
    ) -> Watch {
        let (key, range_end) = keys;
        let id = self.table.draw_id();
        let watched = Arc::new(Watched { seen: Mutex::default(), bell, created: Notify::new() });
        lock_ignoring_poison(&self.table.watched).insert(id, watched.clone());
        let watch = Watch { id, watched, table: self.table.clone(), orders: self.orders(connection) };
        watch.order(Order::Create(WatchCreate { key, range_end, start_revision, watch_id: id }));
        if self.closed.is_set() {
            watch.watched.change(); // Whoever read the stream may have told all others before.
        }
        watch
    }

    fn orders(&self, connection: &Connection) -> mpsc::UnboundedSender<WatchRequest> {
        let mut orders = lock_ignoring_poison(&self.orders);
        let open = || {
            let (orders, receiver) = mpsc::unbounded_channel();
            let reading = Reading { table: self.table.clone(), closed: self.closed.clone() };
            let stream = connection.stream(WATCH, Orders(receiver));
            tokio::spawn(async move {
                // Do not wait for events of an abandoned connection: others deliver them sooner, and the wait
                // would keep it open.
                tokio::select! {
                    () = reading.closed.until_set() => {}
                    () = read(stream, &reading) => {}
                }
            });
            orders
        };
        orders.get_or_insert_with(open).clone()
    }
}

impl Table {
    /// Never 0: that would leave the choice to the server.
    fn draw_id(&self) -> i64 {
        let mut last = lock_ignoring_poison(&self.last);
        *last += 1;
        *last
    }
}

impl Watch {
    pub(super) fn seen(&self) -> Seen {
        *lock_ignoring_poison(&self.watched.seen)
    }

    /// Until the server watches, or never will.
    pub(super) async fn until_created(&self) {
        while self.seen() == Seen::default() {
            self.watched.created.notified().await;
        }
    }

    /// Until something happened, or nobody will tell.
    pub(super) async fn until_changed(&self) {
        while !self.seen().is_changed {
            self.watched.created.notified().await;
        }
    }

    fn order(&self, order: Order) {
        // If nobody reads them, the stream is over, and whoever read it said so.
        let _ = self.orders.send(WatchRequest { order: Some(order) });
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        lock_ignoring_poison(&self.table.watched).remove(&self.id);
        self.order(Order::Cancel(WatchCancel { watch_id: self.id }));
    }
}

impl Watched {
    fn created(&self) {
        lock_ignoring_poison(&self.seen).is_created = true;
        self.created.notify_one();
        if let Bell::Waiter(bell) = &self.bell {
            bell.notify_one();
        }
    }

    fn change(&self) {
        lock_ignoring_poison(&self.seen).is_changed = true;
        self.created.notify_one();
        match &self.bell {
            Bell::Waiter(bell) => bell.notify_one(),
            Bell::Holder(id, news) => news.tell(*id),
        }
    }
}

/// The reader of the stream. When it ends, nobody watches any more.
struct Reading {
    table: Arc<Table>,
    closed: Arc<Closed>,
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.closed.set();
        let watched: Vec<_> = lock_ignoring_poison(&self.table.watched).values().cloned().collect();
        watched.iter().for_each(|watched| watched.change());
    }
}

async fn read(opening: Boxed<Result<Streaming<WatchResponse>, Status>>, reading: &Reading) {
    let Ok(mut answers) = opening.await else { return };
    while let Ok(Some(answer)) = answers.message().await {
        // Refused, and by a number that is nobody's: the stream is another user's by now, and all begin anew.
        if answer.created && answer.canceled {
            return;
        }
        let watched = lock_ignoring_poison(&reading.table.watched).get(&answer.watch_id).cloned();
        let Some(watched) = watched else { continue };
        if answer.created {
            watched.created();
        }
        if answer.canceled || !answer.events.is_empty() {
            let revokes = |event: &Event| event.kind == PUT && event.kv.as_ref().is_some_and(is_revoked);
            lock_ignoring_poison(&watched.seen).is_revoked |= answer.events.iter().any(revokes);
            watched.change();
        }
    }
}

/// What is sent on the stream.
struct Orders(mpsc::UnboundedReceiver<WatchRequest>);

impl Stream for Orders {
    type Item = WatchRequest;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<WatchRequest>> {
        self.0.poll_recv(context)
    }
}
