//! What the handles of one client share: its connections, its mailbox, and what it knows of the server.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::connection::Connection;
use super::info::ServerInfo;
use super::options::Options;
use super::record;
use crate::Result;
use crate::engines::quarantine::RestartTracker;
use crate::engines::waiter_table::WaiterTable;
use crate::net::per_runtime::PerRuntime;
use crate::poison::lock_ignoring_poison;

/// Before every channel.
const CHANNELS: &str = "latchwork:";

/// One client's session with one server.
pub(super) struct Session {
    pub(super) options: Options,
    pub(super) waiters: Arc<WaiterTable>,
    /// Where the server sends what is for this client: `latchwork:` and its own digits.
    channel: String,
    connections: PerRuntime<Connection>,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    lives: RestartTracker,
    warnings: Vec<String>,
}

impl Session {
    pub(super) fn new(options: Options) -> Self {
        let channel = [CHANNELS, &record::draw_channel()].concat();
        Self {
            options,
            waiters: Arc::default(),
            channel,
            connections: PerRuntime::default(),
            known: Mutex::default(),
        }
    }

    /// The connection of this runtime, opened if it has none that works.
    ///
    /// # Errors
    /// If the server cannot be reached or used. Nothing was sent then.
    pub(super) async fn connection(&self) -> Result<Arc<Connection>> {
        self.connections.get(|| self.open()).await
    }

    async fn open(&self) -> Result<Connection> {
        let (connection, info) = Connection::open(&self.options, &self.waiters).await?;
        let server = ServerInfo::of(&info);
        server.check(&self.options)?;
        if let Some(roster) = &self.options.roster {
            roster.admit(&self.options.place, &server.run_id)?;
        }
        // Whoever waits must be heard of without a gap: the old connection goes when this one listens.
        if self.waiters.waiting() > 0 {
            connection.listen(&self.channel, &self.options).await?;
        }
        lock_ignoring_poison(&self.known).saw(&server, &self.options);
        Ok(connection)
    }

    /// The same, where the server's messages to this client arrive.
    pub(super) async fn listening_link(&self) -> Result<Arc<Connection>> {
        let connection = self.connection().await?;
        if !connection.is_listening() {
            Box::pin(connection.listen(&self.channel, &self.options)).await?;
        }
        Ok(connection)
    }

    /// This client's own digits in the name of its channel.
    pub(super) fn mark(&self) -> &str {
        &self.channel[CHANNELS.len()..]
    }

    /// How long the server must not be asked for locks yet.
    pub(super) fn quarantine(&self) -> Option<Duration> {
        lock_ignoring_poison(&self.known).lives.quarantine()
    }

    /// What a user should know of this server.
    pub(super) fn warnings(&self) -> Vec<String> {
        lock_ignoring_poison(&self.known).warnings.clone()
    }
}

impl Known {
    fn saw(&mut self, server: &ServerInfo, options: &Options) {
        self.warnings = server.warnings();
        let rule = (options.quarantine, options.max_ttl);
        self.lives.record_run(&server.run_id, server.uptime, !server.is_durable, rule);
    }
}
