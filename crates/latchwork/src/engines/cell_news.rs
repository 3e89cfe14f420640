//! What the server said of cells that are watched through one connection.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex};

use tokio::sync::Notify;

use crate::Result;
use crate::locked::locked;

/// The channels that a connection listens to for the sake of cells. When the connection ends, all are told.
#[derive(Default)]
pub(super) struct CellNews {
    channels: Mutex<HashMap<String, Arc<Notify>>>,
}

impl CellNews {
    fn bell(&self, channel: &str) -> Arc<Notify> {
        locked(&self.channels).entry(channel.to_owned()).or_default().clone()
    }

    /// Something was said on this channel.
    pub(super) fn tell(&self, channel: &str) {
        if let Some(bell) = locked(&self.channels).get(channel) {
            bell.notify_waiters();
        }
    }

    /// Nothing is heard any more.
    pub(super) fn tell_all(&self) {
        locked(&self.channels).values().for_each(|bell| bell.notify_waiters());
    }

    /// Ends with the next message on `channel`, or at once if `begin`, which makes the server speak there and then looks,
    /// found a change already.
    pub(super) async fn until_told(
        &self,
        channel: &str,
        begin: impl Future<Output = Result<bool>>,
    ) -> Result<()> {
        let bell = self.bell(channel);
        let mut told = std::pin::pin!(bell.notified());
        // Before the look: what is said after it is heard.
        told.as_mut().enable();
        if !begin.await? {
            told.await;
        }
        Ok(())
    }
}

/// Lives in what drives the connection, and is dropped with it.
pub(super) struct CellNewsDriven(pub(super) Arc<CellNews>);

impl Drop for CellNewsDriven {
    fn drop(&mut self) {
        self.0.tell_all();
    }
}
