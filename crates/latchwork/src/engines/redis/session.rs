//! The state that the handles of one client share: its connections, its waiting claims, and what it knows of
//! the server.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::connection::Connection;
use super::info::ServerInfo;
use super::lua::layout::CHANNEL_PREFIX;
use super::options::Options;
use super::record;
use crate::Result;
use crate::engines::quarantine::RestartTracker;
use crate::engines::waiter_table::WaiterTable;
use crate::net::per_runtime::PerRuntime;
use crate::poison::lock_ignoring_poison;

/// One client's session with one server.
pub(super) struct Session {
    pub(super) options: Options,
    pub(super) waiters: Arc<WaiterTable>,
    /// The channel to which the server publishes messages for this client.
    channel: String,
    connections: PerRuntime<Connection>,
    known_server: Mutex<KnownServer>,
}

/// The restarts and the settings of the server, as far as this client has seen them.
#[derive(Default)]
struct KnownServer {
    lives: RestartTracker,
    warnings: Vec<String>,
}

impl Session {
    pub(super) fn new(options: Options) -> Self {
        let channel = [CHANNEL_PREFIX, &record::random_channel_id()].concat();
        Self {
            options,
            waiters: Arc::default(),
            channel,
            connections: PerRuntime::default(),
            known_server: Mutex::default(),
        }
    }

    /// The connection of this runtime, opened if there is none that works.
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
        if let Some(distinct_masters) = &self.options.distinct_masters {
            distinct_masters.admit(&self.options.shown_as, &server.run_id)?;
        }
        // Waiting claims must be reachable without a gap: the old connection is replaced once this one has
        // subscribed.
        if self.waiters.waiting() > 0 {
            connection.listen(&self.channel, &self.options).await?;
        }
        lock_ignoring_poison(&self.known_server).connected(&server, &self.options);
        Ok(connection)
    }

    /// The connection of this runtime, subscribed to this client's channel.
    ///
    /// # Errors
    /// As [`Self::connection`].
    pub(super) async fn listening_connection(&self) -> Result<Arc<Connection>> {
        let connection = self.connection().await?;
        if !connection.is_listening() {
            Box::pin(connection.listen(&self.channel, &self.options)).await?;
        }
        Ok(connection)
    }

    /// The id in the name of this client's channel.
    pub(super) fn channel_id(&self) -> &str {
        &self.channel[CHANNEL_PREFIX.len()..]
    }

    /// How long the server must not grant locks yet.
    pub(super) fn quarantine(&self) -> Option<Duration> {
        lock_ignoring_poison(&self.known_server).lives.quarantine()
    }

    /// Warnings about the server's settings.
    pub(super) fn warnings(&self) -> Vec<String> {
        lock_ignoring_poison(&self.known_server).warnings.clone()
    }
}

impl KnownServer {
    fn connected(&mut self, server: &ServerInfo, options: &Options) {
        self.warnings = server.warnings();
        let rule = (options.quarantine, options.max_ttl);
        self.lives.record_run(&server.run_id, server.uptime, !server.is_durable, rule);
    }
}
