//! Watches of nodes.

/// The event of a watched node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum NodeEvent {
    Changed,
    Deleted,
    /// The connection broke, and a new one was opened: the node may have changed in between.
    ConnectionLost,
}

/// Receives the next event of a node.
pub(in super::super) type Watcher = Box<dyn EventListener>;

/// The behaviour of a [`Watcher`].
pub(in super::super) trait EventListener: Send {
    /// Called once, on the session's thread.
    fn notify(self: Box<Self>, event: NodeEvent);

    /// Whether the event is still of use. The server reports only the next change, which may never
    /// come. Until then unwanted watchers would pile up.
    fn is_wanted(&self) -> bool {
        true
    }
}

impl<F: FnOnce(NodeEvent) + Send> EventListener for F {
    fn notify(self: Box<Self>, event: NodeEvent) {
        self(event);
    }
}
