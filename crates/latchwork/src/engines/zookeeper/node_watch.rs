//! Whether the server reports the next change of a node.

use std::sync::{Arc, Weak};

use tokio::sync::Notify;

use super::wire::{EventListener, NodeEvent, Watcher};

/// A watch of a node, as its claim sees it. The watch is active until the server has reported a change, the
/// request has failed, or the connection is lost.
#[derive(Clone, Debug, Default)]
pub(super) struct NodeWatch(Weak<ActiveWatch>);

/// Lives as long as the watcher of a node.
#[derive(Debug)]
struct ActiveWatch {
    notify: Arc<Notify>,
}

/// Receives a node's event for as long as its [`NodeWatch`] exists.
struct NodeListener<F> {
    active: Arc<ActiveWatch>,
    on_event: F,
}

impl<F: FnOnce(NodeEvent) + Send> EventListener for NodeListener<F> {
    fn notify(self: Box<Self>, event: NodeEvent) {
        (self.on_event)(event);
    }

    fn is_wanted(&self) -> bool {
        Arc::weak_count(&self.active) > 0
    }
}

/// However the watch ends, its claim is notified: a task that found the watch active while its request was in
/// flight relies on learning of the failure.
impl Drop for ActiveWatch {
    fn drop(&mut self) {
        self.notify.notify_one();
    }
}

impl NodeWatch {
    /// A watch that is active from now on, also while its request is in flight: an event right behind the
    /// reply must not be missed. `notify` is notified when the watch ends.
    pub(super) fn begin(
        notify: Arc<Notify>,
        on_event: impl FnOnce(NodeEvent) + Send + 'static,
    ) -> (Self, Watcher) {
        let active = Arc::new(ActiveWatch { notify });
        let watch = Self(Arc::downgrade(&active));
        (watch, Box::new(NodeListener { active, on_event }))
    }

    pub(super) fn is_active(&self) -> bool {
        self.0.strong_count() > 0
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    async fn is_notified(notify: &Notify) -> bool {
        tokio::time::timeout(Duration::from_millis(50), notify.notified()).await.is_ok()
    }

    #[tokio::test]
    async fn a_watch_that_ends_notifies_also_if_its_request_failed() {
        let notify = Arc::new(Notify::new());
        let (watch, watcher) = NodeWatch::begin(notify.clone(), |_| {});
        assert!(watch.is_active() && !is_notified(&notify).await);
        assert!(watcher.is_wanted());
        watcher.notify(NodeEvent::Deleted);
        assert!(!watch.is_active() && is_notified(&notify).await, "the server has reported an event");

        let (watch, watcher) = NodeWatch::begin(notify.clone(), |_| {});
        drop(watcher);
        assert!(!watch.is_active() && is_notified(&notify).await, "the server never watched");

        let (watch, watcher) = NodeWatch::begin(notify.clone(), |_| {});
        drop(watch);
        assert!(!watcher.is_wanted(), "its claim is forgotten");
    }
}
