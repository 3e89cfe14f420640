//! What the handles of one client share: its connections, its mailbox, and what it knows of the server.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::link::Link;
use super::member;
use super::options::{Options, Quarantine};
use super::server::Server;
use crate::Result;
use crate::clock::{Clock, Moment};
use crate::engines::links::Links;
use crate::engines::mailbox::Mailbox;
use crate::locked::locked;

/// Before every channel.
const CHANNELS: &str = "latchwork:";

/// One client's session with one server.
pub(super) struct Session {
    pub(super) options: Options,
    pub(super) mailbox: Arc<Mailbox>,
    /// Where the server sends what is for this client: `latchwork:` and its own digits.
    channel: String,
    links: Links<Link>,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    run_id: Option<String>,
    /// Until when the server must not be asked for locks, because it may have forgotten some.
    quarantined: Option<Moment>,
    warnings: Vec<String>,
}

impl Session {
    pub(super) fn new(options: Options) -> Self {
        let channel = [CHANNELS, &member::draw_channel()].concat();
        Self { options, mailbox: Arc::default(), channel, links: Links::default(), known: Mutex::default() }
    }

    /// The connection of this runtime, opened if it has none that works.
    ///
    /// # Errors
    /// If the server cannot be reached or used. Nothing was sent then.
    pub(super) async fn link(&self) -> Result<Arc<Link>> {
        self.links.get(|| self.open()).await
    }

    async fn open(&self) -> Result<Link> {
        let (link, info) = Link::open(&self.options, &self.mailbox).await?;
        let server = Server::of(&info);
        server.check(&self.options)?;
        if let Some(roster) = &self.options.roster {
            roster.admit(&self.options.place, &server.run_id)?;
        }
        // Whoever waits must be heard of without a gap: the old connection goes when this one listens.
        if self.mailbox.waiting() > 0 {
            link.listen(&self.channel, &self.options).await?;
        }
        locked(&self.known).saw(&server, &self.options);
        Ok(link)
    }

    /// The same, where the server's messages to this client arrive.
    pub(super) async fn listening_link(&self) -> Result<Arc<Link>> {
        let link = self.link().await?;
        if !link.is_listening() {
            Box::pin(link.listen(&self.channel, &self.options)).await?;
        }
        Ok(link)
    }

    /// This client's own digits in the name of its channel.
    pub(super) fn mark(&self) -> &str {
        &self.channel[CHANNELS.len()..]
    }

    /// How long the server must not be asked for locks yet.
    pub(super) fn quarantine(&self) -> Option<Duration> {
        let mut known = locked(&self.known);
        let (until, now) = (known.quarantined?, Clock::boottime().now());
        if until <= now {
            known.quarantined = None;
            return None;
        }
        Some(until.since(now))
    }

    /// What a user should know of this server.
    pub(super) fn warnings(&self) -> Vec<String> {
        locked(&self.known).warnings.clone()
    }
}

impl Known {
    fn saw(&mut self, server: &Server, options: &Options) {
        let was_restarted = self.run_id.as_ref().is_some_and(|known| *known != server.run_id);
        self.run_id = Some(server.run_id.clone());
        self.warnings = server.warnings();
        let left = options.max_ttl.saturating_sub(server.uptime);
        let applies = match options.quarantine {
            Quarantine::Off => false,
            Quarantine::Strict => true,
            Quarantine::Auto => was_restarted && !server.is_durable,
        };
        if applies && !left.is_zero() {
            self.quarantined = Some(Clock::boottime().now().after(left));
        }
    }
}
